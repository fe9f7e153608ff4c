"""Functions for times in milliseconds, and the class of the stream time of a store.

Stream time is the greatest time of the records that a store has received. A typed store compares
each record with its stream time, in the order of arrival. A late record is dropped before it
reaches a layer, a changelog or the engine.
"""

from __future__ import annotations

import operator
import threading
from datetime import UTC, datetime, timedelta

__all__ = ["StreamClock", "Time", "segment_id", "to_millis"]

Time = int | datetime
"""A time: an int of milliseconds since the epoch, or an aware datetime."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

START = -1
"""Stream time before the first record, as in Kafka Streams."""


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

    The division truncates toward zero, as in Kafka Streams.
    """
    return timestamp // interval_ms if timestamp >= 0 else -(-timestamp // interval_ms)


class StreamClock:
    """The stream time of one store.

    Parameters
    ----------
    retention_ms : int
        The retention (ms). A record is late if it is older than stream time by more than this.
    observed : int
        The stream time at the start (ms).

    Attributes
    ----------
    observed : int
        The stream time in milliseconds since the epoch; -1 before the first record.
    horizon : int
        The time of the oldest record that is accepted, ``observed - retention_ms``.
    held : bool
        True if the horizon is fixed; see :meth:`hold`.
    turn : RLock
        The lock for these times. A thread must hold it while it reads the times, and until it has
        written the record or changed the times.
    dropped_late : int
        The number of late records that were dropped since the store was opened.
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
        """Fix the horizon at its present time until the store is closed.

        Call this method before processing records in an order other than that of their arrival.
        Lateness then does not depend on the order. Stream time still advances, and commits still
        store it.
        """
        self.held = True

    def advance(self, timestamp: int) -> None:
        """Set stream time to this time (ms), if the time is later than stream time."""
        if timestamp > self.observed:
            self.observed = timestamp
            if not self.held:
                self.horizon = timestamp - self.retention_ms

    def rewind(self, observed: int) -> None:
        """Set stream time back to an earlier value, after the write of a record has failed."""
        self.observed = observed
        if not self.held:
            self.horizon = observed - self.retention_ms

    def accepts(self, timestamp: int) -> bool:
        """Return True if a record with this time is not late.

        If the record is late, return False and count it as dropped.
        """
        if timestamp < self.horizon:
            self.dropped_late += 1
            return False
        return True

    def accepts_segment(self, timestamp: int, interval_ms: int) -> bool:
        """Return True if the segment of this time has not expired.

        If the segment has expired, return False and count a dropped record.

        Window and session stores drop a record only if its segment has expired, as in Kafka
        Streams. If a record is older than the horizon but belongs to the segment of the horizon,
        the store writes the record, but no read returns it.
        """
        if timestamp >= self.horizon:
            return True
        if segment_id(timestamp, interval_ms) < segment_id(self.horizon, interval_ms):
            self.dropped_late += 1
            return False
        return True
