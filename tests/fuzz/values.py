"""Headers and values of every format: lazily, whole, and by the helpers that only slice."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from kstore_core import codec, serdes
from kstore_core.codec.conversions import upgrades
from kstore_core.errors import FormatError
from kstore_core.serdes import BuiltInSerde
from tests.fuzz.family import Family, Refused, tried
from tests.reference import wire
from tests.support.golden import GOLDEN, lines, unhex

_KEY = b"k"
refused = partial(tried, refusals=(FormatError,))


def same(found: Any, expected: Callable[[bytes], Any], data: bytes) -> bool:
    """Whether what was decoded is what the reference says; False where both refuse the bytes."""
    try:
        wanted = expected(data)
    except wire.MalformedError:
        assert isinstance(found, Refused), found
        return False
    assert found == wanted, (found, wanted)
    return True


def check_headers(data: bytes) -> None:
    if not same(refused(lambda: list(codec.decode_headers(data))), wire.decode_headers, data):
        return
    headers = codec.decode_headers(data)
    assert codec.encode_headers(headers) == data, "bytes that were read are written back verbatim"
    pairs = list(headers)
    assert [headers[at] for at in range(len(headers))] == pairs
    assert list(reversed(headers)) == pairs[::-1]
    assert codec.decode_headers(codec.encode_headers(pairs)) == pairs
    for name, _ in pairs[:5]:
        held = [pair for pair in pairs if pair.key == name]
        assert headers.all(name) == tuple(held)
        assert headers.last(name) == held[-1]


def check_value(data: bytes) -> None:
    lazy = refused(codec.decode_value_timestamp_headers, data)
    whole = refused(_whole_value, data)
    if same(whole, wire.decode_value, data):
        value, timestamp, headers = codec.decode_value_timestamp_headers(data)
        again = codec.encode_value_timestamp_headers(value, timestamp, headers)
        assert _whole_value(again) == whole
    sliced = {
        codec.raw_plain_value: lambda value, time: value,
        codec.raw_timestamp: lambda value, time: time,
        codec.raw_timestamped_value: lambda value, time: struct.pack(">q", time) + value,
    }
    for helper, wanted in sliced.items():
        found = refused(helper, data)
        if not isinstance(lazy, Refused):
            assert found == wanted(lazy[0], lazy[1]), helper
    refused(codec.raw_headers_timestamp_prefix, data)
    refused(codec.has_empty_headers, data)


def _whole_value(data: bytes) -> tuple[bytes, int, list[Any]]:
    value, timestamp, headers = codec.decode_value_timestamp_headers(data)
    return value, timestamp, list(headers)


def check_aggregation(data: bytes) -> None:
    lazy = refused(codec.decode_aggregation_with_headers, data)
    whole = refused(_whole_aggregation, data)
    if same(whole, wire.decode_aggregation, data):
        value, headers = codec.decode_aggregation_with_headers(data)
        assert _whole_aggregation(codec.encode_aggregation_with_headers(value, headers)) == whole
    found = refused(codec.raw_aggregation, data)
    assert isinstance(lazy, Refused) or found == lazy[0]


def _whole_aggregation(data: bytes) -> tuple[bytes, list[Any]]:
    value, headers = codec.decode_aggregation_with_headers(data)
    return value, list(headers)


def check_timed(data: bytes) -> None:
    found = refused(codec.decode_value_and_timestamp, data)
    assert isinstance(found, Refused) == (len(data) < 8)
    if isinstance(found, Refused):
        return
    assert found is not None
    assert codec.encode_value_and_timestamp(*found) == data
    timestamp, value = codec.decode_latest(data)
    assert (value, timestamp) == found
    assert codec.encode_latest(timestamp, value) == data


def check_conversions(data: bytes) -> None:
    timed = codec.convert_to_timestamped_format(data)
    assert codec.decode_value_and_timestamp(timed) == (data, -1)
    plain = codec.convert_from_plain_to_header_format(data)
    assert (
        _whole_value(plain) == (data, -1, []) == _whole_value(upgrades.plain_to_headers(_KEY, data))
    )
    assert _whole_aggregation(upgrades.plain_to_session_headers(_KEY, data)) == (data, [])
    found = refused(upgrades.timestamped_to_headers, _KEY, data)
    assert isinstance(found, Refused) == (len(data) < 8)
    if not isinstance(found, Refused):
        value, timestamp = codec.decode_value_and_timestamp(data)
        assert _whole_value(found) == (value, timestamp, [])
        assert codec.convert_to_header_format(data) == found


def check_serde(serde: BuiltInSerde[Any], data: bytes) -> None:
    found = refused(serde.deserialize, data)
    if not isinstance(found, Refused) and found == found:  # not so of NaN
        try:
            again = serde.serialize(found)
        except ValueError:  # JSON of infinities, lone surrogates
            assert serde is serdes.JSON
        else:
            assert serde.deserialize(again) == found


_SERDES = [partial(check_serde, serde) for serde in serdes.BUILT_IN.values()]
CHECKS: list[Callable[[bytes], None]] = [
    check_headers, check_value, check_aggregation, check_timed, check_conversions, *_SERDES,
]  # fmt: skip
_OF_KIND = {
    "headers": 0,
    "value_timestamp_headers": 1,
    "restore_convert_kv_headers": 1,
    "aggregation_headers": 2,
    "restore_convert_session_headers": 2,
    "value_and_timestamp": 3,
    "versioned_latest_value": 3,
    "convert_to_header_format": 4,
    "convert_from_plain_to_header_format": 4,
}
_TEXTS = [b'{"a":[1,2.5,null,"\xc3\xa9"]}', b"[[[[]]]]", b"1e400", b'"\\ud800"', b"\xff\xfe1\x00"]

_CASES = list(lines(GOLDEN / "codec.jsonl"))
_SEEDS = [
    *(
        (_OF_KIND[case["kind"]], unhex(case["bytes"]) or b"")
        for case in _CASES
        if case["kind"] in _OF_KIND
    ),
    *(
        (which, bytes.fromhex(case["input"]))
        for case in _CASES
        if case["kind"] == "malformed"
        for which in range(3)
    ),
    *((which, text) for text in _TEXTS for which in range(5, len(CHECKS))),
]

FAMILY = Family("values", CHECKS, _SEEDS, cost=3)
