"""Runs of the demo's topology in the test driver, on Spark and on Kafka, with equal results."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from kstore_core import Headers, open_state
from kstore_core.codec import partition
from kstore_core.demo.job import prepare_directory
from kstore_core.demo.orders import SESSIONS, orders_topology
from kstore_core.demo.rates import RateFile, changelog, read_rates
from kstore_core.demo.transactions import make_transactions
from kstore_core.errors import StateError
from kstore_core.processing import TestDriver
from kstore_core.serdes import FLOAT64

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Outcome", "Way", "are_equal", "inputs_of", "print_ways", "run_three_ways"]

_CUSTOMERS = 97
_PARTITIONS = 2
_LONG_MS = 2**53
_WAIT_S = 120.0


class Line(NamedTuple):
    """A record of an input topic; the key and the value are bytes."""

    topic: str
    key: bytes
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Outcome:
    """The results of one run. The results of all runs must be equal.

    Attributes
    ----------
    priced, dead : list
        The key, value, time and headers of the records of these topics, sorted.
    sessions : list
        The key, start, end, value and headers of all sessions of the store, sorted.
    """

    priced: list[Any]
    dead: list[Any]
    sessions: list[Any]


@dataclass(frozen=True)
class Way:
    """A run of the topology: the name of the runner, the results, and the duration in seconds."""

    name: str
    outcome: Outcome
    seconds: float


def run_three_ways(
    out: Path, progress: Callable[[str], Any], *, orders: int = 2000, servers: str | None = None
) -> list[Way]:
    """Run the topology in the test driver, on Spark, and on Kafka if ``servers`` is not None.

    The runs write their files to the directory ``out``. The directory must be new, empty, or from
    an earlier run.
    """
    prepare_directory(out)
    lines = list(inputs_of(read_rates(), orders))
    ways: list[tuple[str, Callable[[], Outcome]]] = [
        ("test driver", lambda: in_driver(lines)),
        ("Spark", lambda: on_spark(lines, out / "spark")),
    ]
    if servers is not None:
        ways.append(("Kafka", lambda: on_kafka(lines, out / "kafka", servers)))
    done = []
    for name, run in ways:
        with progress(f"{len(lines):,} records, {name}"):
            begun = time.perf_counter()
            outcome = run()
            done.append(Way(name, outcome, time.perf_counter() - begun))
    return done


def are_equal(ways: list[Way]) -> bool:
    """Return True if all runs have the same results."""
    return all(way.outcome == ways[0].outcome for way in ways)


def print_ways(console: Console, ways: list[Way]) -> None:
    """Print the number of results of each run, and if the results are equal."""
    table = Table("runner", "orders priced", "dead letters", "sessions", "seconds", box=None)
    for way in ways:
        found = way.outcome
        counts = (len(found.priced), len(found.dead), len(found.sessions))
        table.add_row(way.name, *(f"{count:,}" for count in counts), f"{way.seconds:.1f}")
    console.print(table)
    customer, _, at, pairs = ways[0].outcome.priced[0]
    headers = ", ".join(f"{key}={(value or b'').decode()}" for key, value in pairs)
    console.print(f"\nThe headers of the first order of {customer}, at {at}: {headers}")
    equal = "are equal, with headers" if are_equal(ways) else "[red]differ[/]"
    console.print(f"The priced orders, the dead letters and the sessions {equal}.")
    if len(ways) < 3:
        console.print("To run the topology on Kafka too, name a broker: --kafka HOST:PORT")


def inputs_of(file: RateFile, orders: int) -> Iterator[Line]:
    """Yield the rates of the last five years, and then orders in the order of their times."""
    first = file.days[-1].year - 4
    for quote in changelog(file):
        if quote.day.year >= first:
            source = (("rate", f"{quote.day} {file.source}".encode()),)
            value = None if quote.rate is None else FLOAT64.serialize(quote.rate, Headers())
            yield Line("rates", quote.currency.encode(), value, quote.timestamp, source)
    made = make_transactions(file, orders * 8)
    start = min(quote.timestamp for quote in changelog(file) if quote.day.year >= first)
    late = [number for number in made.time.argsort(kind="stable") if made.time[number] >= start]
    for number, at in enumerate(late[:orders]):
        order = {
            "order": number,
            "customer": f"c{int(100 * made.amount[at]) % _CUSTOMERS:02}",
            "amount": float(made.amount[at]),
        }
        trace = (("trace", f"order-{number}".encode()),)
        currency = str(made.currency[at]).encode()
        yield Line("orders", currency, json.dumps(order).encode(), int(made.time[at]), trace)


def in_driver(lines: list[Line]) -> Outcome:
    """Run the topology in the test driver."""
    topology = orders_topology()
    with TestDriver(topology) as driver:
        for line in lines:
            keys, values = _serdes(topology, line.topic)
            headers = Headers(line.headers)
            driver.pipe_input(
                line.topic,
                keys.deserialize(line.key, headers),
                None if line.value is None else values.deserialize(line.value, headers),
                timestamp=line.timestamp,
                headers=headers,
            )

        def records(topic: str) -> list[Any]:
            return sorted(
                [
                    (one.key, one.value, one.timestamp, _pairs(one.headers))
                    for one in driver.read_output(topic)
                ],
                key=repr,
            )

        priced, dead = records("priced"), records("dead-letters")
        return Outcome(priced, dead, _sessions([driver.store("sessions")]))


def on_spark(lines: list[Line], out: Path) -> Outcome:
    """Run the topology as a streaming query over files."""
    from kstore_core.spark import fetch_tasks, local_session, run_on_spark

    spark = local_session("kstore-demo-processors", shuffle_partitions=_PARTITIONS)
    got: dict[str, list[Any]] = {"priced": [], "dead-letters": []}

    def keep(topic: str) -> Callable[[DataFrame, int], None]:
        def sink(rows: DataFrame, epoch: int) -> None:
            rows = rows.selectExpr("key", "value", "unix_millis(timestamp) time", "headers")
            got[topic] += rows.collect()

        return sink

    query = run_on_spark(
        orders_topology(),
        sources={topic: _source(spark, lines, topic, out) for topic in ("rates", "orders")},
        sinks={"priced": keep("priced"), "dead-letters": keep("dead-letters"), "sessions": None},
        root=out / "state",
        checkpoint=out / "checkpoint",
        partitions=_PARTITIONS,
        engine="rocksdb",
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    tasks = [path for path in fetch_tasks(out / "state", out / "tasks") if path.name[0] == "1"]
    states = [open_state(path, read_only=True) for path in tasks]
    try:
        sessions = _sessions([state.open(SESSIONS) for state in states])
    finally:
        for state in states:
            state.close()

    def records(topic: str) -> list[Any]:
        return _decoded((row.key, row.value, row.time, row.headers) for row in got[topic])

    return Outcome(records("priced"), records("dead-letters"), sessions)


def _source(spark: SparkSession, lines: list[Line], topic: str, out: Path) -> DataFrame:
    """Write the records of a topic to a file, and return a streaming DataFrame of the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kstore_core.arrow import headers_type

    chosen = [line for line in lines if line.topic == topic]
    table = pa.table(
        {
            "key": pa.array([line.key for line in chosen], pa.binary()),
            "value": pa.array([line.value for line in chosen], pa.binary()),
            "timestamp": pa.array([line.timestamp for line in chosen], pa.int64()),
            "partition": pa.array([0] * len(chosen), pa.int32()),
            "offset": pa.array(range(len(chosen)), pa.int64()),
            "headers": pa.array(
                [[{"key": key, "value": value} for key, value in line.headers] for line in chosen],
                headers_type(),
            ),
        }
    )
    place = out / topic
    place.mkdir(parents=True)
    pq.write_table(table, place / "records.parquet")
    schema = spark.read.parquet(str(place.absolute())).schema
    return spark.readStream.schema(schema).parquet(str(place.absolute()))


