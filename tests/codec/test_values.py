"""Values with their timestamps and headers, and the conversions between the formats."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import codec
from kstore_core.errors import FormatError
from tests.codec.strategies import BYTES, HEADERS, TIMES
from tests.reference import wire
from tests.reference.wire import Pair

BYTES_LIKE: st.SearchStrategy[Any] = (
    BYTES | BYTES.map(bytearray) | BYTES.map(lambda data: memoryview(data))
)


@given(BYTES_LIKE, TIMES, HEADERS)
def test_value_timestamp_headers(value: Any, timestamp: int, pairs: list[Pair]) -> None:
    row = codec.encode_value_timestamp_headers(value, timestamp, pairs)
    assert row == wire.encode_value(bytes(value), timestamp, pairs)
    for source in (row, bytearray(row), memoryview(row)):
        decoded = codec.decode_value_timestamp_headers(source)
        assert list(decoded) == [value, timestamp, pairs]
        assert decoded[2].read_only
        assert codec.encode_value_timestamp_headers(*decoded) == row
    assert codec.raw_plain_value(row) == value
    assert codec.raw_timestamped_value(row) == codec.encode_value_and_timestamp(value, timestamp)
    assert codec.raw_timestamp(row) == timestamp
    prefix = codec.raw_headers_timestamp_prefix(row)
    assert prefix + bytes(value) == row
    assert codec.has_empty_headers(row) == (not pairs)


@given(BYTES_LIKE, HEADERS)
def test_aggregation_with_headers(value: Any, pairs: list[Pair]) -> None:
    row = codec.encode_aggregation_with_headers(value, pairs)
    assert row == wire.encode_aggregation(bytes(value), pairs)
    assert list(codec.decode_aggregation_with_headers(row)) == [value, pairs]
    assert codec.raw_aggregation(memoryview(row)) == value


@given(BYTES_LIKE, TIMES)
def test_value_and_timestamp(value: Any, timestamp: int) -> None:
    row = codec.encode_value_and_timestamp(value, timestamp)
    assert row == timestamp.to_bytes(8, "big", signed=True) + bytes(value)
    assert codec.decode_value_and_timestamp(row) == (value, timestamp)
    assert codec.encode_latest(timestamp, value) == row
    assert codec.decode_latest(row) == (timestamp, value)


@given(BYTES_LIKE, TIMES)
def test_converted_rows_read_as_the_richer_format(value: Any, timestamp: int) -> None:
    timed = codec.encode_value_and_timestamp(value, timestamp)
    assert codec.convert_to_timestamped_format(value) == codec.encode_value_and_timestamp(value, -1)
    assert list(codec.decode_value_timestamp_headers(codec.convert_to_header_format(timed))) == [
        value,
        timestamp,
        [],
    ]
    assert list(
        codec.decode_value_timestamp_headers(codec.convert_from_plain_to_header_format(value))
    ) == [value, -1, []]


def test_null_in_is_null_out() -> None:
    assert codec.encode_value_timestamp_headers(None, 1, [("k", b"")]) is None
    assert codec.encode_aggregation_with_headers(None, []) is None
    assert codec.encode_value_and_timestamp(None, 1) is None
    for function in (
        codec.decode_value_timestamp_headers,
        codec.decode_aggregation_with_headers,
        codec.decode_value_and_timestamp,
        codec.convert_to_timestamped_format,
        codec.convert_to_header_format,
        codec.convert_from_plain_to_header_format,
        codec.raw_plain_value,
        codec.raw_timestamped_value,
        codec.raw_aggregation,
        codec.raw_headers_timestamp_prefix,
        codec.raw_timestamp,
    ):
        assert function(None) is None


def test_no_headers_are_one_byte() -> None:
    nothing: list[Any] = [None, [], (), codec.Headers(), codec.decode_headers(b"")]
    for headers in nothing:
        assert codec.encode_aggregation_with_headers(b"v", headers) == b"\x00v"


def test_the_size_is_checked_at_once_and_the_headers_at_the_first_look() -> None:
    value, timestamp, headers = codec.decode_value_timestamp_headers(
        bytes.fromhex("02 01 0000000000000009 76")
    )
    assert (value, timestamp) == (b"v", 9)
    with pytest.raises(FormatError, match="negative header count -1"):
        len(headers)
    for row in ("", "80", "01", "04 00", "00 00000000000000", "02 00 00000000000000"):
        with pytest.raises(FormatError, match="value with timestamp and headers"):
            codec.decode_value_timestamp_headers(bytes.fromhex(row))


@pytest.mark.parametrize("size", range(8))
def test_rows_too_short_for_a_timestamp_are_refused(size: int) -> None:
    for decode in (codec.decode_value_and_timestamp, codec.decode_latest):
        with pytest.raises(FormatError, match=f"8 bytes is cut short: {size} are left"):
            decode(bytes(size))


@pytest.mark.parametrize("value", ["text", 1, [1]])
def test_a_value_that_is_not_bytes_like_is_refused(value: Any) -> None:
    for encode in (
        lambda: codec.encode_value_timestamp_headers(value, 1),
        lambda: codec.encode_aggregation_with_headers(value),
        lambda: codec.encode_value_and_timestamp(value, 1),
        lambda: codec.encode_latest(1, value),
        lambda: codec.decode_value_timestamp_headers(value),
        lambda: codec.convert_to_header_format(value),
    ):
        with pytest.raises(TypeError, match="bytes-like"):
            encode()


def test_a_latest_row_has_a_value() -> None:
    with pytest.raises(TypeError, match="bytes-like"):
        codec.encode_latest(1, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1])
def test_a_timestamp_that_does_not_fit_is_refused(timestamp: int) -> None:
    with pytest.raises(OverflowError, match=f"timestamp: {timestamp} does not fit"):
        codec.encode_value_timestamp_headers(b"", timestamp)


@given(st.binary(max_size=60))
def test_any_bytes_read_as_the_reference_reads_them(row: bytes) -> None:
    try:
        expected = wire.decode_value(row)
    except wire.MalformedError:
        with pytest.raises(FormatError):
            list(codec.decode_value_timestamp_headers(row)[2])
    else:
        assert list(codec.decode_value_timestamp_headers(row)) == list(expected)
