"""Positions: the last applied offsets of a store's input, and their bytes (Kafka's PositionSerde).

Kafka sizes the buffer in bits and stores all of it, so the value ends in zeros. kstore writes the
same padding and accepts any tail.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import ClassVar, Self

from kstore_core.codec import RecordColumns
from kstore_core.errors import FormatError

__all__ = [
    "LoggedPositions",
    "Position",
    "copy_position",
    "decode_position",
    "encode_position",
    "merge_positions",
]

_log = logging.getLogger("kstore_core")

_VERSION, _POSITION = "v", "c"
"""The headers of a changelog's record with its writer's position (Kafka's
``ChangelogRecordDeserializationHelper``): the version, one byte, and the position."""

_VERSION_BYTES = b"\x02v\x02"
"""The first bytes of a header with that key and a value of one byte."""

_INT = struct.Struct(">i")
_PAIR = struct.Struct(">iq")

_Offsets = Mapping[str, Mapping[int, int]]
"""Topic to partition to the last offset whose record has been applied."""


class Position(Mapping[str, Mapping[int, int]]):
    """Topic to partition to the last offset whose record has been applied. It does not change.

    Equal to any mapping of the same content; not hashable, as Kafka's.

    Parameters
    ----------
    offsets : mapping of str to mapping of int to int, optional

    Raises
    ------
    ValueError
        It is not such a mapping, or a number does not fit into Kafka's bytes.
    """

    __slots__ = ("_offsets",)
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __init__(self, offsets: _Offsets | None = None) -> None:
        try:
            self._offsets = copy_position(offsets or {})
            encode_position(self._offsets)
        except (TypeError, AttributeError, ValueError, struct.error) as error:
            raise ValueError(
                f"{offsets!r} is not a position: a position maps topics to partitions to offsets: "
                f"{error}"
            ) from error

    @classmethod
    def copied(cls, offsets: _Offsets) -> Self:
        """Copy offsets without checks; other threads may add to them meanwhile."""
        position = cls.__new__(cls)
        position._offsets = copy_position(offsets)
        return position

    def __getitem__(self, topic: str) -> Mapping[int, int]:
        return MappingProxyType(self._offsets[topic])

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __repr__(self) -> str:
        return f"Position({self._offsets!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return Position, (self._offsets,)

    def with_component(self, topic: str, partition: int, offset: int) -> Position:
        """This position with an offset added, unless it has a greater one."""
        return self.merge({topic: {partition: offset}})

    def merge(self, other: _Offsets) -> Position:
        """Return the greater offset of both positions, partition by partition."""
        merged = copy_position(self)
        merge_positions(merged, Position(other))
        return Position.copied(merged)


def encode_position(position: _Offsets) -> bytes:
    """Return the stored form, padded as in Kafka; topics and partitions in their given order."""
    parts = [b"\0", _INT.pack(len(position))]
    size = 8 + 32
    for topic, offsets in position.items():
        name = topic.encode()
        parts += [_INT.pack(len(name)), name, _INT.pack(len(offsets))]
        parts += [_PAIR.pack(partition, offset) for partition, offset in offsets.items()]
        size += 32 + len(name) + 32 + 96 * len(offsets)
    return b"".join(parts).ljust(size, b"\0")


def decode_position(data: bytes) -> dict[str, dict[int, int]]:
    """Return the position in ``data``.

    Raises
    ------
    FormatError
        Another version than 0, bytes that end too early, or a negative partition.
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
                if partition < 0:
                    raise FormatError(
                        f"the position has the invalid partition {partition}", offset=at
                    )
                offsets[partition] = offset
                at += _PAIR.size
    except (struct.error, UnicodeDecodeError) as error:
        raise FormatError(f"not a position: {error}") from error
    return position


def _count(data: bytes, at: int) -> tuple[int, int]:
    """Return the count at ``at``, and the offset after it."""
    (count,) = _INT.unpack_from(data, at)
    if count < 0:
        raise FormatError(f"a negative count of {count} in a position", offset=at)
    return count, at + _INT.size


def copy_position(position: _Offsets) -> dict[str, dict[int, int]]:
    """Return a copy; other threads may add to ``position`` meanwhile."""
    return {topic: dict(offsets) for topic, offsets in list(position.items())}


def merge_positions(position: dict[str, dict[int, int]], other: _Offsets) -> None:
    """Advance ``position`` to the greater offsets of ``other``."""
    for topic, offsets in other.items():
        known = position.setdefault(topic, {})
        for partition, offset in offsets.items():
            known[partition] = max(offset, known.get(partition, offset))


class LoggedPositions:
    """The positions of the writers of a changelog, read from its records' headers.

    Kafka Streams writes them if it is configured to. Headers of the same names with other content
    are ignored: a position may be behind, but never ahead.
    """

    def __init__(self) -> None:
        self._noted: deque[tuple[int, dict[str, dict[int, int]]]] = deque()
        self._unreadable = 0
        self._first = (-1, "")

    def note(self, records: RecordColumns) -> None:
        """Read the positions of the next records."""
        position: dict[str, dict[int, int]] = {}
        for index in records.with_header_bytes(_VERSION_BYTES):
            record = records[index]
            noted = record.headers.value(_POSITION)
            if noted is None or record.headers.value(_VERSION) != b"\0":
                continue
            try:
                merge_positions(position, decode_position(noted))
            except FormatError as error:
                if not self._unreadable:
                    self._first = (record.offset, str(error))
                self._unreadable += 1
        if position:
            self._noted.append((records.next_offset, position))

    def until(self, next_offset: int) -> dict[str, dict[int, int]]:
        """Return the greatest position before an offset, of those that no call has returned yet."""
        position: dict[str, dict[int, int]] = {}
        while self._noted and self._noted[0][0] <= next_offset:
            merge_positions(position, self._noted.popleft()[1])
        return position

    def warn(self, log: str) -> None:
        """Log one warning for all unreadable positions."""
        if self._unreadable:
            offset, error = self._first
            _log.warning(
                "Passed over the position in %d of the records of %s, first at offset %d: %s",
                self._unreadable,
                log,
                offset,
                error,
            )
