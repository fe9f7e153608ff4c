"""Partition time: how far its partition had come, told by a record in a header (KIP-472).

A stage of a pipeline that removes records removes their times too, so that the next one takes late
records for timely ones. What it lets pass can carry the time along, in a header that one stage
writes and the next honours: ``open_state(…, partition_time=True)``.

The header is ``partition-time``, 8 bytes big-endian, as the proposal has it. It tells the greatest
record time of the partition when the record was read, itself included. Where records behind it were
removed that raised the time, the header is there twice, and the last one tells the time that the
partition had reached when the next record was sent, or the batch was over. The first one is what
the record itself is judged by; the last one is what those after it are judged by.
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
        The greatest time up to this record, itself included.
    sent : int
        The greatest time before the next record that was let pass.
    """

    read: int
    sent: int


def with_partition_time(headers: Any, read: int, sent: int | None = None) -> Headers:
    """A copy of headers that tells a partition's time instead of any that they told.

    Parameters
    ----------
    headers : Headers or iterable of (str, bytes or None)
    read : int
        The greatest time up to this record, itself included, ms.
    sent : int, optional
        The greatest time before the next record; left out, ``read``.

    Raises
    ------
    ValueError
        ``sent`` lies before ``read``, or a time is beyond 64 bits.
    """
    if sent is not None and sent < read:
        raise ValueError(f"a partition cannot have gone back from {read} to {sent}")
    made = Headers(headers).copy().remove(HEADER)
    try:
        made.add(HEADER, _LONG.pack(read))
        return made.add(HEADER, _LONG.pack(sent)) if sent not in (None, read) else made
    except struct.error as error:
        raise ValueError(f"a time does not fit 64 bits: {error}") from error


def partition_time(headers: Headers) -> PartitionTime | None:
    """The partition time in headers, or None.

    Raises
    ------
    FormatError
        A header of this name has not 8 bytes.
    """
    found = headers.all(HEADER)
    return PartitionTime(_time(found[0].value), _time(found[-1].value)) if found else None


def _time(value: bytes | None) -> int:
    if value is None or len(value) != _LONG.size:
        size = "no value" if value is None else f"{len(value)} bytes"
        raise FormatError(
            f"the header {HEADER!r} has {size}, not 8 bytes; whoever sends it means something else "
            "by it. Remove it from the record, or open the state without partition_time"
        )
    time: int = _LONG.unpack(value)[0]
    return time
