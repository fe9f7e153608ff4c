"""Functions for times in milliseconds."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta

__all__ = ["Time", "segment_id", "to_millis"]

Time = int | datetime
"""A time: an int of milliseconds since the epoch, or an aware datetime."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_millis(time: Time) -> int:
    """Convert a time to milliseconds since the epoch. A datetime is rounded down.

    Raises
    ------
    ValueError
        If the time is a naive datetime, or an integer that does not fit 64 bits.
    TypeError
        If the time is neither an integer nor a datetime.
    """
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise ValueError(
                f"{time!r} is naive, so its time zone is unknown; add a tzinfo, such as "
                "datetime.UTC"
            )
        return (time - _EPOCH) // _MILLISECOND  # Every datetime fits 64 bits.
    if isinstance(time, bool):
        raise TypeError("a time must be int milliseconds or an aware datetime, not bool")
    try:
        millis = operator.index(time)
    except TypeError:
        raise TypeError(
            f"a time must be int milliseconds or an aware datetime, not {type(time).__name__}"
        ) from None
    if not -(2**63) <= millis < 2**63:
        raise ValueError(f"the time {millis} does not fit 64 bits")
    return millis


def segment_id(timestamp: int, interval_ms: int) -> int:
    """Return the id of the segment that contains a time (ms).

    A segment contains the rows of one interval. Its id is ``timestamp / interval_ms``, rounded
    toward zero as in Kafka Streams.
    """
    return timestamp // interval_ms if timestamp >= 0 else -(-timestamp // interval_ms)
