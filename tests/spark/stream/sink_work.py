"""``format("kstore")`` as a sink of several streams, each of which is held and killed at a step."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core.spark import spec_json
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.frames import spark_schema
from kstore_core.spark.source.datasource import KStoreSource
from kstore_core.spark.source.write_options import sink_options
from kstore_core.spark.stream.sink import SinkArguments, StreamSink
from tests.spark.support import inboxes
from tests.spark.support.held_streams import kills_of, planned_epochs, run_held
from tests.spark.support.logs import COLUMNS, SHARDS, SPEC, Record, log_table
from tests.spark.support.streams import AVAILABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

OPTIONS = {"spec": spec_json(SPEC), "partitions": str(SHARDS)}


class LethalSink(StreamSink):
    """The sink, each of whose steps may be the last; the next kill is armed behind all of them."""

    def __init__(self, arguments: SinkArguments, schema: StructType, overwrite: bool) -> None:
        super().__init__(arguments, schema, overwrite)
        self._kills = kills_of(arguments.root.path.parent)

    def _step(self, name: str, shard: int | None) -> None:
        self._kills(name, shard)
        if name == "cleared":
            self._kills.arm()


class LethalSource(KStoreSource):
    """Where Spark finds it."""

    @classmethod
    def name(cls) -> str:
        """What ``format()`` takes."""
        return "kstore-lethal"

    def streamWriter(self, schema: StructType, overwrite: bool) -> LethalSink:  # noqa: N802
        """The sink."""
        return LethalSink(sink_options(self.options), schema, overwrite)


def sinks(spark: SparkSession, scratch: str, names: Sequence[str]) -> None:
    """Stream what there is in ``in`` into a root for each name, all of them at once."""
    spark.dataSource.register(LethalSource)
    run_held(spark, scratch, names, partial(_begin, planned_epochs(spark, scratch)))


def _begin(epochs: DataFrame, place: Path) -> StreamingQuery:
    kills_of(place).arm()
    writer = epochs.writeStream.format("kstore-lethal").trigger(**AVAILABLE)
    writer = writer.options(spec=spec_json(SPEC), partitions=str(SHARDS), engine="lmdb")
    return writer.option("checkpointLocation", str(place / "checkpoint")).start(str(place / "root"))


def sink(root: Path | Root, columns: Any = COLUMNS, **options: str) -> StreamSink:
    """The sink of a log with these columns."""
    schema = spark_schema(log_table([]).select(list(columns)).schema)
    path = str(root) if isinstance(root, Path) else "/"
    arguments = sink_options({**OPTIONS, "path": path, **options})
    if isinstance(root, Root):
        arguments = dataclasses.replace(arguments, root=root)
    return StreamSink(arguments, schema, False)


def received(
    root: Path | Root, epoch: int, tasks: list[list[Record]], columns: Any = COLUMNS
) -> list[Any]:
    """What tasks with these records answer."""
    rows = (log_table(records).select(list(columns)) for records in tasks)
    return inboxes.received(root, epoch, rows)
