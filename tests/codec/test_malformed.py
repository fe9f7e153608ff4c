"""Bytes that nobody wrote: random, mutated, cut, made to look large. At worst a FormatError."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import codec
from kstore_core.codec import segment_rows
from kstore_core.errors import FormatError
from tests.codec.strategies import BYTES, HEADERS, TIMES
from tests.reference import wire
from tests.reference.wire import Pair


def read_headers(data: bytes) -> Any:
    return list(codec.decode_headers(data))


def read_value(data: bytes) -> Any:
    value, timestamp, headers = codec.decode_value_timestamp_headers(data)
    return value, timestamp, list(headers)


def read_aggregation(data: bytes) -> Any:
    value, headers = codec.decode_aggregation_with_headers(data)
    return value, list(headers)


READERS: list[Callable[[bytes], Any]] = [
    read_headers,
    read_value,
    read_aggregation,
    codec.decode_varint,
    codec.decode_varlong,
    codec.decode_value_and_timestamp,
    codec.decode_latest,
    codec.raw_plain_value,
    codec.raw_aggregation,
    codec.raw_timestamp,
    codec.split_window_key,
    codec.split_session_key,
    codec.split_time_first_session_key,
    codec.split_versioned_key,
    segment_rows.entries,
    lambda data: codec.decode_column(pa.array([data], pa.binary())),
    lambda data: codec.explode_versions(
        pa.array([data[:9]], pa.binary()), pa.array([data[9:]], pa.binary())
    ),
]


@given(st.binary(max_size=100))
def test_random_bytes(data: bytes) -> None:
    for read in READERS:
        with contextlib.suppress(FormatError):
            read(data)


@given(BYTES, TIMES, HEADERS, st.data())
def test_mutated_bytes(
    value: bytes, timestamp: int, pairs: list[Pair], data: st.DataObject
) -> None:
    row = bytearray(codec.encode_value_timestamp_headers(value, timestamp, pairs))
    for _ in range(data.draw(st.integers(1, 3))):
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.integers(0, 255))
    mutated = bytes(row[: data.draw(st.integers(0, len(row)))])
    try:
        expected = wire.decode_value(mutated)
    except wire.MalformedError:
        with pytest.raises(FormatError) as caught:
            read_value(mutated)
        assert caught.value.offset is not None
    else:
        assert read_value(mutated) == expected


@given(BYTES, TIMES, HEADERS)
def test_cut_bytes(value: bytes, timestamp: int, pairs: list[Pair]) -> None:
    """Every proper prefix that ends before the value is refused."""
    row = codec.encode_value_timestamp_headers(value, timestamp, pairs)
    for end in range(len(row) - len(value)):
        with pytest.raises(FormatError):
            read_value(row[:end])


# ---------------------------------------------------------------- bombs

COUNT = codec.encode_varint(2**31 - 1)
TRUTHFUL = codec.encode_varint(50_000) + b"\x00" * 99_999 + b"\x04"  # the last header is cut short

BOMBS = {
    "count of 2**31 - 1": COUNT,
    "count of 2**31 - 1 before 100 kB": COUNT + b"\x00" * 100_000,
    "count that nearly fits": TRUTHFUL,
    "size of 2**31 - 1": b"\x02" + COUNT,
    "negative count": codec.encode_varint(-(2**31)),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_claim_costs_nothing_until_the_bytes_bear_it_out(bomb: bytes) -> None:
    row = codec.encode_varint(len(bomb)) + bomb + bytes(8)
    for read, data in ((read_headers, bomb), (read_value, row), (read_aggregation, row)):
        tracemalloc.start()
        begin = time.perf_counter()
        try:
            with pytest.raises(FormatError):
                read(data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 3 * len(data) + 100_000
        assert time.perf_counter() - begin < 1
    arrow = pa.total_allocated_bytes()
    with pytest.raises(FormatError):
        codec.decode_column(pa.array([row] * 10, pa.binary()))
    assert pa.total_allocated_bytes() <= arrow


def test_a_segment_row_of_many_versions_is_read_in_one_pass() -> None:
    row = segment_rows.new_row(b"", 0, 1)
    head, entry = row[:16], row[16:]
    many = (
        (20_000).to_bytes(8, "big")
        + head[8:]
        + b"".join(i.to_bytes(8, "big") + entry[8:] for i in range(19_999, -1, -1))
    )
    begin = time.perf_counter()
    assert segment_rows.find(many, 5) == (19_994, 5, 6, b"")
    assert len(segment_rows.find_all(many, 0, 20_000)) == 20_000
    with pytest.raises(FormatError):
        segment_rows.find(many[:-12], 5)
    assert time.perf_counter() - begin < 1
