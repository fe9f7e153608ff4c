"""Key schemas: which rows a fetch reads, against Kafka's recorded bounds and a plain model."""

from __future__ import annotations

import dataclasses
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import codec, keys
from kstore_core.clock import segment_id
from kstore_core.codec.keys.ranges import KeyFilter, KeyLayout, last_row_of
from kstore_core.errors import FormatError, SpecError
from kstore_core.keys import MAX_TIME, SCHEMAS, SESSION, WINDOW, WINDOW_TIME_FIRST, KeySchema
from kstore_core.tables import Bounds
from tests.reference import key_ranges as kafka
from tests.support.golden import unhex
from tests.support.vectors import Case, golden_lines, of_kind

COMPOSE = {
    "window": codec.window_key,
    "window_time_first": codec.time_first_window_key,
    "window_key_first": codec.key_first_window_key,
    "session": lambda key, end, start: codec.session_key(key, start, end),
    "session_time_first": lambda key, end, start: codec.time_first_session_key(key, start, end),
    "session_key_first": lambda key, end, start: codec.key_first_session_key(key, start, end),
}

every_schema = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=lambda s: s.name)


def compose(schema: KeySchema, key: bytes, first: int, second: int) -> bytes:
    return COMPOSE[schema.name](key, first, second)


# The schemas themselves.


@every_schema
def test_a_schema_travels_by_name_and_cannot_be_changed(schema: KeySchema) -> None:
    assert pickle.loads(pickle.dumps(schema)) is schema
    assert keys.by_name(schema.name) is schema
    assert len(pickle.dumps(schema)) < 100
    with pytest.raises(dataclasses.FrozenInstanceError):
        schema.name = "other"  # type: ignore[misc]


def test_an_unknown_schema_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(SpecError, match="'nothing'; the known names are: window, session"):
        keys.by_name("nothing")


@every_schema
@given(key=st.binary(max_size=20), first=st.integers(0, MAX_TIME), second=st.integers(0, 2**31 - 1))
def test_a_row_tells_its_key_and_times(
    schema: KeySchema, key: bytes, first: int, second: int
) -> None:
    row = compose(schema, key, first, second)
    assert schema.segment_time(row) == first
    assert schema.split(row) == (key, first, second)


@pytest.mark.parametrize(
    "kind",
    [
        "window_key",
        "session_key",
        "prefixed_window_key_time_first",
        "prefixed_window_key_key_first",
        "prefixed_session_key_time_first",
        "prefixed_session_key_key_first",
    ],
)
def test_kafkas_recorded_keys_are_told_apart(kind: str) -> None:
    schema = keys.by_name(kind.removeprefix("prefixed_").replace("_key", "", 1))
    recorded = of_kind(kind)
    assert recorded
    for _, line in recorded:
        row = bytes.fromhex(line["bytes"])
        key = bytes.fromhex(line["key"])
        first = line["end"] if schema.session else line["timestamp"]
        second = line["start"] if schema.session else line["seqnum"]
        assert schema.split(row) == (key, first, second)
        assert schema.segment_time(row) == first


@every_schema
@given(row=st.binary(max_size=20))
def test_what_is_no_key_is_refused(schema: KeySchema, row: bytes) -> None:
    least = (16 if schema.session else 12) + (schema.prefix >= 0)
    if len(row) >= least and (schema.prefix < 0 or row[0] == schema.prefix):
        assert compose(schema, *schema.split(row)) == row
        return
    for use in (schema.segment_time, schema.split):
        with pytest.raises(FormatError, match=r"is not the key of a (window|session) store"):
            use(row)


@every_schema
def test_a_key_that_is_no_bytes_is_a_type_error(schema: KeySchema) -> None:
    for use in (schema.segment_time, schema.split):
        for nothing in (None, "text", 5):
            with pytest.raises(TypeError):
                use(nothing)  # type: ignore[arg-type]


