"""Partition time: the greatest record time of a partition, in a header of each record (KIP-472).

A stage of a pipeline that removes records removes their times too, so the next stage may accept
late records. A stage can add the partition time to the records that it passes on, and the next one
uses it with ``open_state(…, partition_time=True)``.

The header is ``partition-time``, 8 bytes big-endian, as in the proposal. It is the greatest record
time of the partition when the record was read, itself included. If later records that raised the
time were removed, the header is there twice. The last one is then the partition's time before the
next record that was passed on, or at the end of the batch. The first one decides whether the record
itself is late, the last one whether later records are.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from kstore_core.codec import Headers
from kstore_core.errors import FormatError

__all__ = ["HEADER", "PartitionTime", "partition_time", "with_partition_time"]

HEADER = "partition-time"
"""The key of the header."""

_LONG = struct.Struct(">q")


class PartitionTime(NamedTuple):
    """The time of a partition that a record carries, ms.

    Attributes
    ----------
    read : int
        The greatest time up to and including this record, ms.
    sent : int
        The greatest time before the next record that was passed on.
    """

    read: int
    sent: int


def with_partition_time(headers: Any, read: int, sent: int | None = None) -> Headers:
    """Return a copy of the headers in which this partition time replaces any other.

    Parameters
    ----------
    headers : Headers or iterable of (str, bytes or None)
    read : int
        The greatest time up to and including this record, ms.
    sent : int, optional
        The greatest time before the next record. Default: ``read``.

    Raises
    ------
    ValueError
        ``sent`` is before ``read``, or a time does not fit 64 bits.
    """
    if sent is not None and sent < read:
        raise ValueError(f"sent must not be before read, {read}, but is {sent}")
    made = Headers(headers).copy().remove(HEADER)
    try:
        made.add(HEADER, _LONG.pack(read))
        return made.add(HEADER, _LONG.pack(sent)) if sent not in (None, read) else made
    except struct.error as error:
        raise ValueError(f"a time does not fit 64 bits: {error}") from error


def partition_time(headers: Headers) -> PartitionTime | None:
    """Return the partition time in the headers, or None if the headers have none.

    Raises
    ------
    FormatError
        A header of this name does not have 8 bytes.
    """
    found = headers.all(HEADER)
    return PartitionTime(_time(found[0].value), _time(found[-1].value)) if found else None


def _time(value: bytes | None) -> int:
    if value is None or len(value) != _LONG.size:
        size = "no value" if value is None else f"{len(value)} bytes"
        raise FormatError(
            f"the header {HEADER!r} has {size}, not 8 bytes; its sender uses it for "
            "something else. Remove it from the record, or open the state without partition_time"
        )
    time: int = _LONG.unpack(value)[0]
    return time
