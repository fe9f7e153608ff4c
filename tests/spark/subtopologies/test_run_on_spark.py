"""Topologies as streaming queries: sources, shuffles, sinks, restarts, and refused arguments."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import Headers, open_state, serdes, stores
from kstore_core.codec import partition
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.processing import Context, Processor, Record, TestDriver, Topology
from kstore_core.spark import fetch_tasks, rescale, run_on_spark
from tests.spark.subtopologies.task_runs import TEXT, adding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RATES = stores.versioned_key_value("rates", 100_000, key=TEXT, value=serdes.INT64)
REVENUE = stores.timestamped_key_value_with_headers("revenue", key=TEXT, value=serdes.INT64)
SCHEMA = (
    "key string, value string, timestamp bigint, partition int, offset bigint, "
    "headers array<struct<key:string,value:binary>>"
)


def keep_rate(context: Context, rate: Record[str, str]) -> None:
    context.store("rates").put(rate.key, int(rate.value))


def price(context: Context, order: Record[str, str]) -> None:
    """Price ``<customer> <amount>`` of a currency, and key it by the customer."""
    rate = context.store("rates").get(order.key, as_of=order.timestamp)
    customer, _, amount = order.value.partition(" ")
    if rate is None:
        context.forward(order, to="unpriced")
    else:
        priced = order.replace(key=customer, value=str(int(amount) * rate.value))
        context.forward(priced, to="priced")


def add(context: Context, priced: Record[str, str]) -> None:
    store = context.store("revenue")
    known = store.get(priced.key)
    total = int(priced.value) + (0 if known is None else known.value)
    store.put(priced.key, total)
    context.forward(priced.replace(value=str(total)))


def pricing() -> Topology:
    """Two sub-topologies: orders are priced by currency, and added up by customer."""
    texts: dict[str, Any] = {"key": TEXT, "value": TEXT}
    return (
        Topology()
        .add_source("rates", "rates", **texts)
        .add_source("orders", "orders", **texts)
        .add_processor("keep rate", keep_rate, ["rates"], stores=[RATES])
        .add_processor("price", price, ["orders"], stores=[RATES])
        .add_sink("priced", "priced", ["price"], **texts)
        .add_sink("unpriced", "unpriced", ["price"], **texts)
        .add_source("customers", "priced", **texts)
        .add_processor("add", add, ["customers"], stores=[REVENUE])
        .add_sink("totals", "totals", ["add"], **texts)
    )


Line = tuple[str, str, str, int]
BATCHES: list[list[Line]] = [
    [
        ("rates", "EUR", "2", 0),
        ("rates", "CHF", "3", 0),
        ("orders", "EUR", "ann 10", 5),
        ("orders", "CHF", "bob 1", 6),
        ("orders", "USD", "bob 1", 7),
    ],
    [("orders", "EUR", "bob 4", 20), ("rates", "EUR", "5", 15), ("orders", "EUR", "ann 1", 14)],
    [("orders", "CHF", "ann 7", 30), ("orders", "EUR", "ann 1", 31)],
]


class Streams:
    """The topics of a test as streaming DataFrames, and what the sinks got."""

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self.spark = spark
        self.scratch = scratch
        self.offsets: dict[str, int] = {}
        self.got: list[tuple[str, int, list[Any]]] = []

    def write(self, lines: list[Line]) -> None:
        """Append records to the topics."""
        for topic in {line[0] for line in lines}:
            rows = []
            for _, key, value, at in (line for line in lines if line[0] == topic):
                offset = self.offsets[topic] = self.offsets.get(topic, -1) + 1
                rows.append((key, value, at, 0, offset, [("n", str(at).encode())]))
            table = self.spark.createDataFrame(rows, SCHEMA)
            table.coalesce(1).write.mode("append").parquet(str(self.scratch / topic))

    def source(self, topic: str) -> DataFrame:
        """The stream of a topic."""
        return self.spark.readStream.schema(SCHEMA).parquet(str(self.scratch / topic))

    def sink(self, topic: str) -> Any:
        """A sink that keeps the records."""

        def keep(df: DataFrame, epoch: int) -> None:
            rows = df.selectExpr(
                "key", "value", "unix_millis(timestamp)", "headers", "partition", "offset"
            )
            rows = rows.orderBy("partition", "offset").collect()
            self.got.append((topic, epoch, [tuple(row) for row in rows]))

        return keep

    def run(self, topology: Topology, topics: list[str], **given: Any) -> None:
        """Run the topology until it has processed all records."""
        settings: dict[str, Any] = {
            "sources": {topic: self.source(topic) for topic in topics},
            "root": self.scratch / "root",
            "checkpoint": self.scratch / "checkpoint",
            "partitions": 3,
            "trigger": {"availableNow": True},
        }
        query = run_on_spark(topology, **{**settings, **given})
        query.awaitTermination()

    def records(self, topic: str) -> list[tuple[Any, ...]]:
        """The key, value, time and headers of all records that the sink of a topic got."""
        return [
            (*row[:3], [tuple(pair) for pair in row[3]])
            for name, _, rows in self.got
            if name == topic
            for row in rows
        ]


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path, own_cache: None) -> Streams:
    return Streams(spark, tmp_path)


def driven(batches: list[list[Line]]) -> dict[str, list[tuple[Any, ...]]]:
    """What the test driver gives for the records, which it gets in the order of Spark's tasks."""
    with TestDriver(pricing(), start_ms=0) as driver:
        for lines in batches:
            for topic, key, value, time in sorted(lines, key=lambda line: line[3]):
                headers = [("n", str(time).encode())]
                driver.pipe_input(topic, key, value, timestamp=time, headers=headers)
        return {
            topic: [
                (one.key.encode(), one.value.encode(), one.timestamp, [*map(tuple, one.headers)])
                for one in driver.read_output(topic)
            ]
            for topic in ("unpriced", "totals")
        }


