"""Positions as bytes: how far a store has read its input topics (Kafka's PositionSerde).

Kafka sizes the buffer in bits and stores all of it, so the value ends in zeros. The same padding is
written here; any tail is accepted.
"""

from __future__ import annotations

import struct

from kstore_core.errors import FormatError
from kstore_core.types import Position

__all__ = ["decode_position", "encode_position", "merge_positions"]

_INT = struct.Struct(">i")
_PAIR = struct.Struct(">iq")


def encode_position(position: Position) -> bytes:
    """The stored form, padded as Kafka pads it; topics and partitions in their given order."""
    parts = [b"\0", _INT.pack(len(position))]
    size = 8 + 32
    for topic, offsets in position.items():
        name = topic.encode()
        parts += [_INT.pack(len(name)), name, _INT.pack(len(offsets))]
        parts += [_PAIR.pack(partition, offset) for partition, offset in offsets.items()]
        size += 32 + len(name) + 32 + 96 * len(offsets)
    return b"".join(parts).ljust(size, b"\0")


def decode_position(data: bytes) -> dict[str, dict[int, int]]:
    """The position in ``data``.

    Raises
    ------
    FormatError
        Another version than 0, or bytes that end too early.
    """
    if not data or data[0] != 0:
        raise FormatError(
            f"a position starts with version 0, not {data[:1].hex() or 'nothing'}", offset=0
        )
    position: dict[str, dict[int, int]] = {}
    try:
        topics, at = _count(data, 1)
        for _ in range(topics):
            length, at = _count(data, at)
            name = data[at : at + length]
            if len(name) < length:
                raise FormatError(f"a topic name of {length} bytes does not fit", offset=at)
            pairs, at = _count(data, at + length)
            offsets = position.setdefault(name.decode(), {})
            for _ in range(pairs):
                partition, offset = _PAIR.unpack_from(data, at)
                offsets[partition] = offset
                at += _PAIR.size
    except (struct.error, UnicodeDecodeError) as error:
        raise FormatError(f"not a position: {error}") from error
    return position


def _count(data: bytes, at: int) -> tuple[int, int]:
    """A count at ``at``, and where it ends."""
    (count,) = _INT.unpack_from(data, at)
    if count < 0:
        raise FormatError(f"a negative count of {count} in a position", offset=at)
    return count, at + _INT.size


def merge_positions(position: dict[str, dict[int, int]], other: Position) -> None:
    """Move ``position`` on to ``other`` where that is further."""
    for topic, offsets in other.items():
        known = position.setdefault(topic, {})
        for partition, offset in offsets.items():
            known[partition] = max(offset, known.get(partition, offset))
