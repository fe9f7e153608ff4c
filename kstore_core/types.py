"""The values that kstore hands in and out.

The record classes are extension types of :mod:`kstore_core.codec`; here they have their home name.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kstore_core.codec import (
    AggregationWithHeaders,
    Header,
    Headers,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedRecord,
    VersionedRecordWithHeaders,
    Windowed,
)

__all__ = [
    "LATEST",
    "NOT_PUT",
    "AggregationWithHeaders",
    "Header",
    "Headers",
    "RecordContext",
    "Time",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "VersionedRecord",
    "VersionedRecordWithHeaders",
    "Windowed",
    "to_millis",
]

LATEST = -1
"""What a versioned put returns when the version is the latest."""

NOT_PUT = -(2**63)
"""What a versioned put returns when the version came too late and was not stored."""

Time = int | datetime
"""Milliseconds since the epoch, or an aware datetime."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_millis(time: Time) -> int:
    """Milliseconds since the epoch; a datetime is rounded down.

    Raises
    ------
    ValueError
        A naive datetime, whose instant nobody knows; a number beyond 64 bits.
    TypeError
        Neither an integer nor a datetime.
    """
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise ValueError(
                f"{time!r} is naive, so its instant is not known; give it a tzinfo, such as "
                "datetime.UTC"
            )
        return (time - _EPOCH) // _MILLISECOND  # a datetime's years fit 64 bits by far
    if isinstance(time, bool):
        raise TypeError("a time is int milliseconds or an aware datetime, not bool")
    try:
        millis = operator.index(time)
    except TypeError:
        raise TypeError(
            f"a time is int milliseconds or an aware datetime, not {type(time).__name__}"
        ) from None
    if not -(2**63) <= millis < 2**63:
        raise ValueError(f"the time {millis} does not fit 64 bits")
    return millis


@dataclass(frozen=True, slots=True)
class RecordContext:
    """The input record that is being processed: where it came from, its time and its headers.

    Attributes
    ----------
    topic : str or None
        None where the record did not come from a topic; then the position does not move.
    partition, offset : int
    timestamp : int or None
        Milliseconds since the epoch.
    headers : Headers
    """

    topic: str | None = None
    partition: int = -1
    offset: int = -1
    timestamp: int | None = None
    headers: Any = field(default_factory=Headers)
