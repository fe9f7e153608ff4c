"""Functions that read and write the partition time in the headers of a record (KIP-472).

Partition time is the greatest time of the records in a partition. If a stage of a pipeline removes
records, the next stage does not see their times, so the next stage may accept records that are
late. To prevent this, a stage can add the partition time to the records that it sends. The next
stage uses the partition time if its state was opened with ``open_state(…, partition_time=True)``.

The key of the header is ``partition-time``, and the value has 8 big-endian bytes, as KIP-472
proposes. The value is the greatest time of the partition up to and including the record. If the
stage removed records with a greater time after this record, the record has a second header with the
same key. The value of the second header is the greatest time of the partition before the next
record that was sent. If no later record of the batch was sent, the value is the greatest time at
the end of the batch. The first header decides whether the record is late. The last header decides
whether later records are late.
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
    """The partition time in the headers of a record.

    Attributes
    ----------
    read : int
        The greatest time (ms) in the partition up to and including this record.
    sent : int
        The greatest time (ms) in the partition up to the next record that was sent, without that
        record. Records that the sender dropped after this record count, too.
    """

    read: int
    sent: int


def with_partition_time(headers: Any, read: int, sent: int | None = None) -> Headers:
    """Return a copy of the headers with this partition time in place of any earlier partition time.

    Parameters
    ----------
    headers : Headers or iterable of (str, bytes or None)
        The headers of the record.
    read : int
        The greatest time (ms) in the partition up to and including this record.
    sent : int, optional
        The greatest time (ms) in the partition up to the next record that is sent, without that
        record. Records that are dropped after this record count, too. The default is ``read``.

    Raises
    ------
    ValueError
        If ``sent`` is less than ``read``, or if a time does not fit 64 bits.
    """
    if sent is not None and sent < read:
        raise ValueError(f"sent must be {read} (the value of read) or later, not {sent}")
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
        If the value of a ``partition-time`` header does not have 8 bytes.
    """
    found = headers.all(HEADER)
    return PartitionTime(_time(found[0].value), _time(found[-1].value)) if found else None


def _time(value: bytes | None) -> int:
    if value is None or len(value) != _LONG.size:
        size = "no value" if value is None else f"{len(value)} bytes"
        raise FormatError(
            f"the header {HEADER!r} has {size}, not 8 bytes, so it is not a partition time. Remove "
            "the header from the record, or open the state without partition_time"
        )
    time: int = _LONG.unpack(value)[0]
    return time
