"""What becomes of the rows of an older format."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import codec, formats
from kstore_core.codec import encode_latest, segment_rows
from kstore_core.codec.conversions.upgrades import (
    Prefix,
    convert_rows,
    plain_to_headers,
    plain_to_timestamped,
    timestamped_to_headers,
    versioned_to_headers,
)
from kstore_core.errors import FormatError
from tests.reference.segment_rows import SegmentRow

LATEST = b"\xff" * 8
SEGMENT = bytes(8)
VALUES = st.none() | st.binary(max_size=5)


@given(st.binary(), st.binary())
def test_rows_of_key_value_stores_are_converted_as_kafka_converts_values(
    key: bytes, value: bytes
) -> None:
    assert plain_to_timestamped(key, value) == codec.convert_to_timestamped_format(value)
    assert plain_to_headers(key, value) == codec.convert_from_plain_to_header_format(value)
    timed = codec.encode_value_and_timestamp(value, 7)
    assert timestamped_to_headers(key, timed) == codec.convert_to_header_format(timed)


@given(st.integers(0, 2**40), st.binary())
def test_a_latest_row(timestamp: int, value: bytes) -> None:
    row = versioned_to_headers(LATEST + b"k", encode_latest(timestamp, value))
    assert row == encode_latest(timestamp, codec.encode_aggregation_with_headers(value, []))


@given(st.integers(-50, 50), st.lists(st.tuples(st.integers(1, 20), VALUES), min_size=1))
def test_a_segment_row(end: int, steps: list[tuple[int, bytes | None]]) -> None:
    timestamp, old, new = end, [], []
    for step, value in steps:
        timestamp -= step
        old.append((timestamp, value))
        new.append((timestamp, None if value is None else b"\x00" + value))
    row = versioned_to_headers(SEGMENT + b"k", SegmentRow(end, old).encode())
    assert row == SegmentRow(end, new).encode()
    assert [
        (start, stop, None if value is None else codec.decode_aggregation_with_headers(value)[0])
        for start, stop, value in segment_rows.entries(row)
    ] == SegmentRow(end, old).entries()


def test_tombstones_stay_as_they_are() -> None:
    degenerate = segment_rows.degenerate_row(50)
    assert versioned_to_headers(SEGMENT + b"k", degenerate) == degenerate
    other = struct.pack(">qqqi", 9, 5, 5, -7)  # any negative size is a tombstone
    assert versioned_to_headers(SEGMENT + b"k", other) == other


@pytest.mark.parametrize(
    ("convert", "key", "value"),
    [
        (timestamped_to_headers, b"name", bytes(7)),
        (versioned_to_headers, LATEST + b"name", bytes(7)),
        (versioned_to_headers, b"name", bytes(8)),
        (versioned_to_headers, SEGMENT + b"name", b""),
        (versioned_to_headers, SEGMENT + b"name", segment_rows.new_row(b"v", 1, 2)[:-1]),
        (versioned_to_headers, SEGMENT + b"name", segment_rows.new_row(b"v", 1, 2) + b"?"),
        (versioned_to_headers, SEGMENT + b"name", struct.pack(">qqqi", 2, 1, 1, 2**31 - 1)),
        (versioned_to_headers, SEGMENT + b"name", struct.pack(">qqqi", 2, 1, 1, -(2**31)) + b"?"),
    ],
)
def test_what_cannot_be_converted_is_an_error_that_names_the_key(convert, key, value) -> None:
    with pytest.raises(FormatError, match=r"the row of key .*name.* cannot be upgraded"):
        convert(key, value)
    with pytest.raises(FormatError, match="name"):
        convert_rows(convert, [key], [value])


@given(st.binary())
def test_damaged_rows_are_refused_or_read(row: bytes) -> None:
    try:
        found = segment_rows.entries(row)
    except FormatError:
        with pytest.raises(FormatError):
            versioned_to_headers(SEGMENT, row)
    else:
        converted = segment_rows.entries(versioned_to_headers(SEGMENT, row))
        assert [(s, e, v and v[1:]) for s, e, v in converted] == [
            (s, e, v or v) for s, e, v in found
        ]


@pytest.mark.parametrize("convert", [Prefix(b"-"), lambda key, value: key + value])
def test_many_rows_are_converted_as_each_is(convert) -> None:
    keys, values = [b"a", b"b"], [b"1", b""]
    assert convert_rows(convert, keys, values) == [
        convert(key, value) for key, value in zip(keys, values, strict=True)
    ]
    assert convert_rows(convert, [], []) == []
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        convert_rows(convert, keys, [b"1"])
    with pytest.raises(TypeError):
        convert_rows(convert, keys, [b"1", "2"])


@pytest.mark.parametrize("arguments", [(None, b""), (b"", None), ("", b""), (b"", "")])
def test_only_bytes_are_converted(arguments) -> None:
    for convert in (plain_to_headers, versioned_to_headers):
        with pytest.raises(TypeError):
            convert(*arguments)


def test_every_edge_leads_from_a_format_of_the_same_kind_to_another_namespace() -> None:
    for newer in formats.FORMATS.values():
        for name in newer.upgrades_from:
            older = formats.by_name(name)
            assert older.versioned == newer.versioned
            assert older.namespace != newer.namespace
            assert set(older.upgrades_from) < set(newer.upgrades_from)
