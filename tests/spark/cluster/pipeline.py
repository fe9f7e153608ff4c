"""The pipeline of the README, with streams, from an empty root; the driver of a cluster runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core import serdes, stores
from kstore_core.arrow import headers_type
from kstore_core.spark import (
    check_cluster,
    map_state,
    read_metadata,
    read_store,
    spec_json,
    stream_into,
    temporal_join,
    vacuum,
    verify_root,
    write_store,
)
from tests.spark.support import logs
from tests.spark.support.streams import AVAILABLE
from tests.support.page_runs import blocks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
LOG = logs.make_log(17, 240, PARTITIONS)
TIME = sorted(record.timestamp for record in LOG)[180]
FOUND = stores.key_value("found", key=serdes.BYTES, value=serdes.INT64)
DAY_MS = 86_400_000


def run_pipeline(spark: SparkSession, root: str, place: str) -> dict[str, Any]:
    """Run every step with a root that does not exist, and return the contents after each step.

    ``place`` is a directory of the driver for the checkpoints of streams.
    """
    workers = check_cluster(spark, f"{root}/batch", tasks=2)
    return {
        "engines": {"rocksdb", "lmdb"} <= {name for each in workers for name in each.engines},
        "readme": _readme(spark, f"{root}/readme"),
        **_batch(spark, f"{root}/batch"),
        **_streams(spark, root, Path(place)),
    }


def _readme(spark: SparkSession, root: str) -> list[Any]:
    """What the block of the README finds."""
    import pyarrow as pa

    times = [1_421_300_000_000, 1_421_400_000_000]
    changelog = {
        "key": pa.array([b"CHF", b"CHF"]),
        "value": pa.array([serdes.FLOAT64.encode(rate) for rate in (1.2010, 1.0280)]),
        "timestamp": pa.array([1_421_247_600_000, 1_421_334_000_000]),
        "headers": pa.array([[{"key": "source", "value": b"ECB"}]] * 2, headers_type()),
    }
    names: dict[str, Any] = {
        "spark": spark,
        "changelog": spark.createDataFrame(pa.table(changelog)),
        "payments": spark.createDataFrame(pa.table({"currency": ["CHF"] * 2, "time": times})),
        "rates": stores.versioned_key_value_with_headers(
            "rates", history_retention_ms=DAY_MS, key=serdes.UTF8, value=serdes.FLOAT64
        ),
    }
    (text,) = (text for language, text in blocks("README.md") if language == "py")
    exec(compile(text.replace("/data/rates", root), "README.md", "exec"), names)
    rates = [row.value for row in names["then"].collect()]
    return [rates, sorted((row.time, row.table_value) for row in names["joined"].collect())]


def _batch(spark: SparkSession, root: str) -> dict[str, Any]:
    """A write, an append, reads, a check and a vacuum."""
    half = len(LOG) // 2
    write_store(logs.log_frame(spark, LOG[:half]), root, logs.SPEC, partitions=PARTITIONS)
    first = _history(spark, root)
    appended = write_store(logs.log_frame(spark, LOG[half:]), root)
    as_of = read_store(spark, root, as_of=TIME, timestamps="millis")
    verified = verify_root(root)
    gone = vacuum(root, grace_s=0, keep_versions=1)
    return {
        "first": first,
        "appended": (appended.version, appended.records),
        "as of": logs.read_rows(as_of),
        "verified": (verified.findings, verified.counts.rows),
        "vacuumed": (gone.versions, bool(gone.files)),
        "versions": [row.version for row in read_metadata(spark, root, "versions").collect()],
        "batch": _history(spark, root),
    }


def _streams(spark: SparkSession, root: str, place: Path) -> dict[str, Any]:
    """A stream into a store, and a stream that is joined and counted; both are started twice.

    The sink gets the first half of the log.
    """
    emitted: list[tuple[int, list[Any]]] = []
    counted: list[tuple[int, list[Any]]] = []

    def emit(changes: DataFrame, epoch: int) -> None:
        rows = changes.select("key", "value", "partition").collect()
        emitted.append((epoch, sorted((bytes(key), value, shard) for key, value, shard in rows)))

    def keep(counts: DataFrame, epoch: int) -> None:
        counted.append((epoch, sorted((bytes(key), count) for key, count in counts.collect())))

    for _ in range(2):  # Each start has half of the log.
        stream_into(
            _records(spark),
            f"{root}/streamed",
            checkpoint=place / "streamed",
            emit=emit,
            spec=logs.SPEC,
            partitions=PARTITIONS,
            trigger=AVAILABLE,
        ).awaitTermination()
        joined = temporal_join(_records(spark), f"{root}/batch", key="key", timestamp="timestamp")
        found = map_state(
            joined.select("key", "table_value"),
            count_found,
            FOUND,
            root=f"{root}/states",
            schema="key binary, found bigint",
            partitions=2,
        )
        writer = found.writeStream.foreachBatch(keep).trigger(**AVAILABLE)
        writer.option("checkpointLocation", str(place / "counted")).start().awaitTermination()
    sink = _records(spark).writeStream.format("kstore").trigger(**AVAILABLE)
    sink = sink.options(spec=spec_json(logs.SPEC), partitions=PARTITIONS)
    sink = sink.option("checkpointLocation", str(place / "half"))
    sink.start(f"{root}/half").awaitTermination()
    return {
        "streamed": _history(spark, f"{root}/streamed"),
        "half": _history(spark, f"{root}/half"),
        "emitted": emitted,
        "counted": counted,
    }


def count_found(key: bytes, rows: Any, store: Any) -> Any:
    """A row for each key: the number of its rows so far that were joined with a version."""
    count = (store.get(key) or 0) + sum(row.table_value is not None for row in rows)
    store.put(key, count)
    yield key, count


def _records(spark: SparkSession) -> DataFrame:
    """The log as a stream. Spark's source counts rows, so no directory is needed."""
    source = spark.readStream.format("rate-micro-batch").option("numPartitions", 1)
    numbers = source.option("rowsPerBatch", len(LOG) // 2).load().select("value")
    return numbers.mapInArrow(records_at, logs.log_frame(spark, LOG).schema)


def records_at(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of the log with the numbers of the rows."""
    for batch in batches:
        records = [LOG[number] for number in batch.column(0).to_pylist() if number < len(LOG)]
        yield from logs.log_table(records).to_batches()


def _history(spark: SparkSession, root: str) -> list[logs.Version]:
    return logs.read_rows(read_store(spark, root, history=True, timestamps="millis"))