def test_a_layout_has_one_of_three_prefixes() -> None:
    for prefix in (-2, 2):
        with pytest.raises(ValueError, match="prefix must be -1, 0 or 1"):
            KeyLayout(session=False, prefix=prefix)


# Bounds beside Kafka's.


@golden_lines("key_schema_range")
def test_the_reference_bounds_are_what_kafka_recorded(line: Case) -> None:
    schema, when = line["schema"], line["time"]
    key = unhex(line["key"])
    if key is None:
        return
    recorded = {
        "lower_range": kafka.lower_range,
        "upper_range": kafka.upper_range,
        "lower_range_fixed_size": kafka.lower_fixed,
        "upper_range_fixed_size": kafka.upper_fixed,
    }
    for name, bound in recorded.items():
        if isinstance(line[name], str):
            assert bound(schema, key, when).hex() == line[name], name


@every_schema
@given(key=st.binary(max_size=12), when=st.integers(0, MAX_TIME))
def test_the_bounds_of_one_key_are_kafkas(schema: KeySchema, key: bytes, when: int) -> None:
    latest, latest_start = (MAX_TIME, when) if schema.session else (when, MAX_TIME)
    low = schema.fetch(10, key, key, when, MAX_TIME).bounds.lo
    high = schema.fetch(10, key, key, 0, latest, latest_start=latest_start).bounds.hi
    assert low is not None
    assert high is not None
    if schema is WINDOW_TIME_FIRST:  # of one time, where keys of other lengths lie between
        assert low <= kafka.lower_fixed(schema.name, key, when)
        assert high > kafka.upper_fixed(schema.name, key, when)
    else:
        assert low == kafka.lower_fixed(schema.name, key, when)
        assert high == kafka.upper_fixed(schema.name, key, when) + b"\0"


@pytest.mark.parametrize("schema", [WINDOW, SESSION], ids=lambda s: s.name)
@given(key=st.binary(max_size=12), when=st.integers(0, MAX_TIME))
def test_the_upper_bound_of_many_keys_is_kafkas_or_above(
    schema: KeySchema, key: bytes, when: int
) -> None:
    latest, latest_start = (MAX_TIME, when) if schema.session else (when, MAX_TIME)
    bounds = schema.fetch(10, None, key, 0, latest, latest_start=latest_start).bounds
    assert bounds.hi is not None
    # Kafka's truncates where it should not; where the two differ, ours holds a row that its loses.
    last = bounds.hi[:-1]
    assert last <= kafka.upper_range(schema.name, key, when) or (
        schema.split(last)[0] == key[: len(schema.split(last)[0])]
    )


# What is read, against a model.

TIMES = st.integers(0, 300) | st.sampled_from([MAX_TIME, MAX_TIME - 1, 2**31, 2**56])
# Keys that are prefixes of one another, and that look like times.
KEYS = (
    st.binary(max_size=3)
    | st.lists(st.sampled_from([b"\0", b"\x01", b"\x7f", b"\xff", b"k"]), max_size=14).map(b"".join)
    | st.builds(
        lambda key, first: key + first.to_bytes(8, "big"),
        st.binary(max_size=2),
        st.integers(0, 300),
    )
)


class PlainTable:
    """Rows in the order of (segment, key), a few a chunk."""

    def __init__(self, schema: KeySchema, rows: set[bytes], interval: int, size: int) -> None:
        self.schema, self.interval, self.size = schema, interval, size
        self.rows = sorted(rows, key=lambda row: (self.segment(row), row))
        self.closed = 0

    def segment(self, row: bytes) -> int:
        return segment_id(self.schema.segment_time(row), self.interval)

    def scan(self, bounds: Bounds) -> Iterator[tuple[list[bytes], list[bytes]]]:
        found = [
            row
            for row in self.rows
            if (bounds.lo is None or bounds.lo <= row)
            and (bounds.hi is None or row < bounds.hi)
            and (bounds.segment_lo is None or bounds.segment_lo <= self.segment(row))
            and (bounds.segment_hi is None or self.segment(row) <= bounds.segment_hi)
        ]
        if bounds.reverse:
            found.reverse()
        try:
            for start in range(0, len(found), self.size):
                chunk = found[start : start + self.size]
                yield chunk, [b"v" + row for row in chunk]
        finally:
            self.closed += 1


