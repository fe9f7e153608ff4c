"""An archive of Spark's classes, with which the JVM of a Spark driver starts in half the time.

A run of all tests starts Spark about 100 times, and a start mostly loads classes. Java can share
the loaded classes of an earlier process through a file. Without the file, or with the file of
another Java or Spark, a start is merely as slow as before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.places import ROOT

__all__ = ["QUICK", "driver_options", "start_making"]

_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
QUICK = (*_QUICK, "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""The options of a JVM that tests start.

Tests end before the optimising compiler and a parallel collector pay. To verify the classes of
releases would take a tenth of a start.
"""

# Without the optimising compiler, Java keeps only 48 MiB of compiled code. A driver of Spark would
# compile again what it had to remove.
_ROOM = "-XX:ReservedCodeCacheSize=240m"


def driver_options(archive: Path) -> str:
    """Return the options of the JVM of a driver."""
    quick = " ".join((*QUICK, _ROOM))
    if " " in str(archive):
        return quick
    # Java would print a warning about an archive that it cannot use, into the output of a test.
    return f"{quick} -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:disable"


def start_making(archive: Path) -> subprocess.Popen[bytes]:
    """Start a process that makes the archive beside the tests."""
    with tempfile.NamedTemporaryFile(dir=archive.parent, suffix=".new", delete=False) as new:
        # From an archive of classes that were not verified, a driver starts more slowly.
        options = " ".join(
            (*_QUICK, _ROOM, f"-XX:ArchiveClassesAtExit={new.name}", "-Xlog:disable")
        )
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.class_archive", new.name, str(archive)],
        cwd=ROOT,
        env={**os.environ, "SPARK_SUBMIT_OPTS": options},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _use_spark(place: Path) -> None:
    """Run a small query of each kind, so that Spark loads their classes."""
    from kstore_core.spark import local_session

    spark = local_session(
        "kstore-classes",
        shuffle_partitions=1,
        config={"spark.sql.warehouse.dir": str(place / "warehouse")},
    )
    rows = spark.range(10).selectExpr("string(id) key", "id number")
    rows.groupBy("key").count().write.parquet(str(place / "rows"))
    written = spark.read.parquet(str(place / "rows"))
    written.mapInArrow(lambda batches: batches, written.schema).collect()
    stream = spark.readStream.schema(written.schema).parquet(str(place / "rows")).writeStream
    query = stream.foreachBatch(lambda batch, _: batch.collect() and None)
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def main(new: str, archive: str) -> None:
    """Use Spark, end its JVM, and put the archive in its place."""
    from pyspark import SparkContext

    with tempfile.TemporaryDirectory() as place:
        _use_spark(Path(place))
        gateway = SparkContext._gateway
        assert gateway is not None
        gateway.proc.stdin.close()  # Java writes the archive when it ends.
        gateway.proc.wait()
    Path(new).replace(archive)


if __name__ == "__main__":
    main(*sys.argv[1:])
