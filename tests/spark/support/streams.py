"""Streams for tests: slices of a log as files, a file an epoch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from kstore_core.spark import stream_into
from tests.spark.support.logs import COLUMNS, SHARDS, SPEC, Record, log_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

AVAILABLE = {"availableNow": True}
_FIRST_TIME = 1_700_000_000


def add_epochs(source: Path, slices: Sequence[Sequence[Record]]) -> None:
    """Write each slice of a log as a file behind those that there are; none may be empty."""
    source.mkdir(parents=True, exist_ok=True)
    first = len(list(source.glob("*.parquet")))
    for number, records in enumerate(slices, first):
        place = source / f"{number:04}.parquet"
        scratch = source.with_name(f"{source.name}-{number}.tmp")
        pq.write_table(log_table(records), scratch)
        os.utime(scratch, (_FIRST_TIME + number, _FIRST_TIME + number))
        scratch.rename(place)


def slices_of(records: Sequence[Record], count: int) -> list[list[Record]]:
    """A log in so many slices, about equal."""
    size = -(-len(records) // count)
    return [list(records[start : start + size]) for start in range(0, len(records), size)]


def epochs_of(spark: SparkSession, source: Path, columns: Sequence[str] = COLUMNS) -> DataFrame:
    """The stream of these files, one an epoch."""
    schema = spark.read.parquet(str(source)).schema
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return files.parquet(str(source)).select(*columns)


def run(df: DataFrame, root: Path, checkpoint: Path, **options: Any) -> StreamingQuery:
    """Stream all that there is, and wait; raises what ended the query."""
    options = {"spec": SPEC, "partitions": SHARDS, "trigger": AVAILABLE, **options}
    query = stream_into(df, root, checkpoint=checkpoint, **options)
    query.awaitTermination()
    return query


def forget_last_epoch(checkpoint: Path) -> int:
    """Take away what Spark notes of the last epoch's end, so that it gives it again."""
    commits = sorted(
        (int(path.name), path) for path in (checkpoint / "commits").iterdir() if path.name.isdigit()
    )
    number, path = commits[-1]
    path.unlink()
    path.with_name(f".{number}.crc").unlink(missing_ok=True)
    return number


def steps_until(name: str, action: Callable[[], None]) -> Callable[[str, int | None], None]:
    """A step that does something at the first time that it is told of a name."""
    done: list[str] = []

    def step(told: str, shard: int | None) -> None:
        if told == name and not done:
            done.append(told)
            action()

    return step