@pytest.mark.parametrize("engine", ["lmdb", pytest.param("rocksdb", marks=pytest.mark.slow)])
def test_a_query_gives_what_the_test_driver_gives(
    streams: Streams, tmp_path: Path, engine: str
) -> None:
    """Three runs of a query with two sub-topologies, and then its stores."""
    topology = pricing()
    for lines in BATCHES:
        streams.write(lines)
        streams.run(
            topology,
            ["rates", "orders"],
            sinks={"unpriced": streams.sink("unpriced"), "totals": streams.sink("totals")},
            engine=engine,
        )
    expected = driven(BATCHES)
    assert streams.records("unpriced") == expected["unpriced"]
    for customer in (b"ann", b"bob"):  # of different shards, so only their own order is known
        assert [one for one in streams.records("totals") if one[0] == customer] == [
            one for one in expected["totals"] if one[0] == customer
        ]
    found = {}
    for path in fetch_tasks(tmp_path / "root", tmp_path / "tasks"):
        if path.name.startswith("1_"):
            with open_state(path, read_only=True) as state:
                for key, total in state.open(REVENUE).all():
                    assert path.name == f"1_{partition(key.encode(), 3)}"
                    found[key] = (total.value, total.timestamp, list(total.headers))
    assert found == {
        "ann": (48, 31, [("n", b"31")]),
        "bob": (23, 20, [("n", b"20")]),
    }


def test_a_micro_batch_that_fails_later_gives_the_same_rows_again(streams: Streams) -> None:
    """A sink fails, and the query runs the micro-batch again after a restart."""
    streams.write(BATCHES[0])

    def broken(df: DataFrame, epoch: int) -> None:
        streams.sink("totals")(df, epoch)
        raise RuntimeError("the sink is down")

    arguments = pricing(), ["rates", "orders"]
    with pytest.raises(Exception, match="the sink is down"):
        streams.run(*arguments, sinks={"unpriced": None, "totals": broken})
    streams.run(*arguments, sinks={"unpriced": None, "totals": streams.sink("totals")})
    (_, first, rows), (_, second, again) = streams.got
    assert (first, rows) == (second, again)
    assert len(rows) == 2


