"""Versioned rows in bulk against a store that is written by one put at a time."""

from __future__ import annotations

import contextlib
import struct
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core.codec import build_version_rows, explode_versions, segment_rows
from kstore_core.errors import FormatError
from tests.reference.versioned import VersionedRows

Put = tuple[bytes, int, bytes | None]

RETENTION_MS = 1000
INTERVAL_MS = 100
KEYS = st.sampled_from([b"", b"a", b"a\x00", b"ab", b"b", b"\xff"])
VALUES = st.none() | st.sampled_from([b"", b"v", b"value", b"\x00" * 20])
TIMES = st.integers(-99, 400) | st.integers(0, 3000)
PUTS = st.dictionaries(st.tuples(KEYS, TIMES), VALUES, max_size=60)


def built(puts: list[Put], first_live: int) -> list[tuple[bytes, bytes]]:
    """Rows made in bulk of puts in any order."""
    puts = sorted(puts, key=itemgetter(0, 1))
    row_keys, rows = build_version_rows(
        pa.array([key for key, _, _ in puts], pa.binary()),
        pa.array([timestamp for _, timestamp, _ in puts], pa.int64()),
        pa.array([value for _, _, value in puts], pa.binary()),
        segment_interval_ms=INTERVAL_MS,
        first_live_segment=first_live,
    )
    row_keys.validate(full=True)
    rows.validate(full=True)
    return list(zip(row_keys.to_pylist(), rows.to_pylist(), strict=True))


def put_in_order_of_time(puts: list[Put], retention_ms: int = RETENTION_MS) -> VersionedRows:
    store = VersionedRows(retention_ms, INTERVAL_MS)
    for key, timestamp, value in sorted(puts, key=itemgetter(1)):
        store.put(key, timestamp, value)
    return store


@given(PUTS)
def test_the_rows_are_those_that_puts_in_order_of_time_leave(
    drawn: dict[tuple[bytes, int], bytes | None],
) -> None:
    puts = [(key, timestamp, value) for (key, timestamp), value in drawn.items()]
    store = put_in_order_of_time(puts)
    rows = built(puts, store.first_live)
    assert rows == sorted(rows)
    assert rows == store.rows()


@given(PUTS, st.lists(st.tuples(KEYS, TIMES, VALUES), max_size=5))
def test_a_late_put_sees_the_same_history(
    drawn: dict[tuple[bytes, int], bytes | None], late: list[Put]
) -> None:
    """The rows hold what a put out of order needs: its tombstones too."""
    puts = [(key, timestamp, value) for (key, timestamp), value in drawn.items()]
    store = put_in_order_of_time(puts, retention_ms=100_000)
    assert built(puts, -(2**63)) == store.rows()
    for put in late:
        store.put(*put)
    plain = {(key, timestamp): value for key, timestamp, value in [*puts, *late]}
    for key, value, timestamp, valid_to in exploded(store.rows()):
        assert plain[key, timestamp] == value
        later = [at for other, at in plain if other == key and at > timestamp]
        assert valid_to == (min(later) if later else None)
    kept = {(key, timestamp) for key, _, timestamp, _ in exploded(store.rows())}
    assert kept == {version for version, value in plain.items() if value is not None}


def exploded(rows: list[tuple[bytes, bytes]], **options: Any) -> list[tuple[Any, ...]]:
    columns = explode_versions(
        pa.array([key for key, _ in rows], pa.binary()),
        pa.array([row for _, row in rows], pa.binary()),
        **options,
    )
    for column in columns:
        column.validate(full=True)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


@given(PUTS, st.booleans())
def test_rows_come_apart_into_their_versions(
    drawn: dict[tuple[bytes, int], bytes | None], tombstones: bool
) -> None:
    puts = [(key, timestamp, value) for (key, timestamp), value in drawn.items()]
    rows = put_in_order_of_time(puts).rows()
    expected: list[tuple[Any, ...]] = []
    for row_key, row in rows:
        segment, key = struct.unpack_from(">q", row_key)[0], row_key[8:]
        if segment == -1:
            expected.append((key, row[8:], struct.unpack_from(">q", row)[0], None))
            continue
        for valid_from, valid_to, value in reversed(segment_rows.entries(row)):
            if tombstones or value is not None:
                expected.append((key, value, valid_from, valid_to))
    assert exploded(rows, tombstones=tombstones) == expected


