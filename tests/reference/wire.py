"""Varints, headers and values."""

from __future__ import annotations

import struct

Pair = tuple[str, bytes | None]


class MalformedError(ValueError):
    """Bytes that are not in their format."""


def encode_varint(number: int, bits: int = 32) -> bytes:
    return encode_unsigned((number << 1) ^ (number >> (bits - 1)))


def encode_unsigned(rest: int) -> bytes:
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def decode_varint(data: bytes, at: int = 0, bits: int = 32) -> tuple[int, int]:
    raw, end = decode_unsigned(data, at, bits)
    return (raw >> 1) ^ -(raw & 1), end


def decode_unsigned(data: bytes, at: int = 0, bits: int = 32) -> tuple[int, int]:
    raw = shift = 0
    while True:
        if at == len(data):
            raise MalformedError("ends inside a varint")
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift >= bits:
            raise MalformedError("varint too long")
    if raw >> bits:
        raise MalformedError("varint too wide")
    return raw, at


def encode_headers(headers: list[Pair]) -> bytes:
    if not headers:
        return b""
    out = encode_varint(len(headers))
    for key, value in headers:
        text = key.encode()
        out += encode_varint(len(text)) + text
        out += encode_varint(-1) if value is None else encode_varint(len(value)) + value
    return out


def decode_headers(data: bytes) -> list[Pair]:
    if not data:
        return []
    count, at = decode_varint(data)
    if count < 0:
        raise MalformedError("negative count")
    headers: list[Pair] = []
    for _ in range(count):
        key, at = sized(data, at, least=0)
        value, at = sized(data, at, least=-1)
        assert key is not None
        headers.append((key.decode(errors="replace"), value))
    if at != len(data):
        raise MalformedError("bytes after the last header")
    return headers


def sized(data: bytes, at: int, least: int) -> tuple[bytes | None, int]:
    size, at = decode_varint(data, at)
    if size < least or size > len(data) - at:
        raise MalformedError(f"size {size}")
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def encode_aggregation(value: bytes, headers: list[Pair]) -> bytes:
    data = encode_headers(headers)
    return encode_varint(len(data)) + data + value


def decode_aggregation(row: bytes) -> tuple[bytes, list[Pair]]:
    data, at = sized(row, 0, least=0)
    assert data is not None
    return row[at:], decode_headers(data)


def encode_value(value: bytes, timestamp: int, headers: list[Pair]) -> bytes:
    return encode_aggregation(struct.pack(">q", timestamp) + value, headers)


def decode_value(row: bytes) -> tuple[bytes, int, list[Pair]]:
    rest, headers = decode_aggregation(row)
    if len(rest) < 8:
        raise MalformedError("no room for a timestamp")
    return rest[8:], struct.unpack_from(">q", rest)[0], headers
