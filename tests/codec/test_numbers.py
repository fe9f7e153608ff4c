"""Varints against the plain reference, and at their edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import codec
from kstore_core.errors import FormatError
from tests.codec.strategies import INT32, INT64
from tests.reference import wire


@given(INT32, st.binary(max_size=3), st.binary(max_size=3))
def test_varint(number: int, before: bytes, after: bytes) -> None:
    data = codec.encode_varint(number)
    assert data == wire.encode_varint(number)
    assert codec.decode_varint(before + data + after, len(before)) == (number, len(before + data))


@given(INT64)
def test_varlong(number: int) -> None:
    data = codec.encode_varlong(number)
    assert data == wire.encode_varint(number, bits=64)
    assert codec.decode_varlong(data) == (number, len(data))


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varint(number: int) -> None:
    data = codec.encode_unsigned_varint(number)
    assert data == wire.encode_unsigned(number)
    assert codec.decode_unsigned_varint(data) == (number, len(data))


@given(st.binary(max_size=12) | st.lists(st.integers(0x80, 0xFF), max_size=11).map(bytes))
def test_any_bytes_read_as_the_reference_reads_them(data: bytes) -> None:
    for decode, bits in ((codec.decode_varint, 32), (codec.decode_varlong, 64)):
        try:
            expected = wire.decode_varint(data, bits=bits)
        except wire.MalformedError:
            with pytest.raises(FormatError):
                decode(data)
        else:
            assert decode(data) == expected


@pytest.mark.parametrize("data", ["8000", "80808000", "8080808000"])
def test_padding_is_read(data: str) -> None:
    assert codec.decode_varint(bytes.fromhex(data)) == (0, len(data) // 2)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "end inside"),
        ("80", "end inside"),
        ("8080808080", "too long"),
        ("808080808000", "too long"),
        ("ffffffff1f", "do not fit"),
        ("8080808010", "do not fit"),
    ],
)
def test_malformed_varints_are_refused(data: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason) as caught:
        codec.decode_varint(b"\x02" + bytes.fromhex(data), 1)
    assert caught.value.offset == 1


@pytest.mark.parametrize("data", ["80" * 10, "80" * 9 + "02", "ff" * 9 + "7f", "80" * 9])
def test_malformed_varlongs_are_refused(data: str) -> None:
    with pytest.raises(FormatError):
        codec.decode_varlong(bytes.fromhex(data))


@pytest.mark.parametrize("offset", [-1, 2, 2**40])
def test_an_offset_outside_the_bytes_is_refused(offset: int) -> None:
    with pytest.raises(ValueError, match="outside the 1 bytes"):
        codec.decode_varint(b"\x02", offset)


@pytest.mark.parametrize(
    ("encode", "number"),
    [
        (codec.encode_varint, 2**31),
        (codec.encode_varint, -(2**31) - 1),
        (codec.encode_varlong, 2**63),
        (codec.encode_varlong, -(2**63) - 1),
        (codec.encode_unsigned_varint, -1),
        (codec.encode_unsigned_varint, 2**32),
        (codec.encode_varint, 2**1000),
    ],
)
def test_numbers_that_do_not_fit_are_refused(encode, number) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OverflowError, match="does not fit"):
        encode(number)


@pytest.mark.parametrize("number", [1.0, "1", None])
def test_only_integers_are_encoded(number) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError, match="must be an int"):
        codec.encode_varint(number)