def test_slices_chunks_strings_and_large_columns_are_read() -> None:
    keys = pa.chunked_array([["x", "a", "a"], ["b", "y"]], pa.large_string()).slice(1, 3)
    times = pa.array([0, 5, 250, 7, 0], pa.timestamp("ms")).slice(1, 3)
    values = pa.array([b"", b"v", b"w", None, b""], pa.large_binary()).slice(1, 3)
    row_keys, rows = build_version_rows(
        keys, times, values, segment_interval_ms=100, first_live_segment=0
    )
    assert row_keys.type == rows.type == pa.large_binary()
    key, value, timestamp, valid_to = explode_versions(row_keys, rows)
    assert key.to_pylist() == [b"a", b"a"]
    assert value.to_pylist() == [b"v", b"w"]
    assert timestamp.to_pylist() == [5, 250]
    assert valid_to.to_pylist() == [250, None]
    (again, _, _, _) = explode_versions(row_keys.slice(1, 1), rows.slice(1, 1))
    assert again.type == pa.large_binary()
    assert again.to_pylist() == key.to_pylist()[:1]


def test_no_rows_make_no_rows() -> None:
    empty = pa.array([], pa.binary())
    row_keys, rows = build_version_rows(
        empty, pa.array([], pa.int64()), empty, segment_interval_ms=1, first_live_segment=0
    )
    assert len(row_keys) == len(rows) == 0
    assert [len(column) for column in explode_versions(row_keys, rows)] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("keys", "times", "values", "message"),
    [
        ([b"b", b"a"], [1, 2], [b"", b""], "row 1 is not greater"),
        ([b"a", b"a"], [2, 1], [b"", b""], "row 1 is not greater"),
        ([b"a", b"a"], [1, 1], [b"", b""], "row 1 is not greater"),
        ([b"a", None], [1, 1], [b"", b""], "row 1: a key or a timestamp is null"),
        ([b"a", b"b"], [1, None], [b"", b""], "row 1: a key or a timestamp is null"),
        ([b"a", b"a", b"b"], [-300, -200, 0], [b"", b"", b""], "row 0: .* negative number"),
        ([b"a"], [1, 2], [b""], "1 keys, 2 timestamps"),
    ],
)
def test_input_out_of_order_is_refused(
    keys: list[bytes | None], times: list[int | None], values: list[bytes], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build_version_rows(
            pa.array(keys, pa.binary()),
            pa.array(times, pa.int64()),
            pa.array(values, pa.binary()),
            segment_interval_ms=100,
            first_live_segment=-(2**63),
        )


@pytest.mark.parametrize("interval", [0, -1])
def test_an_interval_below_one_is_refused(interval: int) -> None:
    empty = pa.array([], pa.binary())
    with pytest.raises(ValueError, match="less than 1"):
        build_version_rows(
            empty,
            pa.array([], pa.int64()),
            empty,
            segment_interval_ms=interval,
            first_live_segment=0,
        )


def test_times_of_other_units_are_refused() -> None:
    one = pa.array([b"a"], pa.binary())
    with pytest.raises(TypeError, match="the unit must be milliseconds"):
        build_version_rows(
            one,
            pa.array([1], pa.timestamp("us")),
            one,
            segment_interval_ms=1,
            first_live_segment=0,
        )


LATEST_KEY = b"\xff" * 8 + b"k"
SOUND_ROW = segment_rows.new_row(b"v", 1, 2)


@pytest.mark.parametrize(
    ("row_key", "row"),
    [
        (None, SOUND_ROW),
        (bytes(8), None),
        (bytes(7), SOUND_ROW),
        (LATEST_KEY, bytes(7)),
        (bytes(8), SOUND_ROW[:-1]),
        (bytes(8), SOUND_ROW + b"\x00"),
        (bytes(8), b""),
    ],
)
def test_a_malformed_row_is_named(row_key: bytes | None, row: bytes | None) -> None:
    with pytest.raises(FormatError, match=r"row 1: .* of a versioned store"):
        exploded([(bytes(8) + b"k", SOUND_ROW), (row_key, row)])  # type: ignore[list-item]


@given(st.lists(st.tuples(st.binary(max_size=12), st.binary(max_size=80)), max_size=4))
def test_random_rows_never_crash(rows: list[tuple[bytes, bytes]]) -> None:
    with contextlib.suppress(FormatError):
        exploded(rows, tombstones=True)
