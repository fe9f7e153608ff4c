"""KIP-472: the time of a record's partition travels in a header, and stream time honours it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import Headers, open_state, serdes, stores
from kstore_core.errors import FormatError, UnsupportedError
from kstore_core.partition_time import HEADER, PartitionTime, partition_time, with_partition_time
from kstore_core.types import NOT_PUT

VERSIONS = stores.versioned_key_value("versions", 5, 1, key=serdes.UTF8, value=serdes.INT64)
WINDOWS = stores.window("windows", 5, 1, segment_interval_ms=1, key=serdes.UTF8, value=serdes.INT64)


def test_the_header_is_that_of_the_proposal() -> None:
    headers = with_partition_time([("a", b"1")], 9)
    assert headers == [("a", b"1"), ("partition-time", b"\0\0\0\0\0\0\0\x09")]
    assert partition_time(headers) == PartitionTime(read=9, sent=9)


def test_a_stage_replaces_what_an_earlier_one_told() -> None:
    given_headers = Headers([(HEADER, b"?"), ("a", None)])
    headers = with_partition_time(given_headers, 3, 9)
    assert [header.key for header in headers] == ["a", HEADER, HEADER]
    assert partition_time(headers) == PartitionTime(read=3, sent=9)
    assert partition_time(with_partition_time(headers, 10)) == (10, 10)
    assert len(given_headers) == 2


def test_no_header_tells_nothing() -> None:
    assert partition_time(Headers([("a", b"1")])) is None


@pytest.mark.parametrize("value", [None, b"", b"1234567", b"123456789"])
def test_a_header_that_is_none_is_told(value: bytes | None) -> None:
    with pytest.raises(FormatError, match=r"'partition-time' has (no value|\d bytes), not 8"):
        partition_time(Headers([(HEADER, value)]))


def test_times_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sent must be 9 \(the value of read\) or later, not 3"):
        with_partition_time((), 9, 3)
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        with_partition_time((), 2**63)


def test_the_proposals_example(tmp_path: Path) -> None:
    """Of r1(2), r2(3), r3(7), r4(9) the last two are removed: the time downstream is 9, not 3."""
    passed = [(2, with_partition_time((), 2)), (3, with_partition_time((), 3, 9))]
    for honoured, expected in ((False, 3), (True, 9)):
        with open_state(tmp_path, engine="memory", partition_time=honoured) as state:
            store = state.open(VERSIONS)
            for time, headers in passed:
                with state.record(timestamp=time, headers=headers):
                    assert store.put("k", time, timestamp=time) != NOT_PUT
            assert store.stream_time == expected
            assert (store.put("k", 3, timestamp=3) == NOT_PUT) is honoured


RECORDS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=20)


@settings(deadline=None)
@given(RECORDS)
def test_what_is_late_is_the_same_as_if_nothing_had_been_removed(
    records: list[tuple[int, bool]],
) -> None:
    times = [time for time, _ in records]
    with open_state("whole", engine="memory") as state:
        store = state.open(VERSIONS)
        expected = []
        for number, (time, kept) in enumerate(records):
            code = store.put(f"{number}", number, timestamp=time)
            if kept:
                expected.append(code == NOT_PUT)
        whole_time = store.stream_time

    kept_at = [number for number, (_, kept) in enumerate(records) if kept]
    ends = [*kept_at[1:], len(records)][: len(kept_at)]
    with open_state("filtered", engine="memory", partition_time=True) as state:
        store = state.open(VERSIONS)
        found = []
        for number, end in zip(kept_at, ends, strict=True):
            headers = with_partition_time((), max(times[: number + 1]), max(times[:end]))
            with state.record(headers=headers):
                code = store.put(f"{number}", number, timestamp=times[number])
            found.append(code == NOT_PUT)
        assert found == expected
        if kept_at:
            assert store.stream_time == whole_time


def test_a_window_store_honours_it_too(tmp_path: Path) -> None:
    with open_state(tmp_path, engine="memory", partition_time=True) as state:
        store = state.open(WINDOWS)
        store.put("k", 1, window_start=1)
        with state.record(headers=with_partition_time((), 20)):
            assert store.fetch_one("k", 1) is None
            store.put("k", 14, window_start=14)
            store.put("k", 16, window_start=16)
        assert (store.late, store.stream_time) == (1, 20)
        assert [start for start, _ in store.fetch("k")] == [16]


def test_a_record_that_fails_does_not_move_what_comes_after_it(tmp_path: Path) -> None:
    with open_state(tmp_path, engine="memory", partition_time=True) as state:
        store = state.open(VERSIONS)
        with (
            pytest.raises(RuntimeError, match="no"),
            state.record(headers=with_partition_time((), 3, 9)),
        ):
            raise RuntimeError("no")
        assert store.stream_time == 3


@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
@pytest.mark.parametrize("spec", [VERSIONS, WINDOWS], ids=["versioned", "window"])
def test_stream_time_that_was_moved_alone_is_committed(
    tmp_path: Path, engine: str, spec: Any
) -> None:
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(spec)
        if spec is VERSIONS:
            store.put("k", 1, timestamp=1)
        else:
            store.put("k", 1, window_start=1)
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(spec)
        state.advance(50)
        state.advance(40)
        assert store.stream_time == 50
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(spec)
        assert store.stream_time == 50
        if spec is VERSIONS:
            assert store.put("k", 2, timestamp=44) == NOT_PUT
        else:
            store.put("k", 2, window_start=44)
            assert store.late == 1


def test_only_a_writer_moves_stream_time(tmp_path: Path) -> None:
    with open_state(tmp_path, engine="lmdb") as state:
        state.open(VERSIONS)
        for wrong in ("5", True):
            with pytest.raises(TypeError, match="int milliseconds or an aware datetime"):
                state.advance(wrong)  # type: ignore[arg-type]
    with (
        open_state(tmp_path, read_only=True) as state,
        pytest.raises(UnsupportedError, match="opened with read_only=True"),
    ):
        state.advance(5)