def on_kafka(lines: list[Line], out: Path, servers: str) -> Outcome:
    """Run the topology on Kafka, with new topics."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    from kstore_core.processing.kafka import KafkaRunner

    prefix = f"kstore-demo-{uuid.uuid4().hex[:8]}-"
    # The records are older than the default retention of a topic.
    topics = [
        NewTopic(f"{prefix}{name}", _PARTITIONS, -1, config={"retention.ms": "-1"})
        for name in ("rates", "orders", "priced", "dead-letters", "sessions")
    ]
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics(topics).values():
        future.result(_WAIT_S)
    runner = KafkaRunner(
        orders_topology(prefix),
        servers=servers,
        application_id=f"{prefix}app",
        state=out,
        guarantee="exactly_once_v2",
    )
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    try:
        producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})

        def send(topic: str) -> int:
            chosen = [line for line in lines if line.topic == topic]
            for _, key, value, at, headers in chosen:
                producer.produce(f"{prefix}{topic}", value, key, timestamp=at, headers=[*headers])
                producer.poll(0)
            producer.flush(_WAIT_S)
            return len(chosen)

        # Send the orders after the stores have the rates. The records of two topics have no order.
        rates = send("rates")
        _until(thread, lambda: _committed(servers, f"{prefix}app", f"{prefix}rates") == rates)
        orders = send("orders")

        def outcome() -> Outcome:
            priced, dead = (
                _decoded(_read(servers, f"{prefix}{topic}")) for topic in ("priced", "dead-letters")
            )
            with ExitStack() as stack:
                views = [
                    stack.enter_context(runner.view("sessions", number))
                    for number in range(_PARTITIONS)
                ]
                return Outcome(priced, dead, _sessions([view.open(SESSIONS) for view in views]))

        def is_done(found: Outcome) -> bool:
            collected = sum(value["orders"] for *_, value, _ in found.sessions)
            return len(found.priced) + len(found.dead) == orders and collected == len(found.priced)

        found = outcome()
        while not is_done(found):
            _check(thread)
            found = outcome()
        return found
    finally:
        runner.stop()
        thread.join(_WAIT_S)


def _consumer(servers: str, group: str) -> Any:
    from confluent_kafka import Consumer

    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


def _committed(servers: str, group: str, topic: str) -> int:
    """Return the number of records of a topic that a group has committed."""
    from confluent_kafka import TopicPartition

    consumer = _consumer(servers, group)
    try:
        places = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
        return sum(max(place.offset, 0) for place in consumer.committed(places, _WAIT_S))
    finally:
        consumer.close()


def _until(thread: threading.Thread, done: Callable[[], bool]) -> None:
    while not done():
        _check(thread)
        time.sleep(0.2)


def _check(thread: threading.Thread) -> None:
    if not thread.is_alive():
        raise StateError("the runner on Kafka has failed; its error is printed above")


def _read(servers: str, topic: str) -> list[Any]:
    """Return all committed records of a topic."""
    from confluent_kafka import TopicPartition

    consumer = _consumer(servers, f"{topic}-reader")
    found, ends = [], 0
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(_PARTITIONS)])
        while ends < _PARTITIONS:
            for message in consumer.consume(1000, 0.5):
                if message.error() is not None:
                    ends += 1
                else:
                    time_ms = message.timestamp()[1]
                    found.append((message.key(), message.value(), time_ms, message.headers()))
    finally:
        consumer.close()
    return found


def _decoded(records: Any) -> list[Any]:
    return sorted(
        [
            (bytes(key).decode(), json.loads(bytes(value)), at, _pairs(Headers(map(tuple, pairs))))
            for key, value, at, pairs in records
        ],
        key=repr,
    )


def _sessions(opened: list[Any]) -> list[Any]:
    """Return all sessions of the stores. Each store has the sessions of some customers."""
    found = []
    for number in range(_CUSTOMERS):
        customer = f"c{number:02}"
        place = partition(customer.encode(), len(opened))
        for session, one in opened[place].find_sessions(customer, 0, _LONG_MS):
            pairs = _pairs(one.headers)
            found.append((customer, session.start, session.end, one.aggregation, pairs))
    return found


def _pairs(headers: Headers) -> list[tuple[str, bytes | None]]:
    return [(header.key, header.value) for header in headers]


def _serdes(topology: Any, topic: str) -> tuple[Any, Any]:
    source = topology.whole().sources[topic]
    return source.key, source.value
