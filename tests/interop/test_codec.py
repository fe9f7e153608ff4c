"""Bytes of Kafka's serializers, made afresh from random inputs, against kstore's codec."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from kstore_core import codec
from kstore_core.errors import FormatError
from kstore_core.offsets.position import decode_position, encode_position
from tests.codec.golden_kinds import DECODED
from tests.codec.strategies import BYTES, HEADERS, INT32, KEYS, TIMES
from tests.interop.harness import Harness
from tests.support.golden import unhex, unhex_headers

HEX = BYTES.map(bytes.hex)
PAIRS = HEADERS.map(lambda pairs: [[k, None if v is None else v.hex()] for k, v in pairs])
NUMBERS = st.integers(0, 2**31 - 1)
WINDOW = {"key": HEX, "timestamp": TIMES, "seqnum": NUMBERS}
SESSION = {"key": HEX, "start": TIMES, "end": TIMES}
OFFSETS = st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), max_size=3)
POSITIONS = st.dictionaries(KEYS.filter(bool), OFFSETS, max_size=3)

Encode = Callable[..., bytes]


def valued(encode: Encode) -> Encode:
    return lambda value, timestamp, headers: encode(unhex(value), timestamp, unhex_headers(headers))


def aggregated(value: str, headers: Any) -> bytes:
    return codec.encode_aggregation_with_headers(unhex(value), unhex_headers(headers))


def keyed(encode: Encode) -> Encode:
    return lambda key, *numbers: encode(unhex(key), *numbers)


#: The vector's kind: what it is made of, in the order that the codec takes it, and the codec.
VECTORS: dict[str, tuple[dict[str, SearchStrategy[Any]], Encode]] = {
    "varint": ({"value": INT32}, codec.encode_varint),
    "varlong": ({"value": TIMES}, codec.encode_varlong),
    "unsigned_varint": ({"value": INT32}, lambda n: codec.encode_unsigned_varint(n % 2**32)),
    "headers": ({"headers": PAIRS}, lambda pairs: codec.encode_headers(unhex_headers(pairs))),
    "value_timestamp_headers": (
        {"value": HEX, "timestamp": TIMES, "headers": PAIRS},
        valued(codec.encode_value_timestamp_headers),
    ),
    "restore_convert_kv_headers": (
        {"value": HEX, "timestamp": st.integers(0, 2**63 - 1), "headers": PAIRS},
        valued(codec.encode_value_timestamp_headers),
    ),
    "aggregation_headers": ({"value": HEX, "headers": PAIRS}, aggregated),
    "restore_convert_session_headers": ({"value": HEX, "headers": PAIRS}, aggregated),
    "value_and_timestamp": (
        {"value": HEX, "timestamp": TIMES},
        keyed(codec.encode_value_and_timestamp),
    ),
    "convert_to_header_format": ({"input": HEX}, keyed(codec.convert_to_header_format)),
    "convert_from_plain_to_header_format": (
        {"input": HEX},
        keyed(codec.convert_from_plain_to_header_format),
    ),
    "versioned_latest_value": (
        {"timestamp": TIMES, "value": HEX},
        lambda timestamp, value: codec.encode_latest(timestamp, bytes.fromhex(value)),
    ),
    "window_key": (WINDOW, keyed(codec.window_key)),
    "prefixed_window_key_time_first": (WINDOW, keyed(codec.time_first_window_key)),
    "prefixed_window_key_key_first": (WINDOW, keyed(codec.key_first_window_key)),
    "session_key": (SESSION, keyed(codec.session_key)),
    "prefixed_session_key_time_first": (SESSION, keyed(codec.time_first_session_key)),
    "prefixed_session_key_key_first": (SESSION, keyed(codec.key_first_session_key)),
    "window_key_changelog": (
        {"key": HEX, "start": st.integers(0, 2**63 - 2)},
        keyed(codec.windowed_key),
    ),
}


@pytest.mark.parametrize("kind", VECTORS)
def test_the_same_inputs_give_the_same_bytes(kafka: Harness, kind: str) -> None:
    fields, encode = VECTORS[kind]

    @settings(max_examples=80, deadline=None)
    @given(st.fixed_dictionaries(fields))
    def compare(inputs: dict[str, Any]) -> None:
        answer = kafka.call("codec", kind=kind, **inputs)
        assert encode(*(inputs[name] for name in fields)) == unhex(answer["bytes"])

    compare()


@settings(max_examples=80, deadline=None)
@given(key=BYTES)
def test_the_same_keys_hash_the_same(kafka: Harness, key: bytes) -> None:
    assert codec.murmur2(key) == kafka.call("codec", kind="murmur2", key=key.hex())["hash"]


@settings(max_examples=80, deadline=None)
@given(position=POSITIONS)
def test_positions_are_read_and_padded_the_same(
    kafka: Harness, position: dict[str, dict[int, int]]
) -> None:
    """Their order is that of a hash map in Java, so the contents are compared, and the size."""
    position = {topic: offsets for topic, offsets in position.items() if offsets}
    data = bytes.fromhex(kafka.call("codec", kind="position", position=position)["bytes"])
    assert decode_position(data) == position
    assert len(encode_position(position)) == len(data)


STRICTER = re.compile(r"negative header count|after the last header|bits that do not fit")
"""What is refused here though Kafka reads it: docs/compatibility.md."""


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Bytes of a record, a few of them changed, cut off or added; or any bytes."""
    value, headers = draw(BYTES), draw(HEADERS)
    data = bytearray(codec.encode_value_timestamp_headers(value, draw(TIMES), headers))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, min(len(data) - 1, 12)))
        data[at] = draw(st.integers(0, 255))
    cut = draw(st.integers(0, len(data)))
    return draw(st.sampled_from([bytes(data), bytes(data[:cut]), draw(st.binary(max_size=12))]))


@pytest.mark.parametrize("target", DECODED)
def test_damaged_bytes_are_read_the_same_or_refused(kafka: Harness, target: str) -> None:
    @settings(max_examples=150, deadline=None)
    @given(damaged().filter(bool))
    def compare(data: bytes) -> None:
        asked = {"op": "codec", "kind": "decode", "target": target, "input": data.hex()}
        theirs = kafka.send(asked)["result"]
        ours = decoded(target, data)
        if isinstance(ours, FormatError):
            assert "exception" in theirs or STRICTER.search(str(ours)), (data, theirs, ours)
        else:
            assert one_replacement(ours) == one_replacement(theirs)

    compare()


def decoded(target: str, data: bytes) -> Any:
    try:
        return DECODED[target](data)
    except FormatError as error:
        return error


def one_replacement(result: Any) -> str:
    """How many U+FFFD stand for invalid UTF-8 is Python's rule here, and Java's there."""
    return re.sub("\ufffd+", "\ufffd", json.dumps(result, sort_keys=True, ensure_ascii=False))
