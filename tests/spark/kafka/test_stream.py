"""A stream's plans, batch by batch, from a cluster that librdkafka plays; Spark is mimed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kstore_core.errors import InconsistentStateError, SpecError
from kstore_core.spark.kafka import stream as stream_module
from kstore_core.spark.kafka.offsets import Offsets
from kstore_core.spark.kafka.options import KafkaOptions
from kstore_core.spark.kafka.planning import ranges_between
from kstore_core.spark.kafka.stream import KafkaStream
from kstore_core.testing.running import quick
from tests.spark.kafka.topics import numbered, options_of, send

Tree = dict[str, Any]


def batch(stream: KafkaStream, start: Tree, end: Tree) -> list[tuple[int, bytes]]:
    """What the workers read of a batch: partition and value."""
    parts = [arrow for part in stream.partitions(start, end) for arrow in stream.read(part)]
    return [(row["partition"], row["value"]) for part in parts for row in part.to_pylist()]


def step(stream: KafkaStream, start: Tree, limit: Any = None) -> tuple[list[Any], Tree]:
    """One batch as Spark makes it; its offsets go through JSON."""
    limit = stream.getDefaultReadLimit() if limit is None else limit
    end = json.loads(json.dumps(stream.latestOffset(start, limit)))
    return (batch(stream, start, end) if end != start else []), end


@quick(8)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 12), st.booleans()), min_size=1, max_size=8
    ),
    st.none() | st.integers(1, 9),
)
def test_every_record_once_and_in_order_whatever_the_batches(
    servers: str,
    new_topic: Callable[[], str],
    steps: list[tuple[int, int, bool]],
    limit: int | None,
) -> None:
    topic, sent, read = new_topic(), [0] * 4, [[], [], [], []]
    more = {"maxOffsetsPerTrigger": str(limit)} if limit else {}
    options = options_of(servers, topic, startingOffsets="earliest", **more)
    stream = KafkaStream(options)
    at = stream.initialOffset()

    def go_on() -> int:
        nonlocal at
        rows, at = step(stream, at)
        for partition, value in rows:
            read[partition].append(int(value))
        return len(rows)

    for partition, count, again in steps:
        send(servers, topic, partition, numbered(sent[partition], count))
        sent[partition] += count
        waiting = sum(sent) - sum(map(len, read))
        assert go_on() == min(waiting, limit or waiting)
        if again:  # another process goes on from the checkpoint
            stream.stop()
            stream = KafkaStream(options)
    while go_on():
        continue
    stream.stop()
    assert read == [list(range(count)) for count in sent]


def test_where_a_query_begins(servers: str, new_topic: Callable[[], str]) -> None:
    topic = new_topic()
    send(servers, topic, 0, numbered(0, 5))

    def begin(**more: str) -> Tree:
        stream = KafkaStream(options_of(servers, topic, **more))
        try:
            return stream.initialOffset()[topic]
        finally:
            stream.stop()

    assert begin() == {"0": 5, "1": 0, "2": 0, "3": 0}, "a stream begins at the end"
    assert begin(startingOffsets="earliest") == dict.fromkeys("0123", 0)
    named = json.dumps({topic: {"0": 3, "1": -1, "2": -2, "3": 0}})
    assert begin(startingOffsets=named) == {"0": 3, "1": 0, "2": 0, "3": 0}


def test_all_that_was_there_and_nothing_later(servers: str, new_topic: Callable[[], str]) -> None:
    topic = new_topic()
    send(servers, topic, 0, numbered(0, 5))
    options = options_of(servers, topic, startingOffsets="earliest", maxOffsetsPerTrigger="3")
    stream = KafkaStream(options)
    at = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    send(servers, topic, 0, numbered(5, 5))
    send(servers, topic, 1, numbered(0, 5))
    found = []
    for wanted in (3, 2, 0):
        rows, at = step(stream, at)
        assert len(rows) == wanted
        found += rows
    assert found == [(0, b"%d" % number) for number in range(5)]
    assert stream.reportLatestOffset() == {topic: {"0": 10, "1": 5, "2": 0, "3": 0}}
    stream.stop()


def test_a_topic_that_comes_later_is_read_from_its_beginning(
    servers: str, new_topic: Callable[[], str]
) -> None:
    topic = new_topic()
    options = KafkaOptions.of(
        {"kafka.bootstrap.servers": servers, "subscribePattern": f"{topic}(-more)?"}
    )
    stream = KafkaStream(options)
    at = stream.initialOffset()
    assert at.keys() == {topic}
    send(servers, f"{topic}-more", 2, numbered(0, 3))
    rows, at = step(stream, at)
    assert rows == [(2, b"0"), (2, b"1"), (2, b"2")]
    assert at[f"{topic}-more"]["2"] == 3
    stream.stop()


def test_a_topic_that_is_gone(
    servers: str, new_topic: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    send(servers, topic, 0, numbered(0, 2))
    known = {topic: dict.fromkeys("0123", 0), "gone": {"0": 7}}
    general = {"kafka.bootstrap.servers": servers, "subscribe": f"{topic},gone"}
    for names in (f"{topic},gone", topic):
        strict = KafkaStream(KafkaOptions.of({**general, "subscribe": names}))
        with pytest.raises(
            InconsistentStateError, match=r"gone-0 .* deleted, or the options no longer"
        ):
            strict.latestOffset(known, ReadAllAvailable())
        strict.stop()
    lenient = KafkaStream(KafkaOptions.of({**general, "failOnDataLoss": "false"}))
    with caplog.at_level(logging.WARNING):
        for wanted in ([(0, b"0"), (0, b"1")], []):
            rows, known = step(lenient, known)
            assert rows == wanted
            assert known["gone"] == {"0": 7}
        replayed = batch(lenient, {"gone": {"0": 3}}, {"gone": {"0": 7}})
        lenient.prepareForTriggerAvailableNow()
        assert step(lenient, known) == ([], known)
    assert replayed == [], "a batch that was planned before, and not finished"
    assert caplog.text.count("gone-0") == 1
    lenient.stop()


def test_a_topic_that_was_made_anew(servers: str, new_topic: Callable[[], str]) -> None:
    topic = new_topic()
    send(servers, topic, 0, numbered(0, 3))
    known = {topic: {"0": 50, "1": 0, "2": 0, "3": 0}}
    strict = KafkaStream(options_of(servers, topic))
    with pytest.raises(
        InconsistentStateError, match=f"{topic}-0 .* ends at 3, but the next offset to read is 50"
    ):
        step(strict, known)
    strict.stop()
    lenient = KafkaStream(options_of(servers, topic, failOnDataLoss="false"))
    rows, at = step(lenient, known)
    assert rows == [(0, b"0"), (0, b"1"), (0, b"2")]
    assert step(lenient, at) == ([], at)
    lenient.stop()


def test_what_expired_before_it_was_planned() -> None:
    place: tuple[str, int] = ("t", 0)
    start: Offsets = {place: 3}
    lenient = options_of("b:1", "t", failOnDataLoss="false")
    (left,) = ranges_between(lenient, start, {place: 9}, {place: 5})
    assert (left.begin, left.end) == (5, 9)
    assert ranges_between(lenient, start, {place: 4}, {place: 5}) == []
    with pytest.raises(
        InconsistentStateError,
        match=r"t-0 at b:1 begins at offset 5 .* but the next offset to read is 3",
    ):
        ranges_between(options_of("b:1", "t"), start, {place: 9}, {place: 5})


def test_an_older_pyspark_that_gives_no_limits(
    servers: str, new_topic: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "LIMITS", False)
    topic = new_topic()
    send(servers, topic, 3, numbered(0, 3))
    with pytest.raises(SpecError, match=r"needs PySpark 4\.2 or newer"):
        KafkaStream(options_of(servers, topic, maxOffsetsPerTrigger="1"))
    stream = KafkaStream(options_of(servers, topic, startingOffsets="earliest"))
    start, end = stream.initialOffset(), stream.latestOffset()
    assert len(batch(stream, start, end)) == 3
    stream.stop()


def test_the_limit_of_a_query_is_that_of_its_options(servers: str) -> None:
    assert KafkaStream(options_of(servers, "t")).getDefaultReadLimit() == ReadAllAvailable()
    limited = KafkaStream(options_of(servers, "t", maxOffsetsPerTrigger="7"))
    assert limited.getDefaultReadLimit() == ReadMaxRows(7)
    limited.stop()
