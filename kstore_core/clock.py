"""Times in milliseconds, and the stream time of a store: the greatest time seen.

A typed store compares each record with its clock, in the order of arrival. It refuses a late record
before the record reaches a layer, a log or the engine.
"""

from __future__ import annotations

import operator
import threading
from datetime import UTC, datetime, timedelta

__all__ = ["StreamClock", "Time", "segment_id", "to_millis"]

Time = int | datetime
"""Milliseconds since the epoch, or an aware datetime."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

START = -1
"""Stream time before the first record, as in Kafka Streams."""


def to_millis(time: Time) -> int:
    """Convert a time to milliseconds since the epoch; a datetime is rounded down.

    Raises
    ------
    ValueError
        The datetime is naive, or the number does not fit 64 bits.
    TypeError
        The time is neither an integer nor a datetime.
    """
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise ValueError(
                f"{time!r} is naive, so its instant is not known; give it a tzinfo, such as "
                "datetime.UTC"
            )
        return (time - _EPOCH) // _MILLISECOND  # every datetime fits 64 bits
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


def segment_id(timestamp: int, interval_ms: int) -> int:
    """Return the id of the segment that contains a time. The division truncates toward zero, as
    Kafka's does."""
    return timestamp // interval_ms if timestamp >= 0 else -(-timestamp // interval_ms)


class StreamClock:
    """The stream time of one store.

    Parameters
    ----------
    retention_ms : int
        The greatest lateness of an accepted record, inclusive.

    Attributes
    ----------
    observed : int
        The greatest time seen, ms since the epoch; -1 before the first record.
    horizon : int
        ``observed - retention_ms``: the oldest time that is not too late.
    held : bool
        True if the horizon is fixed; see :meth:`hold`.
    turn : RLock
        Held by a thread while it reads the times above and then writes or changes them.
    dropped_late : int
        The number of records refused since the store was opened.
    """

    __slots__ = ("dropped_late", "held", "horizon", "observed", "retention_ms", "turn")

    def __init__(self, retention_ms: int, observed: int = START) -> None:
        self.retention_ms = retention_ms
        self.observed = observed
        self.horizon = observed - retention_ms
        self.held = False
        self.turn = threading.RLock()
        self.dropped_late = 0

    def hold(self) -> None:
        """Fix the horizon at its present time, until the store is closed.

        Use this method for records that are processed together, in another order than that of their
        arrival: their lateness must not depend on the order. Stream time still advances and is
        still committed.
        """
        self.held = True

    def advance(self, timestamp: int) -> None:
        """Move stream time forward; an earlier time changes nothing."""
        if timestamp > self.observed:
            self.observed = timestamp
            if not self.held:
                self.horizon = timestamp - self.retention_ms

    def rewind(self, observed: int) -> None:
        """Undo an advance whose record a lower layer refused."""
        self.observed = observed
        if not self.held:
            self.horizon = observed - self.retention_ms

    def accepts(self, timestamp: int) -> bool:
        """Return True if a record of this time is not late; otherwise count the late record."""
        if timestamp < self.horizon:
            self.dropped_late += 1
            return False
        return True

    def accepts_segment(self, timestamp: int, interval_ms: int) -> bool:
        """Return True if the segment of this time is live; otherwise count the late record.

        Window and session stores refuse records by segment, as Kafka's do. If a record is older
        than the horizon but in the same segment, the store writes the record, but no read returns
        it.
        """
        if timestamp >= self.horizon:
            return True
        if segment_id(timestamp, interval_ms) < segment_id(self.horizon, interval_ms):
            self.dropped_late += 1
            return False
        return True
