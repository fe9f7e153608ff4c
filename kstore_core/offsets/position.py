"""Positions (the last applied offsets of a store's input) and their encoding in Kafka.

Kafka's ``PositionSerde`` computes the size of its buffer in bits instead of bytes. The serde
stores the whole buffer, so the encoded value ends in zeros. kstore writes the same zeros. When
kstore reads a value, it ignores all bytes after the position.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
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
    "least_positions",
    "merge_positions",
]

_log = logging.getLogger("kstore_core")

_VERSION, _POSITION = "v", "c"
"""The keys of the headers in which Kafka Streams adds its position to a changelog record.

The header ``v`` has the version in one byte, and the header ``c`` has the position. Kafka's class
is ``ChangelogRecordDeserializationHelper``.
"""

_VERSION_BYTES = b"\x02v\x02"
"""The first bytes of an encoded header with the key ``v`` and a value of one byte."""

_INT = struct.Struct(">i")
_PAIR = struct.Struct(">iq")

_Offsets = Mapping[str, Mapping[int, int]]
"""The type of a position: the last applied offset, by topic and partition."""


class Position(Mapping[str, Mapping[int, int]]):
    """An immutable mapping from a topic and a partition to the last applied offset.

    A position equals any mapping with the same content. A position is not hashable, as in Kafka.

    Parameters
    ----------
    offsets : mapping of str to mapping of int to int, optional
        The last applied offset, by topic and partition. Default: no offsets.

    Raises
    ------
    ValueError
        ``offsets`` has another structure, or a number does not fit Kafka's encoding.
    """

    __slots__ = ("_offsets",)
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __init__(self, offsets: _Offsets | None = None) -> None:
        try:
            self._offsets = copy_position(offsets or {})
            encode_position(self._offsets)
        except (TypeError, AttributeError, ValueError, struct.error) as error:
            raise ValueError(
                f"{offsets!r} is not a position ({error}); a position must map each topic to a "
                "mapping of partitions to offsets"
            ) from error

    @classmethod
    def copied(cls, offsets: _Offsets) -> Self:
        """Return a position with a copy of ``offsets``. Their types are not checked.

        Other threads may add offsets during the copy.
        """
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
        """Return a copy of this position in which a partition's offset is at least ``offset``."""
        return self.merge({topic: {partition: offset}})

    def merge(self, other: _Offsets) -> Position:
        """Return a position with the partitions of both positions, at the greater offsets."""
        merged = copy_position(self)
        merge_positions(merged, Position(other))
        return Position.copied(merged)


def encode_position(position: _Offsets) -> bytes:
    """Encode a position in Kafka's format, with the zeros at the end.

    The topics and partitions keep the order of the mapping.
    """
    parts = [b"\0", _INT.pack(len(position))]
    size = 8 + 32
    for topic, offsets in position.items():
        name = topic.encode()
        parts += [_INT.pack(len(name)), name, _INT.pack(len(offsets))]
        parts += [_PAIR.pack(partition, offset) for partition, offset in offsets.items()]
        size += 32 + len(name) + 32 + 96 * len(offsets)
    return b"".join(parts).ljust(size, b"\0")


def decode_position(data: bytes) -> dict[str, dict[int, int]]:
    """Decode a position.

    Raises
    ------
    FormatError
        The version is not 0, the bytes end too early, a partition or a count is negative, or the
        name of a topic is not UTF-8.
    """
    if not data:
        raise FormatError("the position is empty; it must begin with the version 00", offset=0)
    if data[0] != 0:
        raise FormatError(
            f"the first byte of a position must be the version 00, not {data[:1].hex()}", offset=0
        )
    position: dict[str, dict[int, int]] = {}
    try:
        topics, at = _count(data, 1)
        for _ in range(topics):
            length, at = _count(data, at)
            name = data[at : at + length]
            if len(name) < length:
                raise FormatError(
                    "the position ends within the name of a topic: the name must have "
                    f"{length} bytes, but only {len(name)} follow",
                    offset=at,
                )
            pairs, at = _count(data, at + length)
            offsets = position.setdefault(name.decode(), {})
            for _ in range(pairs):
                partition, offset = _PAIR.unpack_from(data, at)
                if partition < 0:
                    raise FormatError(
                        f"a partition must be 0 or above, but the position has {partition}",
                        offset=at,
                    )
                offsets[partition] = offset
                at += _PAIR.size
    except (struct.error, UnicodeDecodeError) as error:
        raise FormatError(f"the position cannot be decoded: {error}") from error
    return position


def _count(data: bytes, at: int) -> tuple[int, int]:
    """Read the number at the index ``at``, and return the number and the index after it."""
    (count,) = _INT.unpack_from(data, at)
    if count < 0:
        raise FormatError(f"a count in the position must be 0 or above, not {count}", offset=at)
    return count, at + _INT.size


def copy_position(position: _Offsets) -> dict[str, dict[int, int]]:
    """Return a copy of a position. Other threads may add offsets during the copy."""
    return {topic: dict(offsets) for topic, offsets in list(position.items())}


def merge_positions(position: dict[str, dict[int, int]], other: _Offsets) -> None:
    """Raise each offset in ``position`` to the offset in ``other`` if the latter is greater."""
    for topic, offsets in other.items():
        known = position.setdefault(topic, {})
        for partition, offset in offsets.items():
            known[partition] = max(offset, known.get(partition, offset))


def least_positions(
    positions: Iterable[Mapping[str, Mapping[int, int]] | None],
) -> dict[str, dict[int, int]]:
    """Return the position up to which each of several stores has applied the input.

    The result has the least offset of each partition that all ``positions`` contain. None stands
    for a position without partitions.
    """
    least: dict[str, dict[int, int]] | None = None
    for position in positions:
        given = position or {}
        if least is None:
            least = {topic: dict(of_topic) for topic, of_topic in given.items()}
            continue
        least = {
            topic: {
                number: min(offset, given[topic][number])
                for number, offset in of_topic.items()
                if number in given[topic]
            }
            for topic, of_topic in least.items()
            if topic in given
        }
    return {topic: of_topic for topic, of_topic in (least or {}).items() if of_topic}


class LoggedPositions:
    """A reader of the positions in the headers of a changelog's records.

    Kafka Streams writes such headers only if its configuration enables them, so the result may be
    less than the true position, but never greater. Other headers may have the same keys; the reader
    ignores headers without a position.
    """

    def __init__(self) -> None:
        self._noted: deque[tuple[int, dict[str, dict[int, int]]]] = deque()
        self._unreadable = 0
        self._first = (-1, "")

    def note(self, records: RecordColumns) -> None:
        """Read the positions in the headers of the next records."""
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
        """Return the merged positions of the records before an offset.

        The result does not contain positions that an earlier call has returned.
        """
        position: dict[str, dict[int, int]] = {}
        while self._noted and self._noted[0][0] <= next_offset:
            merge_positions(position, self._noted.popleft()[1])
        return position

    def warn(self, log: str) -> None:
        """Log one warning if positions could not be decoded."""
        if self._unreadable:
            offset, error = self._first
            _log.warning(
                "the position in %d records of the changelog %s was ignored, because it could not "
                "be decoded; the first of these records is at offset %d: %s",
                self._unreadable,
                log,
                offset,
                error,
            )
