"""Topologies on Spark beside transformWithState: a count, a join as of a time, and sessions.

``python -m asv_benchmarks.benchmarks.spark_processors`` prints a table.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kstore_core import AggregationWithHeaders, Headers, Windowed, serdes, stores
from kstore_core.processing import Context, Record, Topology

TEXT = serdes.UTF8
SCHEMA = "topic string, key string, value string, timestamp timestamp"
COUNTS = stores.timestamped_key_value("counts", key=TEXT, value=serdes.INT64)
RATES = stores.versioned_key_value("rates", 10**12, key=TEXT, value=serdes.INT64)
SESSIONS = stores.session_with_headers("sessions", 10**12, key=TEXT, value=serdes.INT64)
GAP_MS = 60_000
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_WARM = 2


def count(context: Context, record: Record[str, str]) -> None:
    store = context.store("counts")
    known = store.get(record.key)
    number = 1 if known is None else known.value + 1
    store.put(record.key, number)
    context.forward(record.replace(value=str(number)))


def join(context: Context, record: Record[str, str]) -> None:
    """Keep a rate, or forward an order with the rate of its time."""
    store = context.store("rates")
    if record.value.startswith("r"):
        store.put(record.key, int(record.value[1:]))
        return
    rate = store.get(record.key, as_of=record.timestamp)
    context.forward(record.replace(value=str(-1 if rate is None else rate.value)))


def sessions(context: Context, record: Record[str, str]) -> None:
    """Merge a record with the sessions that it touches."""
    store, start, end, number = context.store("sessions"), record.timestamp, record.timestamp, 1
    for session, found in list(store.find_sessions(record.key, start - GAP_MS, end + GAP_MS)):
        start, end = min(start, session.start), max(end, session.end)
        number += found.aggregation
        store.remove(session)
    made = AggregationWithHeaders.make(number, Headers())
    store.put(Windowed(record.key, start, end), made)
    context.forward(record.replace(value=str(number)))


EXAMPLES: dict[str, tuple[Any, Any]] = {
    "count": (count, COUNTS),
    "join": (join, RATES),
    "sessions": (sessions, SESSIONS),
}


def topology(example: str) -> Topology:
    """Return the topology of an example, from the topic ``in`` to the topic ``out``."""
    function, spec = EXAMPLES[example]
    texts: dict[str, Any] = {"key": TEXT, "value": TEXT}
    made = Topology().add_source("in", "in", **texts)
    made.add_processor(example, function, ["in"], stores=[spec])
    return made.add_sink("out", "out", [example], **texts)


def stateful(example: str) -> Any:
    """Return the processor of an example for transformWithState."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.number = handle.getValueState("number", "number long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            number = self.number.get()[0] if self.number.exists() else 0
            for _ in rows:
                number += 1
                yield Row(key=key[0], value=str(number))
            self.number.update((number,))

        def close(self) -> None:
            pass

    class Join(Count):
        def init(self, handle: Any) -> None:
            self.rates = handle.getMapState("rates", "time long", "rate long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            known = {time[0]: rate[0] for time, rate in self.rates.iterator()}
            for row in sorted(rows, key=lambda row: row.timestamp):
                time = int(row.timestamp.timestamp() * 1000)
                if row.value.startswith("r"):
                    known[time] = int(row.value[1:])
                    self.rates.updateValue((time,), (known[time],))
                else:
                    valid = max((at for at in known if at <= time), default=None)
                    yield Row(key=key[0], value=str(-1 if valid is None else known[valid]))

    class Sessions(Count):
        def init(self, handle: Any) -> None:
            self.known = handle.getListState("sessions", "start long, end long, number long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            known = [tuple(one) for one in self.known.get()] if self.known.exists() else []
            for row in rows:
                start = end = int(row.timestamp.timestamp() * 1000)
                number, left = 1, []
                for one in known:
                    if one[0] <= end + GAP_MS and one[1] >= start - GAP_MS:
                        start, end = min(start, one[0]), max(end, one[1])
                        number += one[2]
                    else:
                        left.append(one)
                known = [*left, (start, end, number)]
                yield Row(key=key[0], value=str(number))
            self.known.put(known)

    return {"count": Count, "join": Join, "sessions": Sessions}[example]()


class Streams:
    """Files of records, from which each query reads one file per micro-batch."""

    def __init__(self, spark: Any, scratch: Path, rows: int, keys: int, batches: int = 6) -> None:
        self.spark = spark
        self.scratch = scratch
        for number in range(batches):
            value = "if(id % 4 = 0, concat('r', cast(id as string)), 'o')"
            spark.range(rows).selectExpr(
                "'in' topic",
                f"concat('k', cast(pmod(xxhash64(id, {number}), {keys}) as string)) key",
                f"{value} value",
                f"timestamp_millis(1000 + id * {batches} + {number}) timestamp",
            ).coalesce(1).write.mode("append").parquet(str(scratch / "in"))

    def source(self) -> Any:
        """Return the records as a stream."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.scratch / "in"))

    def by_processors(self, example: str) -> float:
        """Return the median time of a micro-batch in ms."""
        from kstore_core.spark import run_on_spark

        query = run_on_spark(
            topology(example),
            sources={"in": self.source()},
            sinks={"out": lambda df, _: df.write.format("noop").mode("overwrite").save()},
            root=self._place(),
            checkpoint=self._place(),
            trigger={"availableNow": True},
        )
        return _median(query)

    def by_transform_with_state(self, example: str) -> float:
        """Return the median time of a micro-batch in ms, with Spark's RocksDB."""
        self.spark.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
        grouped = self.source().groupBy("key")
        made = grouped.transformWithState(
            stateful(example), "key string, value string", "append", "none"
        )
        writer = made.writeStream.format("noop").option("checkpointLocation", str(self._place()))
        return _median(writer.trigger(availableNow=True).start())

    def _place(self) -> Path:
        return self.scratch / uuid.uuid4().hex


def _median(query: Any) -> float:
    query.awaitTermination()
    done = [one["durationMs"]["triggerExecution"] for one in query.recentProgress]
    return statistics.median(done[_WARM:])


def measured(rows: int, keys: int) -> Iterator[tuple[str, float, float]]:
    """Yield the name of each example, and the times of kstore and of transformWithState in ms."""
    from pyspark import cloudpickle

    from kstore_core.spark import local_session

    # The workers cannot import this module, whose path only asv knows.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark = local_session("processors", shuffle_partitions=2)
    with tempfile.TemporaryDirectory() as scratch:
        streams = Streams(spark, Path(scratch), rows, keys)
        ways: list[Callable[[str], float]] = [
            streams.by_processors,
            streams.by_transform_with_state,
        ]
        for example in EXAMPLES:
            ours, theirs = (way(example) for way in ways)
            yield example, ours, theirs


class Processors:
    """The time of a micro-batch of few records, which shows that the examples work."""

    timeout = 600
    unit = "ms"
    params = tuple(EXAMPLES)

    def setup_cache(self) -> dict[str, float]:
        return {name: ours for name, ours, _ in measured(200, 50)}

    setup_cache.timeout = 600  # type: ignore[attr-defined]

    def track_micro_batch(self, found: dict[str, float], example: str) -> float:
        return found[example]


def main() -> None:
    rows, keys = (int(given) for given in (sys.argv[1:] or ("100000", "50000")))
    sys.stdout.write(f"{rows:,} records in a micro-batch, {keys:,} keys\n\n")
    sys.stdout.write("| example | run_on_spark, ms | transformWithState, ms | ratio |\n")
    sys.stdout.write("|---|---:|---:|---:|\n")
    for name, ours, theirs in measured(rows, keys):
        sys.stdout.write(f"| {name} | {ours:,.0f} | {theirs:,.0f} | {theirs / ours:.1f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