def test_a_new_checkpoint_at_the_same_place_is_refused(streams: Streams, tmp_path: Path) -> None:
    streams.write([("in", "a", "1", 0)])
    streams.run(adding(), ["in"], sinks={"out": streams.sink("out")})
    shutil.rmtree(tmp_path / "checkpoint")
    streams.write([("in", "a", "2", 1)])
    with pytest.raises(Exception, match="belongs to the streaming query"):
        streams.run(adding(), ["in"], sinks={"out": streams.sink("out")})
    assert len(streams.records("out")) == 1


def test_a_worker_that_dies_counts_nothing_twice(streams: Streams, tmp_path: Path) -> None:
    """The process of a task is killed by a processor."""
    place = tmp_path / "killed"

    def deadly(context: Context, record: Record[str, str]) -> None:
        context.store("totals").put(record.key, 1)
        if record.value == "4" and not place.exists():
            place.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def topology() -> Topology:
        made = adding()
        made.add_processor("deadly", deadly, ["in"], stores=[made.specs["totals"]])
        return made

    streams.write([("in", "a", str(number), number) for number in range(6)])
    with pytest.raises(Exception, match=r"(?s)Python worker exited|crashed|terminated"):
        streams.run(topology(), ["in"], sinks={"out": streams.sink("out")})
    assert place.exists()
    streams.run(topology(), ["in"], sinks={"out": streams.sink("out")})
    assert [value for _, value, _, _ in streams.records("out")] == [
        str(number + (1 if number else 0)).encode() for number in range(6)
    ]


class Ticking(Processor):
    def init(self, context: Context) -> None:
        super().init(context)
        context.schedule(1, "wall_clock", self.tick)

    def tick(self, now: int) -> None:
        self.context.forward(Record("tick", "", now))

    def process(self, record: Record[str, str]) -> None:
        pass


def test_the_wall_clock_runs_without_records(streams: Streams) -> None:
    topology = (
        Topology()
        .add_source("in", "in", key=TEXT, value=TEXT)
        .add_processor("ticking", Ticking, ["in"])
        .add_sink("out", "out", ["ticking"], key=TEXT, value=TEXT)
    )
    streams.write([("in", "a", "", 0)])
    query = run_on_spark(
        topology,
        sources={"in": streams.source("in")},
        sinks={"out": streams.sink("out")},
        root=streams.scratch / "root",
        checkpoint=streams.scratch / "checkpoint",
        partitions=1,
        query_name="ticking",
        wall_clock=True,
    )
    try:
        assert query.name == "ticking"
        while sum(len(rows) for _, _, rows in streams.got) < 2:
            assert query.isActive, query.exception()
            time.sleep(0.1)
    finally:
        query.stop()


def test_an_error_of_a_processor_names_the_node_and_the_record(streams: Streams) -> None:
    streams.write([("in", "a", "1", 0), ("in", "a", "no number", 1)])
    with pytest.raises(Exception, match=r"(?s)the node 'add up' raised.*it processed in-0@1"):
        streams.run(adding(), ["in"], sinks={"out": None})


