"""From topics to a joined topic and back, on a real broker: no header is lost on the way."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import serdes, stores
from kstore_core.codec import partition
from kstore_core.spark import stream_into, temporal_join, write_store
from kstore_core.spark.kafka.planning import batch_ranges
from tests.changelog.broker.broker import Broker
from tests.spark.kafka.topics import Sent, options_of, read, send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW_MS = int(time.time() * 1000) - 10_000_000
HOUR_MS = 3_600_000
PARTITIONS = 2

RATES = stores.versioned_key_value_with_headers(
    "rates", history_retention_ms=24 * HOUR_MS, key=serdes.UTF8, value=serdes.UTF8
)
CHANGELOG = [
    Sent(b"EUR", b"1.10", NOW_MS, [("source", b"ECB"), ("trace", None), ("trace", b"")]),
    Sent(b"CHF", b"0.95", NOW_MS + 1, [("source", b"ECB"), ("ä€", b"\0\xff")]),
    Sent(b"EUR", b"1.20", NOW_MS + 100, []),
    Sent(b"EUR", None, NOW_MS + 200, [("gone", b"yes")]),
    Sent(b"CHF", b"0.90", NOW_MS + 50, [("late", None)]),  # behind the one before of its key
    Sent(b"EUR", b"1.30", NOW_MS + 300, [("source", b"ECB"), ("source", b"again")]),
    Sent(b"CHF", b"0.99", NOW_MS + 300, [("source", None)]),
]
PAYMENTS = [
    Sent(key, b"%d" % number, NOW_MS + at, [("who", b"%d" % number), ("note", None)][: number % 3])
    for number, (key, at) in enumerate(
        [
            (b"EUR", 300),
            (b"EUR", 0),
            (b"EUR", 150),
            (b"EUR", 250),  # a tombstone holds then
            (b"CHF", 60),
            (b"CHF", 10),
            (b"CHF", 49),
            (b"JPY", 100),  # nothing is known
            (b"CHF", 1000),
        ]
    )
]


def joined(payment: Sent) -> tuple[Any, ...]:
    """What a plain model says: key, value, headers of payment and rate, one after the other."""
    valid = [
        one
        for one in CHANGELOG
        if (one.key, True) == (payment.key, one.timestamp <= payment.timestamp)
    ]
    rate = max(valid, key=lambda one: one.timestamp, default=None)
    if rate is None or rate.value is None:
        return (payment.key, None, tuple(payment.headers))
    return (payment.key, rate.value, (*payment.headers, *rate.headers))


EXPECTED = sorted(map(joined, PAYMENTS), key=repr)


@pytest.fixture(scope="module")
def topics(broker: Broker) -> tuple[str, str]:
    """The changelog and the payments, each record in the partition of its key."""
    rates = broker.create(PARTITIONS, cleanup_policy="delete", retention_ms=-1)
    payments = broker.create(PARTITIONS, cleanup_policy="delete", retention_ms=-1)
    for topic, records in ((rates, CHANGELOG), (payments, PAYMENTS)):
        for number in range(PARTITIONS):
            of_it = [one for one in records if partition(one.key, PARTITIONS) == number]
            send(broker.servers, topic, number, of_it)
    return rates, payments


def from_kafka(
    spark: SparkSession, source: str, broker: Broker, topic: str, *, stream: bool = False
) -> DataFrame:
    """A topic, by either source."""
    reader: Any = spark.readStream if stream else spark.read
    return (
        reader.format(source)
        .option("kafka.bootstrap.servers", broker.servers)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .option("startingOffsets", "earliest")
        .load()
    )


def with_rates(payments: DataFrame, root: Path) -> DataFrame:
    """The records of the joined topic."""
    payments = payments.selectExpr(
        "cast(key as string) who", "timestamp", "coalesce(headers, array()) payment_headers"
    )
    return temporal_join(payments, root, key="who", timestamp="timestamp").selectExpr(
        "cast(who as binary) key",
        "cast(table_value as binary) value",
        "concat(payment_headers, coalesce(table_headers, array())) headers",
    )


def contents(broker: Broker, topic: str) -> list[tuple[Any, ...]]:
    """A topic as a client that is not Spark sees it, in an order that does not depend on tasks."""
    options = options_of(broker.servers, topic)
    rows = read(options, batch_ranges(options))
    found = [
        (
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row in rows
    ]
    return sorted(found, key=repr)


def test_both_sources_give_the_same_rows_and_columns(
    spark: SparkSession, connector: None, broker: Broker, topics: tuple[str, str]
) -> None:
    own, spark_own = (from_kafka(spark, name, broker, topics[0]) for name in SOURCES)
    assert own.schema == spark_own.schema
    rows = [df.orderBy("partition", "offset").toArrow() for df in (own, spark_own)]
    assert rows[0].num_rows == len(CHANGELOG)
    assert rows[0].equals(rows[1])


SOURCES = ("kstore-kafka", "kafka")


@pytest.mark.parametrize("source", SOURCES)
def test_from_topics_to_a_joined_topic(
    spark: SparkSession,
    connector: None,
    broker: Broker,
    topics: tuple[str, str],
    tmp_path: Path,
    source: str,
) -> None:
    rates, payments = topics
    changelog = from_kafka(spark, source, broker, rates)
    manifest = write_store(changelog, tmp_path / "rates", RATES, partitions=PARTITIONS)
    assert manifest.records == len(CHANGELOG)
    target = broker.create(PARTITIONS)
    with_rates(from_kafka(spark, source, broker, payments), tmp_path / "rates").write.format(
        "kafka"
    ).option("kafka.bootstrap.servers", broker.servers).option("topic", target).save()
    assert contents(broker, target) == EXPECTED


def test_as_streams_of_small_batches(
    spark: SparkSession,
    connector: None,
    broker: Broker,
    topics: tuple[str, str],
    tmp_path: Path,
) -> None:
    rates, payments = topics
    root, source = tmp_path / "rates", "kstore-kafka"
    query = stream_into(
        from_kafka(spark, source, broker, rates, stream=True),
        root,
        checkpoint=tmp_path / "rates-checkpoint",
        spec=RATES,
        partitions=PARTITIONS,
        trigger={"availableNow": True},
    )
    query.awaitTermination(300)
    target = broker.create(PARTITIONS)
    query = (
        with_rates(from_kafka(spark, source, broker, payments, stream=True), root)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.servers)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "joined-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(300)
    assert contents(broker, target) == EXPECTED
