"""Ranges of offsets as Arrow batches, from a cluster that librdkafka plays."""

from __future__ import annotations

import gc
import json
import logging
import time
from collections.abc import Callable
from contextlib import closing

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from kstore_core.errors import (
    EngineError,
    FormatError,
    InconsistentStateError,
    SpecError,
    StateError,
)
from kstore_core.spark.kafka import reading
from kstore_core.spark.kafka.offsets import OffsetRange
from kstore_core.spark.kafka.planning import batch_ranges
from kstore_core.spark.kafka.reading import read_range
from kstore_core.spark.kafka.topics import Brokers
from kstore_core.testing.running import quick
from tests.changelog.broker.broker import free_ports
from tests.spark.kafka.topics import NOW_MS, ODD, Sent, options_of, read, row_of, send

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
RECORDS = st.lists(
    st.builds(
        Sent,
        key=st.none() | st.binary(max_size=4),
        value=st.none() | st.binary(max_size=4),
        timestamp=st.integers(-1, 2**42).filter(bool),
        headers=st.lists(st.tuples(TEXTS, st.none() | st.binary(max_size=3)), max_size=3),
    ),
    max_size=20,
)


def test_what_was_sent_is_read_and_any_part_of_it(
    servers: str, new_topic: Callable[[], str]
) -> None:
    topic, sent = new_topic(), []
    options = options_of(servers, topic)

    @quick(15)
    @given(RECORDS, st.floats(0, 1), st.floats(0, 1))
    def run(records: list[Sent], one: float, other: float) -> None:
        send(servers, topic, 1, records)
        sent.extend(records)
        begin, end = sorted((round(one * len(sent)), round(other * len(sent))))
        rows = [row_of(topic, 1, offset, sent[offset]) for offset in range(begin, end)]
        assert read(options, [OffsetRange(topic, 1, begin, end)]) == rows

    run()


def test_a_batch_is_all_that_there_is_in_as_many_parts_as_asked_for(
    servers: str, new_topic: Callable[[], str]
) -> None:
    topic = new_topic()
    send(servers, topic, 0, ODD)
    send(servers, topic, 2, ODD[:1] * 95)
    rows = [row_of(topic, 0, at, one) for at, one in enumerate(ODD)]
    rows += [row_of(topic, 2, at, ODD[0]) for at in range(95)]
    for more, count in (({}, 2), ({"minPartitions": "7"}, 8)):
        options = options_of(servers, topic, **more)
        ranges = batch_ranges(options)
        assert len(ranges) == count
        assert read(options, ranges) == rows


def test_without_headers_there_is_no_such_column(
    servers: str, new_topic: Callable[[], str]
) -> None:
    topic = new_topic()
    send(servers, topic, 0, ODD)
    options = options_of(servers, topic, includeHeaders="false")
    (batch,) = read_range(options, *batch_ranges(options))
    assert batch.schema == reading.arrow_schema(headers=False)
    assert batch.schema.names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    assert batch.num_rows == len(ODD)


@pytest.mark.parametrize(
    ("limit", "value", "least"), [("BATCH_ROWS", 1500, 1500), ("_BATCH_BYTES", 1, 1)]
)
def test_batches_have_an_end(
    servers: str,
    new_topic: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: int,
    least: int,
) -> None:
    topic = new_topic()
    send(servers, topic, 0, [Sent(b"k", b"v", NOW_MS, [])] * 4000)
    options = options_of(servers, topic)
    monkeypatch.setattr(reading, limit, value)
    batches = list(read_range(options, OffsetRange(topic, 0, 0, 4000)))
    assert all(least <= len(batch) < least + reading._AT_ONCE for batch in batches[:-1])
    offsets = pa.chunked_array([batch["offset"] for batch in batches])
    assert offsets.to_pylist() == list(range(4000))


def test_partitions_by_their_numbers_and_topics_by_a_pattern(
    servers: str, new_topic: Callable[[], str]
) -> None:
    topic, other = new_topic(), new_topic()
    for number in range(3):
        send(servers, topic, number, ODD[:1])
    send(servers, other, 0, ODD[:1])
    general = {"kafka.bootstrap.servers": servers}

    def places(**which: str) -> set[tuple[str, int]]:
        options = reading.KafkaOptions.of({**general, **which})
        return {(one.topic, one.partition) for one in batch_ranges(options)}

    assert places(assign=json.dumps({topic: [1, 3], other: [0]})) == {(topic, 1), (other, 0)}
    assert places(subscribe=f"{other}, {topic}") == {(topic, 0), (topic, 1), (topic, 2), (other, 0)}
    assert places(subscribePattern=other[:-1] + "[" + other[-1] + "]") == {(other, 0)}
    assert places(subscribePattern="topic") == set(), "a pattern matches the whole name"


