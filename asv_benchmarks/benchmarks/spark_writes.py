"""Writes of a log: a store of kstore, and Spark's own Parquet files with the same shards and order.

An append of few records is compared with Spark jobs that read the same records and write nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .spark_data import HOUR_MS, SHARDS, SPEC, VERSIONS, Data, log_table, run

FEW = 100
"""The number of records of a small append."""

COLUMNS = ("key", "value", "timestamp", "headers")


def routed(log: Any) -> Any:
    """Move the records of a log to their shards, as write_store does."""
    from kstore_core.spark.shards.frames import route_log

    return route_log(log, SPEC, by_key=True, partitions=SHARDS)


def sorted_parquet(data: Data) -> Path:
    """Write the log with Spark alone: a Parquet file for each shard, sorted by key and time."""
    place = data.scratch / "sorted"
    ordered = routed(data.log).sortWithinPartitions("key", "timestamp").select(*COLUMNS)
    ordered.write.mode("overwrite").parquet(str(place))
    return place


def few_records(data: Data) -> Any:
    """Return a log of a few keys, with times after those of the whole log."""
    place = data.scratch / "few.parquet"
    if not place.exists():
        few = log_table(data.keys).slice(0, FEW)
        later = pa.array([VERSIONS * HOUR_MS] * len(few), pa.int64())
        at = few.schema.get_field_index("timestamp")
        pq.write_table(few.set_column(at, "timestamp", later), place)
    return data.spark.read.parquet(str(place))


def append(root: Path, log: Any) -> None:
    """Append records to a store as a new version."""
    from kstore_core.spark import write_store

    write_store(log, root, SPEC, partitions=SHARDS)


def empty_job(log: Any) -> None:
    """Read records, and shuffle them to one task per shard."""
    run(log.repartition(SHARDS, "key"))


def empty_python_job(log: Any) -> None:
    """Move records to their shards, to Python tasks that discard them."""

    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield from ()

    routed(log).mapInArrow(nothing, "nothing string").collect()
