"""Composite keys and the partitioner."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import codec
from kstore_core.errors import FormatError
from tests.codec.strategies import BYTES, INT32, TIMES
from tests.reference import keys as reference


@given(BYTES, TIMES, INT32)
def test_window_keys(key: bytes, start: int, seq: int) -> None:
    row = codec.window_key(bytearray(key), start, seq)
    assert row == reference.window_key(key, start, seq)
    assert codec.split_window_key(memoryview(row)) == (key, start, seq)
    assert codec.windowed_key(key, start) == row[:-4]
    assert codec.split_windowed_key(row[:-4]) == (key, start)
    assert codec.key_first_window_key(key, start, seq) == b"\x01" + row
    assert codec.split_key_first_window_key(b"\x01" + row) == (key, start, seq)
    time_first = codec.time_first_window_key(key, start, seq)
    assert time_first == reference.time_first_window_key(key, start, seq)
    assert codec.split_time_first_window_key(time_first) == (key, start, seq)


@given(BYTES, TIMES, TIMES)
def test_session_keys(key: bytes, start: int, end: int) -> None:
    row = codec.session_key(key, start, end)
    assert row == reference.session_key(key, start, end)
    assert codec.split_session_key(row) == (key, start, end)
    assert codec.key_first_session_key(key, start, end) == b"\x01" + row
    assert codec.split_key_first_session_key(b"\x01" + row) == (key, start, end)
    time_first = codec.time_first_session_key(key, start, end)
    assert time_first == reference.time_first_session_key(key, start, end)
    assert codec.split_time_first_session_key(time_first) == (key, start, end)


@given(BYTES, TIMES)
def test_versioned_keys(key: bytes, segment: int) -> None:
    row = codec.versioned_key(segment, key)
    assert row == segment.to_bytes(8, "big", signed=True) + key
    assert codec.split_versioned_key(row) == (segment, key)


@given(st.binary(max_size=80), st.integers(1, 2**31 - 1))
def test_partitions(key: bytes, n: int) -> None:
    expected = reference.murmur2(key)
    assert codec.murmur2(key) == codec.murmur2(memoryview(key)) == expected
    assert codec.partition(key, n) == (expected & 0x7FFFFFFF) % n


def test_the_sequence_number_is_zero_unless_said() -> None:
    assert codec.window_key(b"A", 10).hex() == "41000000000000000a00000000"
    assert codec.window_key(b"A", 10, seq=1).hex() == "41000000000000000a00000001"


@pytest.mark.parametrize(
    ("split", "size"),
    [
        (codec.split_window_key, 12),
        (codec.split_windowed_key, 8),
        (codec.split_session_key, 16),
        (codec.split_time_first_window_key, 13),
        (codec.split_key_first_window_key, 13),
        (codec.split_time_first_session_key, 17),
        (codec.split_key_first_session_key, 17),
        (codec.split_versioned_key, 8),
    ],
)
def test_short_keys_are_refused(split: Any, size: int) -> None:
    first = bytes([split.__name__.startswith("split_key_first")])
    assert b"" in split((first * 20)[: min(size, 1)] + bytes(size - 1))
    for short in range(size):
        with pytest.raises(FormatError):
            split(bytes(short))


def test_a_key_of_the_other_prefix_is_refused() -> None:
    with pytest.raises(FormatError, match="the first byte is 01 instead of 00"):
        codec.split_time_first_window_key(codec.key_first_window_key(b"k", 1))
    with pytest.raises(FormatError, match="the first byte is 00 instead of 01"):
        codec.split_key_first_session_key(codec.time_first_session_key(b"k", 1, 2))


@pytest.mark.parametrize("key", [None, "text", 1])
def test_a_key_is_bytes_like(key: Any) -> None:
    for make in (
        lambda: codec.window_key(key, 1),
        lambda: codec.session_key(key, 1, 2),
        lambda: codec.versioned_key(1, key),
        lambda: codec.murmur2(key),
        lambda: codec.partition(key, 1),
    ):
        with pytest.raises(TypeError, match="bytes-like"):
            make()


def test_numbers_have_to_fit_their_fields() -> None:
    with pytest.raises(OverflowError, match="seq"):
        codec.window_key(b"", 0, 2**31)
    with pytest.raises(OverflowError, match="start"):
        codec.window_key(b"", 2**63)
    with pytest.raises(OverflowError, match="end"):
        codec.session_key(b"", 0, 2**63)
    with pytest.raises(ValueError, match="n must be at least 1"):
        codec.partition(b"", 0)
