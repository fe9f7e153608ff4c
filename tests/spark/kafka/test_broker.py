"""What only a real Kafka does: it compacts, expires, deletes, aborts, and stops answering."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kstore_core.errors import EngineError, InconsistentStateError, StateError
from kstore_core.spark.kafka.offsets import OffsetRange
from kstore_core.spark.kafka.options import KafkaOptions
from kstore_core.spark.kafka.planning import batch_ranges
from kstore_core.spark.kafka.reading import read_range
from kstore_core.spark.kafka.stream import KafkaStream
from tests.changelog.broker.broker import Broker
from tests.changelog.broker.records import wait_until
from tests.spark.kafka.topics import ODD, Sent, options_of, read, row_of, send

NOW_MS = int(time.time() * 1000)


def whole(options: KafkaOptions) -> list[dict[str, Any]]:
    return read(options, batch_ranges(options))


def values(options: KafkaOptions) -> list[tuple[int, bytes | None]]:
    return [(row["offset"], row["value"]) for row in whole(options)]


def test_what_was_sent_is_read(broker: Broker) -> None:
    topic = broker.create(2)
    keyed = [one for one in ODD if one.key is not None]
    send(broker.servers, topic, 1, keyed)
    rows = [row_of(topic, 1, at, one) for at, one in enumerate(keyed)]
    assert whole(options_of(broker.servers, topic)) == rows


def test_times_that_the_broker_sets(broker: Broker) -> None:
    topic = broker.create(message_timestamp_type="LogAppendTime")
    send(broker.servers, topic, 0, [Sent(b"k", b"v", 1, [])])
    (row,) = whole(options_of(broker.servers, topic))
    assert row["timestampType"] == 1
    assert row["timestamp"].timestamp() * 1000 >= NOW_MS


def test_a_compacted_topic_has_gaps(broker: Broker) -> None:
    topic = broker.create(segment_ms=50, min_cleanable_dirty_ratio=0.01)
    options = options_of(broker.servers, topic)
    for number in range(6):  # by their times each begins a segment, and those before are compacted
        time_ms = NOW_MS - 60_000 + 1000 * number
        send(broker.servers, topic, 0, [Sent(b"%d" % (number % 2), b"%d" % number, time_ms, [])])
    wait_until(lambda: len(values(options)) == 3)  # nothing more can go: two keys, and the last
    found = values(options)
    assert found[-1] == (5, b"5")
    assert all(value == b"%d" % offset for offset, value in found)
    gap = min(set(range(6)) - {offset for offset, _ in found})
    assert read(options, [OffsetRange(topic, 0, gap, gap + 1)]) == []
    parts = options_of(broker.servers, topic, minPartitions="6")
    assert len(batch_ranges(parts)) == 6
    assert values(parts) == found


def test_transactions_that_are_committed_aborted_and_open(broker: Broker) -> None:
    topic = broker.create()
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic})
    producer.init_transactions(30)
    for value, end in (
        (b"kept", producer.commit_transaction),
        (b"aborted", producer.abort_transaction),
        (b"open", lambda: None),
    ):
        producer.begin_transaction()
        producer.produce(topic, value, b"k", 0)
        producer.flush(10)
        end()
    committed = options_of(broker.servers, topic, kafka_isolation_level="read_committed")
    assert [(one.begin, one.end) for one in batch_ranges(committed)] == [(0, 4)]
    assert values(committed) == [(0, b"kept")]
    assert values(options_of(broker.servers, topic)) == [
        (0, b"kept"),
        (2, b"aborted"),
        (4, b"open"),
    ]
    stream = KafkaStream(options_of(broker.servers, topic, kafka_isolation_level="read_committed"))
    assert stream.latestOffset({topic: {"0": 4}}) == {topic: {"0": 4}}, "none of the open one"
    producer.abort_transaction()
    producer.close()
    wait_until(lambda: stream.latestOffset({topic: {"0": 4}}) == {topic: {"0": 6}})
    (part,) = stream.partitions({topic: {"0": 4}}, {topic: {"0": 6}})
    assert list(stream.read(part)) == [], "a batch of aborted records ends, too"
    stream.stop()


def test_records_that_expire_after_they_were_planned(broker: Broker) -> None:
    topic = broker.create(cleanup_policy="delete", retention_ms=-1)
    send(broker.servers, topic, 0, [Sent(b"k", b"%d" % number, NOW_MS, []) for number in range(10)])
    strict = options_of(broker.servers, topic)
    lenient = options_of(broker.servers, topic, failOnDataLoss="false")
    planned = batch_ranges(strict)
    broker.admin.delete_records([TopicPartition(topic, 0, 6)])
    wait_until(lambda: [one.begin for one in batch_ranges(strict)] == [6])
    with pytest.raises(InconsistentStateError, match=f"{topic}-0 from 0 to 10 at .* begins at 6"):
        read(strict, planned)
    assert [row["offset"] for row in read(lenient, planned)] == [6, 7, 8, 9]
    assert read(lenient, [OffsetRange(topic, 0, 2, 5)]) == []
    named = {"startingOffsets": f'{{"{topic}": {{"0": 2}}}}'}
    with pytest.raises(
        InconsistentStateError, match=r"begins at offset 6 .* but the next offset to read is 2"
    ):
        batch_ranges(options_of(broker.servers, topic, **named))
    left = batch_ranges(options_of(broker.servers, topic, failOnDataLoss="false", **named))
    assert left == [OffsetRange(topic, 0, 6, 10)]


def test_a_topic_that_is_made_anew_while_it_is_read(broker: Broker) -> None:
    topic = broker.create()
    send(broker.servers, topic, 0, [Sent(b"k", b"old", NOW_MS, [])] * 9)
    planned = OffsetRange(topic, 0, 5, 9)
    delete(broker.admin, topic)
    strict = options_of(broker.servers, topic)
    lenient = options_of(broker.servers, topic, failOnDataLoss="false")
    with pytest.raises(StateError, match=f"no topic {topic}"):
        batch_ranges(strict)
    with pytest.raises(
        InconsistentStateError,
        match="the topic or its partition is missing, but the next offset to read is 5",
    ):
        read(strict, [planned])
    assert read(lenient, [planned]) == []
    broker.create(name=topic)
    with pytest.raises(
        InconsistentStateError,
        match="the partition ends before the position, but the next offset to read is 5",
    ):
        read(strict, [planned])
    assert read(lenient, [planned]) == []


def delete(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic])[topic].result(20)
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics)


def test_a_broker_that_stops_answering(broker: Broker) -> None:
    topic = broker.create()
    send(broker.servers, topic, 0, ODD[:1])
    patient = options_of(broker.servers, topic)  # of a broker that answers, on a busy machine
    options = options_of(broker.servers, topic, kafkaConsumer_pollTimeoutMs="1000")
    (planned,) = batch_ranges(patient)
    with broker.paused():
        for ask in (lambda: batch_ranges(options), lambda: list(read_range(options, planned))):
            begun = time.monotonic()
            with pytest.raises(EngineError, match="no answer within 1 s"):
                ask()
            assert time.monotonic() - begun < 60
    assert len(whole(patient)) == 1


def test_a_user_with_a_password_and_one_with_another(broker: Broker) -> None:
    topic = broker.create()
    send(broker.servers, topic, 0, ODD[:1])
    settings = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
    }
    good = options_of(broker.guarded, topic, **settings, **{"kafka.sasl.password": "secret"})
    assert len(whole(good)) == 1
    bad = options_of(broker.guarded, topic, **settings, **{"kafka.sasl.password": "guessed"})
    with pytest.raises(EngineError, match="reject this client; check the credentials") as told:
        batch_ranges(bad)
    assert "guessed" not in str(told.value)
    assert "secret" not in repr(good)
