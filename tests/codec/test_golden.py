"""Every line that the Kafka Streams classes recorded, against the codec; one item for each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kstore_core import codec
from kstore_core.codec import segment_rows
from kstore_core.errors import FormatError
from tests.codec.golden_kinds import DECODED, SESSION_KEYS, WINDOW_KEYS, hexed
from tests.support.golden import unhex
from tests.support.vectors import CASES, Case, encodable, golden_lines, pairs

ELSEWHERE = {"record_batch_v2", "position", "key_schema_range"}


# ---------------------------------------------------------------- numbers

NUMBERS: dict[str, tuple[Callable[..., bytes], Callable[..., tuple[int, int]]]] = {
    "varint": (codec.encode_varint, codec.decode_varint),
    "varlong": (codec.encode_varlong, codec.decode_varlong),
    "unsigned_varint": (codec.encode_unsigned_varint, codec.decode_unsigned_varint),
}


@golden_lines(*NUMBERS)
def test_numbers(case: Case) -> None:
    encode, decode = NUMBERS[case["kind"]]
    value = case["value"] % 2**32 if case["kind"] == "unsigned_varint" else case["value"]
    data = bytes.fromhex(case["bytes"])
    assert encode(value) == data
    assert decode(data) == (value, case["size"])
    assert decode(b"\xff\xff" + data + b"\xff", 2) == (value, 2 + case["size"])


# ---------------------------------------------------------------- headers and values


@golden_lines("headers")
def test_headers(case: Case) -> None:
    data = bytes.fromhex(case["bytes"])
    if encodable(case):
        assert codec.encode_headers(pairs(case["headers"])) == data
    else:
        with pytest.raises(FormatError, match="lone surrogate"):
            codec.encode_headers(pairs(case["headers"]))
    recorded = case["roundtrip_headers"]
    expected = pairs(case["headers"] if recorded == "same" else recorded)
    assert codec.decode_headers(data) == expected
    assert codec.encode_headers(codec.decode_headers(data)) == data
    assert codec.encode_headers(codec.Headers(expected)) == data


@golden_lines("value_timestamp_headers", "restore_convert_kv_headers")
def test_value_timestamp_headers(case: Case) -> None:
    value, timestamp = bytes.fromhex(case["value"]), case["timestamp"]
    data = bytes.fromhex(case["bytes"])
    if encodable(case):
        headers = pairs(case["headers"])
        assert codec.encode_value_timestamp_headers(value, timestamp, headers) == data
        assert list(codec.decode_value_timestamp_headers(data)) == [value, timestamp, headers]
    assert codec.encode_value_timestamp_headers(*codec.decode_value_timestamp_headers(data)) == data
    if "raw_plain_value" in case:
        assert codec.raw_plain_value(data) == unhex(case["raw_plain_value"])
        assert codec.raw_timestamped_value(data) == unhex(case["raw_timestamped_value"])
        assert codec.raw_headers_timestamp_prefix(data) == unhex(case["headers_timestamp_prefix"])
        assert codec.has_empty_headers(data) == case["has_empty_headers"]
        assert codec.raw_timestamp(data) == case["utils_timestamp"]


@golden_lines("aggregation_headers", "restore_convert_session_headers")
def test_aggregation_with_headers(case: Case) -> None:
    value, data = bytes.fromhex(case["value"]), bytes.fromhex(case["bytes"])
    if encodable(case):
        headers = pairs(case["headers"])
        assert codec.encode_aggregation_with_headers(value, headers) == data
        assert list(codec.decode_aggregation_with_headers(data)) == [value, headers]
    again = codec.decode_aggregation_with_headers(data)
    assert codec.encode_aggregation_with_headers(*again) == data
    if "raw_aggregation" in case:
        assert codec.raw_aggregation(data) == unhex(case["raw_aggregation"])


@golden_lines("value_and_timestamp")
def test_value_and_timestamp(case: Case) -> None:
    value, timestamp, data = unhex(case["value"]), case["timestamp"], bytes.fromhex(case["bytes"])
    assert codec.encode_value_and_timestamp(value, timestamp) == data
    assert codec.decode_value_and_timestamp(data) == (value, timestamp)


@golden_lines("versioned_latest_value")
def test_latest(case: Case) -> None:
    value, timestamp, data = unhex(case["value"]), case["timestamp"], bytes.fromhex(case["bytes"])
    assert value is not None
    assert codec.encode_latest(timestamp, value) == data
    assert codec.decode_latest(data) == (timestamp, value)


CONVERSIONS = "convert_to_header_format", "convert_from_plain_to_header_format"


@golden_lines(*CONVERSIONS)
def test_conversions(case: Case) -> None:
    convert = getattr(codec, case["kind"])
    assert convert(unhex(case["input"])) == unhex(case["bytes"])
    assert convert(None) is None


# ---------------------------------------------------------------- keys and partitions


@golden_lines(*WINDOW_KEYS)
def test_window_keys(case: Case) -> None:
    compose, split = WINDOW_KEYS[case["kind"]]
    parts = unhex(case["key"]), case["timestamp"], case["seqnum"]
    assert compose(*parts) == unhex(case["bytes"])
    assert split(unhex(case["bytes"])) == parts


@golden_lines("window_key_changelog")
def test_windowed_keys(case: Case) -> None:
    key, data = bytes.fromhex(case["key"]), bytes.fromhex(case["bytes"])
    assert codec.windowed_key(key, case["start"]) == data
    assert codec.split_windowed_key(data) == (key, case["start"])


@golden_lines(*SESSION_KEYS)
def test_session_keys(case: Case) -> None:
    compose, split = SESSION_KEYS[case["kind"]]
    parts = unhex(case["key"]), case["start"], case["end"]
    assert compose(*parts) == unhex(case["bytes"])
    assert split(unhex(case["bytes"])) == parts


@golden_lines("murmur2")
def test_partitions(case: Case) -> None:
    key = bytes.fromhex(case["key"])
    assert codec.murmur2(key) == case["hash"]
    for count, expected in case["partitions"].items():
        assert codec.partition(key, int(count)) == expected


# ---------------------------------------------------------------- versioned rows


@golden_lines("versioned_segment")
def test_segment_rows(case: Case) -> None:
    row = b""
    for step in case["ops"]:
        value = unhex(step["value"])
        if step["op"] == "new":
            row = segment_rows.new_row(value, step["valid_from"], step["valid_to"])
        elif step["op"] == "insert_as_latest":
            row = segment_rows.insert_as_latest(row, step["valid_from"], step["valid_to"], value)
        elif step["op"] == "insert_as_earliest":
            row = segment_rows.insert_as_earliest(row, step["timestamp"], value)
        else:
            found = segment_rows.find(row, step["find"])
            assert found == (
                step["found_index"],
                step["found_valid_from"],
                step["found_valid_to"],
                unhex(step["found_value"]),
            )
            change = segment_rows.update if step["op"] == "find_then_update" else None
            change = change or segment_rows.insert
            row = change(row, step["timestamp"], value, found[0])
        assert row.hex() == step["bytes"], step
    assert segment_rows.next_timestamp(row) == case["next_timestamp"]
    assert segment_rows.min_timestamp(row) == case["min_timestamp"]
    assert [
        {"valid_from": valid_from, "valid_to": valid_to, "value": value.hex()}
        for valid_from, valid_to, value in segment_rows.find_all(row, -(2**63), 2**63 - 1)
    ] == [
        {name: found[name] for name in ("valid_from", "valid_to", "value")}
        for found in case["find_all_non_null"]
    ]


# ---------------------------------------------------------------- malformed bytes

DECODERS: dict[str, Callable[[bytes], Any]] = DECODED | {
    "utils_raw_plain_value": lambda data: hexed(codec.raw_plain_value(data)),
    "utils_raw_timestamped_value": lambda data: hexed(codec.raw_timestamped_value(data)),
    "utils_raw_aggregation": lambda data: hexed(codec.raw_aggregation(data)),
    "utils_timestamp": codec.raw_timestamp,
}


def stricter(case: Case) -> bool:
    """Whether kstore refuses what Kafka reads: see the strictness table of docs/formats.md."""
    target, note = case["target"], case["note"]
    if "surplus bits" in note:
        return True
    if target.startswith("utils"):  # a helper that slices past the end
        return note == "size -1" or ("7 of 8" in note and target != "utils_raw_aggregation")
    return any(
        words in note
        for words in ("trailing", "swallows timestamp", "count -1", "INT_MIN", "negative header")
    )


@golden_lines("malformed", targets=DECODERS)
def test_malformed(case: Case) -> None:
    decode, data = DECODERS[case["target"]], bytes.fromhex(case["input"])
    if case["outcome"] == "exception" or stricter(case):
        with pytest.raises(FormatError) as caught:
            decode(data)
        assert caught.value.offset is not None
        assert 0 <= caught.value.offset <= len(data)
    else:
        expected = case["result"]
        if "UTF-8" in case["note"]:  # how many U+FFFD is Python's rule
            key = bytes.fromhex(case["input"])[2:-2].decode("utf-8", "replace")
            expected = {"headers": [[key, expected["headers"][0][1]]]}
        assert decode(data) == expected


def test_nothing_in_the_file_is_left_out() -> None:
    tested = {*NUMBERS, *WINDOW_KEYS, *SESSION_KEYS, *CONVERSIONS, *ELSEWHERE}
    tested |= {"headers", "value_timestamp_headers", "aggregation_headers", "value_and_timestamp"}
    tested |= {"restore_convert_kv_headers", "restore_convert_session_headers", "murmur2"}
    tested |= {"window_key_changelog", "versioned_segment", "versioned_latest_value", "malformed"}
    assert {case["kind"] for case in CASES} == tested
    targets = {case["target"] for case in CASES if case["kind"] == "malformed"}
    assert targets == {*DECODERS, "record_batch_v2"}
