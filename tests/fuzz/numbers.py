"""Varints: as the reference reads them, and written again in no more bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kstore_core import codec
from kstore_core.errors import FormatError
from tests.fuzz.family import Family, Refused, tried
from tests.reference import wire
from tests.support.golden import GOLDEN, lines

Decode = Callable[[bytes, int], tuple[int, int]]
Encode = Callable[[int], bytes]


def check(encode: Encode, decode: Decode, expected: Decode, data: bytes) -> None:
    at = data[0] % (len(data) + 1) if data else 0
    found = tried(decode, data, at, refusals=(FormatError,))
    try:
        wanted = expected(data, at)
    except wire.MalformedError:
        assert isinstance(found, Refused), found
        return
    assert found == wanted, (found, wanted)
    number, end = wanted
    shortest = encode(number)
    assert len(shortest) <= end - at
    assert decode(shortest, 0) == (number, len(shortest))


_KINDS: dict[str, tuple[Encode, Decode, Decode]] = {
    "varint": (codec.encode_varint, codec.decode_varint, wire.decode_varint),
    "varlong": (codec.encode_varlong, codec.decode_varlong, partial(wire.decode_varint, bits=64)),
    "unsigned_varint": (
        codec.encode_unsigned_varint,
        codec.decode_unsigned_varint,
        wire.decode_unsigned,
    ),
}
_NAMES = list(_KINDS)

FAMILY = Family(
    "numbers",
    [partial(check, *of_kind) for of_kind in _KINDS.values()],
    [
        (_NAMES.index(case["kind"]), bytes.fromhex(case["bytes"]))
        for case in lines(GOLDEN / "codec.jsonl")
        if case["kind"] in _KINDS
    ],
)
