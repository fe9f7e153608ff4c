"""What the driver of a cluster is called to do, and roots that kill whoever uploads to them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from kstore_core.spark import check_cluster, read_store, temporal_join, write_store
from kstore_core.spark.root.root import Root
from tests.spark.support.local_cluster import die_with, parent_of
from tests.spark.support.logs import SHARDS, SPEC, Record, Version, log_frame, read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kstore_core.spark.cluster.check import Worker

LETHAL = "lethal"
"""The file beside a root that tells how the next task that uploads there ends."""


class LethalRoot(Root):
    """A root where the task that has uploaded a shard ends, before it can tell the driver."""

    def upload(self, *arguments: Any, **options: Any) -> Any:
        files = super().upload(*arguments, **options)
        lethal = Path(str(self)).with_name(LETHAL)
        try:
            how = lethal.read_text()
            if how != "for ever":
                lethal.unlink()  # of two tasks at once, one
        except FileNotFoundError:
            return files
        if how == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how != "for ever":
            die_with(parent_of(os.getppid()) if how == "executor" else int(how))
        raise OSError(5, "the disk is gone")


def write(spark: SparkSession, root: str, records: list[Record]) -> int:
    """Write the records as a new version; gives its number."""
    return write_store(log_frame(spark, records), root, SPEC, partitions=SHARDS).version


def write_lethally(spark: SparkSession, root: str, records: list[Record], how: str) -> int:
    """The same, where one task uploads, and then kills its worker, its executor or a process.

    ``for ever``: every task that has uploaded fails.
    """
    lethal = Path(root).with_name(LETHAL)
    lethal.write_text(how)
    with mock.patch.object(Root, "at", LethalRoot.at):
        version = write(spark, root, records)
    assert not lethal.exists(), "nothing was killed"
    return version


def read(spark: SparkSession, root: str) -> list[Version]:
    """Every version of every key."""
    return read_rows(read_store(spark, root, history=True, timestamps="millis"))


def read_source(spark: SparkSession, root: str) -> list[Version]:
    """The same, by the data source."""
    source = spark.read.format("kstore").option("history", "true").option("timestamps", "millis")
    return read_rows(source.load(root))


def join(spark: SparkSession, root: str, rows: list[tuple[bytes, int]]) -> list[Any]:
    """Per row its key, its time, and the value of the version that was valid then.

    Rows are brought to the shards of their keys, as for a store that is not small.
    """
    df = spark.createDataFrame(rows, "key binary, at bigint").repartition(4)
    joined = temporal_join(df, root, key="key", timestamp="at", broadcast_bytes=0)
    found = joined.select("key", "at", "table_value").collect()
    return sorted((bytes(r.key), r.at, r.table_value and bytes(r.table_value)) for r in found)


def wait_for_executors(spark: SparkSession, count: int) -> None:
    """Wait until there are so many: one that was killed is replaced after a while."""
    context: Any = spark.sparkContext
    while context._jsc.sc().getExecutorMemoryStatus().size() < 1 + count:  # and the driver
        time.sleep(0.1)


def look(spark: SparkSession, *arguments: Any, **options: Any) -> list[Worker]:
    return check_cluster(spark, *arguments, **options)
