"""Logs into shards by the time of their partition: late is what is late by the whole of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import Headers, open_state, stores
from kstore_core.codec import window_key
from kstore_core.errors import FormatError, SpecError
from kstore_core.partition_time import HEADER, with_partition_time
from kstore_core.spark import spec_json
from kstore_core.spark.columns.partition_headers import NO_TIME, header_times
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.applying import apply_log
from kstore_core.spark.shards.frames import check_log_columns, spark_schema
from kstore_core.spark.shards.log import ShardLog
from kstore_core.spark.source.write_options import write_options
from kstore_core.spark.write.job import WriteJob
from kstore_core.spec import StoreSpec
from kstore_core.types import NOT_PUT
from tests.spark.stream.shard_epochs import rows_of
from tests.spark.support.inboxes import received, sink_of
from tests.spark.support.logs import Record, log_table

VERSIONS = stores.versioned_key_value("versions", 5, 2)
WINDOWS = stores.window("windows", 5, 1, segment_interval_ms=1)

Row = tuple[str, int, bool]
"""A key, a time, and whether the stage before removes the record."""
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.booleans()), max_size=30)


def passed_on(rows: list[Row]) -> list[Record]:
    """What a stage lets pass: each record tells how far its partition was, and before the next."""
    records: list[Record] = []
    reached = -1
    for offset, (key, time, removed) in enumerate(rows):
        reached = max(reached, time)
        if not removed:
            headers = with_partition_time([("n", b"1")], reached)
            records.append(_record(key.encode(), time, offset, headers))
        elif records:
            last = records.pop()
            read = max(row[1] for row in rows[: last.offset + 1])
            headers = with_partition_time(Headers(last.headers), read, reached)
            records.append(_record(last.key, last.timestamp, last.offset, headers))
    return records


def _record(key: bytes, time: int, offset: int, headers: Headers) -> Record:
    pairs = tuple((header.key, header.value) for header in headers)
    return Record(key, b"v%d" % offset, time, pairs, offset=offset)


def late_by_all(rows: list[Row], retention: int) -> set[int]:
    """The offsets of records that a store of all rows would refuse."""
    late, reached = set(), -1
    for offset, (_, time, removed) in enumerate(rows):
        if time < reached - retention and not removed:
            late.add(offset)
        reached = max(reached, time)
    return late


def versions_of(store: Any) -> list[Any]:
    return [list(store.history(key, store.clock.horizon)) for key in (b"a", b"b")]


def put_by_hand(state: Any, records: list[Record], put: Callable[[Record], object]) -> None:
    """Put each record in its own context."""
    for record in records:
        with state.record(timestamp=record.timestamp, headers=Headers(record.headers)):
            put(record)


@settings(deadline=None, max_examples=60)
@given(ROWS, st.integers(1, 30))
def test_versions_are_those_of_puts_by_hand_however_the_log_is_cut(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], cut: int
) -> None:
    records = passed_on(rows)
    scratch = tmp_path_factory.mktemp("p")
    refused = set()
    with open_state(scratch / "hand", engine="memory", partition_time=True) as state:
        store = state.open(VERSIONS)

        def put(r: Record) -> None:
            if store.put(r.key, r.value, timestamp=r.timestamp) == NOT_PUT:
                refused.add(r.offset)

        put_by_hand(state, records, put)
        by_hand = versions_of(store), store.stream_time
    assert refused == late_by_all(rows, VERSIONS.history_retention_ms or 0)
    late = 0
    with open_state(scratch / "log", engine="memory") as state:
        store = state.open(VERSIONS)
        for begin in range(0, len(records), cut):
            log = ShardLog.of(rows_of(records[begin : begin + cut]), VERSIONS)
            done = apply_log(state, store, log, partition_time=True)
            assert done.records == len(log)
            late += done.late
            state.commit()
        assert (versions_of(store), store.stream_time) == by_hand
    assert late == len(refused)


@settings(deadline=None, max_examples=40)
@given(ROWS, st.integers(1, 30))
def test_windows_are_those_of_puts_by_hand(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], cut: int
) -> None:
    records = passed_on(rows)
    scratch = tmp_path_factory.mktemp("p")
    with open_state(scratch / "hand", engine="memory", partition_time=True) as state:
        store = state.open(WINDOWS)
        put_by_hand(state, records, lambda r: store.put(r.key, r.value, window_start=r.timestamp))
        by_hand = list(store.all()), store.stream_time
    with open_state(scratch / "log", engine="memory") as state:
        store = state.open(WINDOWS)
        for begin in range(0, len(records), cut):
            part = [
                Record(window_key(r.key, r.timestamp), r.value, 0, r.headers, offset=r.offset)
                for r in records[begin : begin + cut]
            ]
            apply_log(state, store, ShardLog.of(rows_of(part), WINDOWS), partition_time=True)
            state.commit()
        assert (list(store.all()), store.stream_time) == by_hand


def test_the_greatest_times_overflow_nothing(tmp_path: Path) -> None:
    for retention in (0, 2**63 - 1):
        spec = stores.versioned_key_value("versions", retention, 2**62)
        record = _record(b"a", 7, 0, with_partition_time((), 2**63 - 1))
        with open_state(tmp_path / str(retention), engine="memory") as state:
            log = ShardLog.of(rows_of([record]), spec)
            store = state.open(spec)
            done = apply_log(state, store, log, partition_time=True)
            assert (done.late, store.stream_time) == (retention == 0, 2**63 - 1)


@pytest.mark.parametrize("spec", [VERSIONS, WINDOWS], ids=lambda spec: str(spec.name))
def test_times_that_go_back_move_nothing_back(tmp_path: Path, spec: StoreSpec) -> None:
    """No stage writes them so; by hand, too, the greatest one counts."""
    told = tuple((HEADER, time.to_bytes(8, "big")) for time in (9, 3))
    record = Record(window_key(b"a", 8), b"1", 8, told)
    with open_state(tmp_path, engine="memory") as state:
        store = state.open(spec)
        apply_log(state, store, ShardLog.of(rows_of([record]), spec), partition_time=True)
        assert store.stream_time == 9


def test_a_column_without_headers_tells_nothing() -> None:
    read, sent = header_times(None, 2)
    assert read.tolist() == sent.tolist() == [NO_TIME] * 2
    records = [Record(b"a", b"1", 3), _record(b"b", 3, 1, with_partition_time((), 3, 9))]
    read, sent = header_times(ShardLog.of(rows_of(records), VERSIONS).headers, 2)
    assert (read.tolist(), sent.tolist()) == ([NO_TIME, 3], [NO_TIME, 9])


# Of r1(2), r2(3), r3(7), r4(9) the last two are removed; a later log, or epoch, has r5(3).
FIRST = passed_on([("a", 2, False), ("a", 3, False), ("a", 7, True), ("a", 9, True)])
SECOND = [_record(b"a", 3, 4, with_partition_time((), 9))]


@pytest.mark.parametrize("honoured", [True, False])
def test_the_proposals_example_in_a_batch_and_a_stream(tmp_path: Path, honoured: bool) -> None:
    batch, stream = Root.at(tmp_path / "batch"), Root.at(tmp_path / "stream")
    options = {"path": str(stream), "spec": spec_json(VERSIONS), "partitions": "1"}
    options["partition_time"] = str(honoured)
    for number, records in enumerate((FIRST, SECOND)):
        rows = log_table(records)
        job = WriteJob.plan(
            batch, VERSIONS, batch.newest(), engine="lmdb", partitions=1, mode="append"
        )
        job.begin()
        writer = job.writer(partition_time=honoured)
        job.publish(writer.write_each(number, rows.to_batches(), by_key=False))
        sink = sink_of({**options, "engine": "lmdb"}, rows)
        for _ in range(2):
            sink.commit(received(stream.path, number, [rows]), number)
        for root in (batch, stream):
            [shard] = root.load(1 + number).shards
            assert shard.stream_time == (9 if honoured else 3)
            assert root.load(1 + number).late == (number if honoured else 0)


def test_a_header_that_tells_no_time_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    rows = log_table([Record(b"a", b"1", 3, ((HEADER, b"123"),))])
    options = {"path": str(tmp_path), "spec": spec_json(VERSIONS), "partitions": "1"}
    messages = received(tmp_path, 0, [rows])
    timed = sink_of({**options, "partition_time": "true"}, rows)
    with pytest.raises(FormatError, match="header 'partition-time' does not have 8 bytes"):
        timed.commit(messages, 0)
    sink_of(options, rows).commit(messages, 0)
    assert Root.at(tmp_path).load().records == 1


def test_partition_time_where_there_is_none_is_refused() -> None:
    schema = spark_schema(log_table([]).schema)
    with pytest.raises(SpecError, match="'kv' has no stream time that partition_time=True"):
        check_log_columns(schema, stores.key_value("kv"), partition_time=True)
    bare = spark_schema(log_table([]).drop_columns(["headers"]).schema)
    with pytest.raises(SpecError, match="'headers' is missing"):
        check_log_columns(bare, VERSIONS, partition_time=True)
    check_log_columns(bare, VERSIONS)
    wrong: Any = "headers"
    with pytest.raises(SpecError, match="partition_time must be True or False, not 'headers'"):
        check_log_columns(schema, VERSIONS, partition_time=wrong)
    with pytest.raises(SpecError, match="partition_time='headers' is not true or false"):
        write_options({"path": "/x", "partition_time": "headers"})
