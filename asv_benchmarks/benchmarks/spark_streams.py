"""Milliseconds per batch of streams that are joined as of a time, or processed with state."""

from __future__ import annotations

import statistics
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from kstore_core import serdes, stores

from .spark_data import SHARDS, Data, checksum
from .spark_joins import COLUMNS

TOTALS = stores.timestamped_key_value("totals", key=serdes.UTF8, value=serdes.INT64)
TOTALS_SCHEMA = "who string, total long"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_WARM = 2


class Stream:
    """Rows as a stream, from which each query reads one file per batch."""

    def __init__(self, data: Data, name: str, sizes: list[int]) -> None:
        self.data = data
        self.name = name
        self.rows = data.batches(name, sizes)

    def milliseconds(self, made: Any) -> float:
        """Return the median time of a batch in ms, without the first batches, which are slower."""
        took = self._run(made.writeStream.format("noop"))
        return statistics.median(took[_WARM:])

    def milliseconds_each(self, function: Callable[[Any], None]) -> float:
        """Return the median time of a batch in ms if ``function`` is called with each batch."""
        took = self._run(self.rows.writeStream.foreachBatch(lambda df, _: function(df)))
        return statistics.median(took[_WARM:])

    def result(self, made: Any) -> tuple[int, int]:
        """Return the checksum of all rows that a stream returns."""
        target = str(self.data.scratch / f"result-{uuid.uuid4().hex}")
        self._run(made.writeStream.format("parquet").option("path", target))
        return checksum(self.data.spark.read.parquet(target).select(*made.columns))

    def batch(self) -> Any:
        """Return all rows of the stream as a batch DataFrame."""
        return self.data.spark.read.parquet(str(self.data.scratch / self.name))

    def _run(self, writer: Any) -> list[float]:
        place = str(self.data.scratch / f"checkpoint-{uuid.uuid4().hex}")
        query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
        query.awaitTermination()
        done = [json_progress(progress) for progress in query.recentProgress]
        return [took for rows, took in done if rows]


def json_progress(progress: Any) -> tuple[int, float]:
    """Return the number of rows of a batch, and the batch's time in ms."""
    return progress["numInputRows"], progress["durationMs"]["triggerExecution"]


def joined_as_of_time(stream: Stream) -> Any:
    """Return the stream, joined by kstore's temporal join."""
    from kstore_core.spark import temporal_join

    root = stream.data.root
    found = temporal_join(stream.rows, root, key="who", timestamp="at", prefix="")
    return found.select(*COLUMNS)


def asof_joined(data: Data, rows: Any) -> Any:
    """Join rows with a static table by Spark's native ASOF JOIN."""
    spark = data.spark
    spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
    data.log.createOrReplaceTempView("log")
    rows.createOrReplaceTempView("batch")
    return rows.sparkSession.sql(
        "SELECT r.number, l.value, l.timestamp, l.headers FROM batch r LEFT ASOF JOIN log l "
        "MATCH_CONDITION (r.at >= l.timestamp) ON r.who = l.key"
    )


def totals_by_map_state(stream: Stream) -> Any:
    """Return a running total for each key, which map_state keeps."""
    from kstore_core.spark import map_state

    def add(key: str, rows: Any, store: Any) -> Iterator[tuple[str, int]]:
        """Yield the key and its total after the batch."""
        known = store.get(key)
        total = (0 if known is None else known.value) + sum(row.number for row in rows)
        store.put(key, total, timestamp=0)
        yield key, total

    root = stream.data.scratch / f"totals-{uuid.uuid4().hex}"  # a root belongs to one query
    return map_state(
        stream.rows, add, TOTALS, root=root, schema=TOTALS_SCHEMA, key="who", partitions=SHARDS
    )


def totals_by_transform_with_state(stream: Stream) -> Any:
    """Return the same totals by Spark's transformWithState in Python, with Spark's RocksDB."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Add(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "total long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            known = self.total.get()[0] if self.total.exists() else 0
            total = known + sum(row.number for row in rows)
            self.total.update((total,))
            yield Row(who=key[0], total=total)

        def close(self) -> None:
            pass

    spark = stream.data.spark
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
    grouped = stream.rows.groupBy("who")
    return grouped.transformWithState(Add(), TOTALS_SCHEMA, "append", "none")
