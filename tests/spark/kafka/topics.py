"""Records that tests put into topics, and how a reader has to give them back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Producer

from kstore_core.spark.kafka.offsets import OffsetRange
from kstore_core.spark.kafka.options import KafkaOptions
from kstore_core.spark.kafka.reading import read_range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW_MS = 1_700_000_000_000


class Sent(NamedTuple):
    """A record of a test."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Sequence[tuple[str, bytes | None]]


ODD = [
    Sent(
        b"k", b"v", NOW_MS, [("a", None), ("a", b""), ("a", b"1"), ("", b"x"), ("ä€😀", b"\0\xff")]
    ),
    Sent(b"k", None, NOW_MS + 1, [("gone", None)]),
    Sent(None, b"", NOW_MS + 2, []),
    Sent(b"", b"v", -1, [("only", b"")]),
    Sent(None, None, 1, []),
]
"""Tombstones, nulls, empty ones, headers that are null or twice there, and none."""


def options_of(servers: str, topic: str, **more: str) -> KafkaOptions:
    """Options that read one topic whole, with its headers; of a name the dots are underscores."""
    return KafkaOptions.of(
        {
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "includeHeaders": "true",
            "kafkaConsumer.pollTimeoutMs": "20000",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


def send(servers: str, topic: str, partition: int, records: Sequence[Sent]) -> None:
    """Put records at the end of a partition, in their order."""
    producer = _producer(servers)
    for one in records:
        headers: Any = list(one.headers) or None
        while True:
            try:
                producer.produce(
                    topic, one.value, one.key, partition, timestamp=one.timestamp, headers=headers
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert not producer.flush(30)


@cache
def _producer(servers: str) -> Producer:
    """One for all tests."""
    return Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 0})


def row_of(topic: str, partition: int, offset: int, sent: Sent) -> dict[str, Any]:
    """What a reader gives for a record."""
    since = timedelta(milliseconds=sent.timestamp)
    return {
        "key": sent.key,
        "value": sent.value,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": datetime(1970, 1, 1, tzinfo=UTC) + since,
        "timestampType": 0,
        "headers": [{"key": key, "value": value} for key, value in sent.headers] or None,
    }


def check_batch_read(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Put `ODD` into a partition of a new topic, and compare what Spark reads in one batch."""
    send(servers, topic, 3, ODD)
    reader = spark.read.format("kstore-kafka").option("kafka.bootstrap.servers", servers)
    df = reader.option("subscribe", topic).option("includeHeaders", "true").load()
    wanted = [row_of(topic, 3, offset, sent) for offset, sent in enumerate(ODD)]
    assert df.orderBy("offset").toArrow().to_pylist() == wanted
    return df


def read(options: KafkaOptions, ranges: Sequence[OffsetRange]) -> list[dict[str, Any]]:
    """The rows of ranges, from batches that hold together."""
    batches: list[pa.RecordBatch] = []
    for one in ranges:
        batches += read_range(options, one)
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


def numbered(first: int, count: int) -> list[Sent]:
    return [Sent(b"k", b"%d" % number, NOW_MS, []) for number in range(first, first + count)]