def test_wrong_arguments_are_refused(streams: Streams, tmp_path: Path) -> None:
    streams.write([("in", "a", "1", 0)])
    good = streams.source("in")
    out = {"out": None}

    def run(topology: Any = None, **given: Any) -> None:
        settings = {"sources": {"in": good}, "sinks": out, "root": tmp_path / "r"}
        run_on_spark(topology or adding(), **{**settings, "checkpoint": "c", **given})

    with pytest.raises(TypeError, match="topology must be a Topology"):
        run("adding")
    with pytest.raises(SpecError, match="sources does not name 'in', a topic that a source"):
        run(sources={})
    with pytest.raises(SpecError, match=r"'on', which is no topic that a source .* reads \('in'\)"):
        run(sources={"in": good, "on": good})
    with pytest.raises(SpecError, match="sinks does not name 'out', a topic that a sink"):
        run(sinks={})
    with pytest.raises(TypeError, match="the sink of the topic 'out' must be a function"):
        run(sinks={"out": "parquet"})
    with pytest.raises(TypeError, match="must be a streaming DataFrame"):
        run(sources={"in": streams.spark.range(1)})
    for bad, why in [
        (good.drop("timestamp"), "no column 'timestamp'"),
        (good.selectExpr("1 key", "value", "timestamp"), "'key' is int, not binary or string"),
        (good.withColumnRenamed("key", "value"), "several columns 'value'|no column 'key'"),
        (good.withColumn("headers", good.value), "'headers' is string"),
        (good.drop("offset"), "only one of the columns 'partition' and 'offset'"),
    ]:
        with pytest.raises(SpecError, match=f"the source of the topic 'in' .*({why})"):
            run(sources={"in": bad})
    with pytest.raises(UnsupportedError, match="memory"):
        run(engine="memory")
    with pytest.raises(SpecError, match="compact_every=0"):
        run(compact_every=0)
    with pytest.raises(SpecError, match="durability"):
        run(durability="none")
    named = stores.key_value("kstore-progress")
    with pytest.raises(SpecError, match="cannot have the name 'kstore-progress'"):
        run(adding().add_processor("p", print, ["in"], stores=[named]))
    circle = adding().add_source("back", "out").add_processor("p", print, ["back"])
    circle.add_sink("again", "in", ["p"])
    with pytest.raises(UnsupportedError, match=r"the sub-topologies .* pass records in a circle"):
        run(circle, sinks={"out": None, "in": None})
    assert not (tmp_path / "r").exists()


def test_a_root_belongs_to_one_kind_of_query(streams: Streams, tmp_path: Path) -> None:
    streams.write([("in", "a", "1", 0)])
    streams.run(adding(), ["in"], sinks={"out": None})
    with pytest.raises(UnsupportedError, match="number of shards cannot be changed"):
        rescale(tmp_path / "root", partitions=2, store="subtopology-0", spark=streams.spark)
    streams.write([("in", "a", "1", 1)])
    with pytest.raises(Exception, match="belongs to the streaming query"):
        streams.run(adding(), ["in"], sinks={"out": None}, checkpoint=tmp_path / "another")
    (tmp_path / "streamed/live").mkdir(parents=True)
    (tmp_path / "streamed/live/stream.json").write_text(
        '{"format": 1, "query": "q", "checkpoint": "c", "store": "s", "shape": "key_value", '
        '"engine": "lmdb", "partitions": 2, "partition_by": "key"}'
    )
    with pytest.raises(StateError, match="belongs to a stream of stream_into"):
        streams.run(adding(), ["in"], sinks={"out": None}, root=tmp_path / "streamed")


def test_rows_with_headers_of_any_kind_reach_the_processors(streams: Streams) -> None:
    """Null keys, null values, null headers, and headers with null values."""

    def tell(context: Context, record: Record[Any, Any]) -> None:
        headers = Headers([(str(len(list(record.headers))), None)])
        context.forward(record.replace(headers=headers))

    topology = (
        Topology()
        .add_source("in", "in")
        .add_processor("tell", tell, ["in"])
        .add_sink("out", "out", ["tell"])
    )
    rows = [(None, b"v", 1, None), (b"k", None, 2, []), (b"", b"", 3, [("h", None), ("h", b"")])]
    schema = (
        "key binary, value binary, timestamp bigint, headers array<struct<key:string,value:binary>>"
    )
    table = streams.spark.createDataFrame(rows, schema)
    table.coalesce(1).write.parquet(str(streams.scratch / "in"))
    source = streams.spark.readStream.schema(schema).parquet(str(streams.scratch / "in"))
    streams.run(topology, [], sources={"in": source}, sinks={"out": streams.sink("out")})
    assert sorted(streams.records("out"), key=lambda one: one[2]) == [
        (None, b"v", 1, [("0", None)]),
        (b"k", None, 2, [("0", None)]),
        (b"", b"", 3, [("2", None)]),
    ]
