"""Times in milliseconds, and stream time: the greatest seen, and what is too late because of it.

A store's clock is read in one place, its typed edge, in arrival order: what is refused there never
reaches a layer, a log or the engine.
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
    """Milliseconds since the epoch; a datetime is rounded down.

    Raises
    ------
    ValueError
        A naive datetime; a number beyond 64 bits.
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


def segment_id(timestamp: int, interval_ms: int) -> int:
    """The segment of a time in ms. Division truncates toward zero, as Kafka's does."""
    return timestamp // interval_ms if timestamp >= 0 else -(-timestamp // interval_ms)


class StreamClock:
    """The stream time of one store.

    Parameters
    ----------
    retention_ms : int
        How long a record is accepted after stream time has passed it; the bound is inclusive.

    Attributes
    ----------
    observed : int
        Greatest time seen, ms since the epoch; -1 before the first.
    horizon : int
        ``observed - retention_ms``: the oldest time that is not too late.
    held : bool
        The horizon stays where it is; see :meth:`hold`.
    turn : RLock
        Of the thread that looks at the times above and then writes, or moves them on.
    dropped_late : int
        Records refused since the store was opened.
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
        """Judge all that comes by the horizon of now, until the store is closed.

        For records that are worked on together, and not in the order of their arrival: what is late
        must not hang on which one comes first. Stream time goes on, and is what is committed.
        """
        self.held = True

    def advance(self, timestamp: int) -> None:
        """Move stream time forward; a time before it changes nothing."""
        if timestamp > self.observed:
            self.observed = timestamp
            if not self.held:
                self.horizon = timestamp - self.retention_ms

    def rewind(self, observed: int) -> None:
        """Take back an advance whose record was refused below."""
        self.observed = observed
        if not self.held:
            self.horizon = observed - self.retention_ms

    def accepts(self, timestamp: int) -> bool:
        """Return True if a record of this time is in time; one that is not is counted."""
        if timestamp < self.horizon:
            self.dropped_late += 1
            return False
        return True

    def accepts_segment(self, timestamp: int, interval_ms: int) -> bool:
        """Return True if the segment of this time is live; a record of one that is not is counted.

        Window and session stores refuse by segment, as Kafka's do: what is older than the horizon
        in the segment of the horizon is stored, though no read shows it.
        """
        if timestamp >= self.horizon:
            return True
        if segment_id(timestamp, interval_ms) < segment_id(self.horizon, interval_ms):
            self.dropped_late += 1
            return False
        return True