@st.composite
def stored(draw: Any, schema: KeySchema) -> set[bytes]:
    rows = set()
    for key, first, second in draw(st.lists(st.tuples(KEYS, TIMES, TIMES), max_size=25)):
        other = min(first, second) if schema.session else second % 4
        rows.add(compose(schema, key, first, other))
    return rows


@every_schema
@settings(deadline=None, max_examples=300)
@given(data=st.data(), interval=st.sampled_from([1, 10, 100, 2**40]), reverse=st.booleans())
def test_a_fetch_reads_exactly_its_rows(
    schema: KeySchema, data: Any, interval: int, reverse: bool
) -> None:
    rows = data.draw(stored(schema))
    held = [None, *(schema.split(row)[0] for row in rows)]
    ends = st.sampled_from(held) | KEYS
    lo, hi = data.draw(ends), data.draw(ends)
    earliest, latest = sorted((data.draw(TIMES), data.draw(TIMES)))
    latest_start = data.draw(TIMES) if schema.session else MAX_TIME
    table = PlainTable(schema, rows, interval, data.draw(st.integers(1, 8)))
    fetch = schema.fetch(
        interval, lo, hi, earliest, latest, latest_start=latest_start, reverse=reverse
    )
    found = []
    for chunk, values in fetch.scan(table):  # type: ignore[arg-type]
        assert chunk
        assert values == [b"v" + row for row in chunk]
        found += chunk

    def wanted(row: bytes) -> bool:
        key, first, second = schema.split(row)
        return (
            (lo is None or lo <= key)
            and (hi is None or key <= hi)
            and earliest <= first <= latest
            and (not schema.session or second <= latest_start)
        )

    expected = [row for row in table.rows if wanted(row)]
    assert found == (expected[::-1] if reverse else expected)


@given(key=KEYS | st.binary(max_size=40), suffix=st.binary(min_size=1, max_size=16))
def test_the_last_row_is_that_of_the_greatest_prefix(key: bytes, suffix: bytes) -> None:
    prefixes = (key[:size] for size in range(len(key) + 1))
    assert last_row_of(key, suffix) == max(prefix + suffix for prefix in prefixes)


def test_the_last_row_of_a_long_key_is_found_at_once() -> None:
    suffix = b"\x7f" + b"\xff" * 11
    for key in (suffix * 5500, b"\x7f" * 65536, bytes(65536), b"\xff" * 65536):
        begun = time.perf_counter()
        last = last_row_of(key, suffix)
        assert time.perf_counter() - begun < 0.5
        assert last.endswith(suffix)


def test_a_filter_passes_whole_chunks_on_and_closes_what_it_reads() -> None:
    table = PlainTable(WINDOW, {codec.window_key(b"k", n) for n in range(10)}, 10, 4)
    filtered = WINDOW.fetch(10, None, None, 0, 99).scan(table)  # type: ignore[arg-type]
    assert len(next(filtered)[0]) == 4
    filtered.close()  # type: ignore[attr-defined]
    assert table.closed == 1
    assert list(filtered) == []


def test_a_filter_leaves_out_rows_that_are_no_keys() -> None:
    rows = KeyFilter(KeyLayout(session=False), None, None, 0, MAX_TIME, MAX_TIME)
    row = codec.window_key(b"", 5)
    given_rows = iter([([b"short", row], [b"1", b"2"]), ([], []), ([b"x"], [b"3"])])
    assert list(rows.chunks(given_rows)) == [([row], [b"2"])]