def test_offsets_that_are_named(servers: str, new_topic: Callable[[], str]) -> None:
    topic = new_topic()
    for number in range(4):
        send(servers, topic, number, ODD)

    def ranges(start: dict[str, int], end: dict[str, int], **more: str) -> list[OffsetRange]:
        spelled = {"startingOffsets": {topic: start}, "endingOffsets": {topic: end}}
        texts = {name: json.dumps(value) for name, value in spelled.items()}
        return batch_ranges(options_of(servers, topic, **texts, **more))

    start = {"0": 1, "1": -2, "2": 5, "3": 2}
    found = ranges(start, {"0": 3, "1": -1, "2": 5, "3": 5})
    wanted = [(0, 1, 3), (1, 0, 5), (3, 2, 5)]
    assert found == [OffsetRange(topic, *one) for one in wanted]
    with pytest.raises(SpecError, match=f"{topic}-0 would end at offset 0, before its start at 1"):
        ranges(start, {"0": 0, "1": -1, "2": 5, "3": 5})
    beyond = {"0": 3, "1": 6, "2": 5, "3": 5}
    with pytest.raises(InconsistentStateError, match=f"{topic}-1 .* at 5, before the offset 6"):
        ranges(start, beyond)
    assert ranges(start, beyond, failOnDataLoss="false") == found
    late = {**start, "3": 9}
    with pytest.raises(InconsistentStateError, match=f"{topic}-3 .* to read is 9.*failOnDataLoss"):
        ranges(late, {"0": 3, "1": -1, "2": 5, "3": -1})


def test_topics_and_partitions_that_are_not_there(
    servers: str, new_topic: Callable[[], str]
) -> None:
    topic = new_topic()
    with pytest.raises(StateError, match="have no topic nowhere"):
        batch_ranges(options_of(servers, "nowhere"))
    assigned = {"kafka.bootstrap.servers": servers, "assign": json.dumps({topic: [4]})}
    with pytest.raises(StateError, match=f"{topic} .* no partition 4; it has 4"):
        batch_ranges(reading.KafkaOptions.of(assigned))
    with closing(Brokers(options_of(servers, topic))) as brokers:
        assert brokers.earliest([]) == {}


@pytest.mark.slow
def test_a_topic_that_is_gone_before_it_is_read(
    servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    planned = OffsetRange("gone", 0, 3, 7)
    with pytest.raises(
        InconsistentStateError,
        match=r"gone-0 .*: the topic or its partition is missing, but the next offset to read is 3",
    ):
        read(options_of(servers, "gone"), [planned])
    with caplog.at_level(logging.WARNING):
        assert read(options_of(servers, "gone", failOnDataLoss="false"), [planned]) == []
    assert "the topic or its partition is missing" in caplog.text


def test_a_time_that_spark_cannot_hold(servers: str, new_topic: Callable[[], str]) -> None:
    topic = new_topic()
    send(servers, topic, 0, [Sent(b"k", b"v", 2**62, [])])
    with pytest.raises(FormatError, match=f"a record in {topic}-0 from 0 to 1 does not fit"):
        read(options_of(servers, topic), [OffsetRange(topic, 0, 0, 1)])


def test_brokers_that_are_not_there() -> None:
    (port,) = free_ports(1)
    options = options_of(f"127.0.0.1:{port}", "t", kafkaConsumer_pollTimeoutMs="500")
    for ask in (lambda: batch_ranges(options), lambda: read(options, [OffsetRange("t", 0, 0, 1)])):
        with pytest.raises(EngineError, match=rf"127.0.0.1:{port}: .*no answer within 0.5 s"):
            ask()


def test_brokers_that_go_away_while_somebody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BATCH_ROWS", 1)
    mock = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = mock.list_topics("t", timeout=10).brokers[1]
    options = options_of(f"{broker.host}:{broker.port}", "t", kafkaConsumer_pollTimeoutMs="700")
    send(options.servers, "t", 0, ODD)
    batches = read_range(options, OffsetRange("t", 0, 0, 1_000_000))
    assert next(batches).num_rows
    mock.close()
    del mock, broker
    gc.collect()
    begun = time.monotonic()
    with pytest.raises(EngineError, match=r"t-0 from 0 to 1000000 cannot be read.*within 0\.7 s"):
        list(batches)
    assert time.monotonic() - begun < 60
