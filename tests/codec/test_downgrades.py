"""What is left of rows in an older format, against the codec that reads and writes them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core.codec import (
    encode_aggregation_with_headers,
    encode_value_and_timestamp,
    encode_value_timestamp_headers,
)
from kstore_core.codec.conversions.downgrades import Strip
from kstore_core.codec.conversions.upgrades import versioned_to_headers
from kstore_core.errors import FormatError

HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=3)
RECORDS = st.lists(st.tuples(st.binary(max_size=9), st.integers(-1, 2**63 - 1), HEADERS))
LATEST = b"\xff" * 8
KEY = b"\0" * 8 + b"k"


def counted(records, *, timestamps):
    return (
        sum(len(headers) for _, _, headers in records),
        sum(bool(headers) for _, _, headers in records),
        sum(time != -1 for _, time, _ in records) if timestamps else 0,
    )


def counts(strip):
    return strip.headers, strip.headed, strip.timestamps


@given(RECORDS)
def test_headers_and_timestamps_go(records):
    keys = [b"k"] * len(records)
    rows = [encode_value_timestamp_headers(*record) for record in records]
    timestamped = [encode_value_and_timestamp(value, time) for value, time, _ in records]
    plain = [value for value, _, _ in records]
    for strip, from_rows, left in (
        (Strip(headers=True, least_bytes=8), rows, timestamped),
        (Strip(headers=True, timestamp=True), rows, plain),
        (Strip(headers=False, timestamp=True), timestamped, plain),
    ):
        assert strip.rows(keys, from_rows) == left
    assert counts(strip) == (0, 0, counted(records, timestamps=True)[2])
    both = Strip(headers=True, timestamp=True)
    both.rows(keys, rows)
    assert counts(both) == counted(records, timestamps=True)


@given(RECORDS)
def test_headers_of_aggregations_go_and_index_rows_stay(records):
    rows = [encode_aggregation_with_headers(value, headers) for value, _, headers in records]
    strip = Strip(headers=True, index_at=0)
    index = [b"\1k"] * len(rows)
    assert strip.rows([b"\0k"] * len(rows), rows) == [value for value, _, _ in records]
    assert counts(strip) == counted(records, timestamps=False)
    assert strip.rows(index, rows) == rows


def segment_row(versions):
    """Of (value or None, timestamp, headers or None), newest first; None headers: without any."""
    head = struct.pack(">qq", 10**6, versions[-1][1])
    entries, values = b"", b""
    for data, time, _ in versions:
        entries += struct.pack(">qi", time, -1 if data is None else len(data))
    for data, _, _ in reversed(versions):
        values += data or b""
    return head + entries + values


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=5), st.integers(0, 999), HEADERS),
        min_size=1,
        unique_by=lambda version: version[1],
    )
)
def test_headers_of_versions_go(versions):
    versions = sorted(versions, key=lambda version: -version[1])
    with_headers = [
        (None if data is None else encode_aggregation_with_headers(data, headers), time, headers)
        for data, time, headers in versions
    ]
    strip = Strip(headers=True, versioned=True)
    plain = segment_row(versions)
    assert strip.rows([KEY], [segment_row(with_headers)]) == [plain]
    kept = [version for version in versions if version[0] is not None]
    assert counts(strip) == counted(kept, timestamps=False)
    assert strip.rows([KEY], [versioned_to_headers(KEY, plain)]) == [plain]
    data, time, headers = b"v", versions[0][1], versions[0][2]
    latest = struct.pack(">q", time) + encode_aggregation_with_headers(data, headers)
    assert strip.rows([LATEST + b"k"], [latest]) == [struct.pack(">q", time) + data]


@pytest.mark.parametrize(
    ("strip", "key", "row", "reason"),
    [
        (Strip(headers=True), b"k", b"", "varint"),
        (Strip(headers=True), b"k", b"\x04\x02", "says 2 bytes, but 1"),
        (Strip(headers=True), b"k", b"\x02\x04a", "count"),
        (Strip(headers=True), b"k", b"\x01", "-1"),
        (Strip(headers=True, least_bytes=8), b"k", b"\x00short", "8 bytes"),
        (Strip(headers=True, timestamp=True), b"k", b"\x00short", "8 bytes"),
        (Strip(headers=False, timestamp=True), b"k", b"short", "8 bytes"),
        (Strip(headers=True, versioned=True), b"k", b"\0" * 30, "at least 8 bytes"),
        (Strip(headers=True, versioned=True), LATEST, b"\0" * 7, "7 are left"),
        (Strip(headers=True, versioned=True), KEY, b"\0" * 20, "row"),
    ],
)
def test_what_is_not_of_the_format_is_named(strip, key, row, reason):
    with pytest.raises(FormatError) as caught:
        strip.rows([key], [row])
    assert f"the row of key {key!r} cannot be converted" in str(caught.value)
    assert reason in str(caught.value)
    assert counts(strip) == (0, 0, 0)


def test_rows_are_lists_of_bytes():
    strip = Strip(headers=True)
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        strip.rows([b"a", b"b"], [b"\0"])
    for keys, values in (([b"a"], ["x"]), ([None], [b"\0"]), (None, []), ([], ())):
        with pytest.raises(TypeError):
            strip.rows(keys, values)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_stripped_or_refused(key, row):
    for strip in (
        Strip(headers=True, timestamp=True),
        Strip(headers=True, versioned=True),
        Strip(headers=True, index_at=0),
    ):
        try:
            (left,) = strip.rows([key], [row])
        except FormatError:
            continue
        assert len(left) <= len(row)
