"""``format("kstore")`` as a sink of several streams, each of which is held and killed at a step."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core.spark import spec_json
from kstore_core.spark.source.datasource import KStoreSource
from kstore_core.spark.source.sink import StreamSink
from tests.spark.held_streams import kills_of
from tests.spark.logs import SHARDS, SPEC
from tests.spark.streams import AVAILABLE, epochs_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType


class LethalSink(StreamSink):
    """The sink, each of whose steps may be the last; the next kill is armed behind all of them."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        self._kills = kills_of(Path(options["path"]).parent)

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
        return LethalSink(self.options, schema, overwrite)


def sinks(spark: SparkSession, scratch: str, names: Sequence[str]) -> None:
    """Stream what there is in ``in`` into a root for each name, all of them at once."""
    places = [Path(scratch, name) for name in names]
    spark.dataSource.register(LethalSource)
    epochs = epochs_of(spark, Path(scratch, "in"))
    if any("driver" in kill for place in places for kill in kills_of(place).left()):
        gateway: Any = spark.sparkContext._gateway
        arguments = (places, gateway.proc.pid)
        threading.Thread(target=_kill_when_held, args=arguments, daemon=True).start()
    for query in [_begin(epochs, place) for place in places]:
        query.awaitTermination()


def _kill_when_held(places: Sequence[Path], jvm: int) -> None:
    """Wait until each stream is held at its step, and kill the driver."""
    while not all((place / "kills" / "held").exists() for place in places):
        time.sleep(0.05)
    for process in (jvm, os.getpid()):
        os.kill(process, signal.SIGKILL)


def _begin(epochs: DataFrame, place: Path) -> StreamingQuery:
    kills_of(place).arm()
    writer = epochs.writeStream.format("kstore-lethal").trigger(**AVAILABLE)
    writer = writer.options(spec=spec_json(SPEC), partitions=str(SHARDS), engine="lmdb")
    return writer.option("checkpointLocation", str(place / "checkpoint")).start(str(place / "root"))
