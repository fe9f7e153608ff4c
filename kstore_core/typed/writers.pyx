# cython: language_level=3
"""How window and session stores write: what is too late is refused here, and nowhere below.

One call a write, from the user's values to the staged row, in arrival order.
"""

from libc.stdint cimport int64_t

from kstore_core.codec.windowed cimport Windowed
from kstore_core.typed.values cimport RecordSlot, Values

from kstore_core.clock import segment_id
from kstore_core.types import to_millis

__all__ = ["SessionWriter", "WindowWriter", "window_start"]


cdef class Writer:
    """Writes rows of a time: a window's start, a session's end.

    Parameters
    ----------
    values : Values
    table : Table
        In segments: it lets them expire.
    clock : StreamClock
    interval_ms : int
        Width of a segment.
    touch : callable
        Moves the store's position on.
    make : callable
        The key of a row: that of :class:`~kstore_core.keys.RowKeys`.
    """

    cdef Values values
    cdef object make
    cdef object clock
    cdef object interval
    cdef object first_live
    cdef object put_one
    cdef object expire
    cdef RecordSlot slot
    cdef object touch

    def __init__(self, Values values not None, table, clock, interval_ms, touch, make):
        self.values = values
        self.make = make
        self.clock = clock
        self.interval = interval_ms
        self.first_live = segment_id(clock.horizon, interval_ms)
        self.put_one = table.put_one
        self.expire = table.expire
        self.slot = values.slot
        self.touch = touch

    cdef int write(self, bytes row, object raw, int64_t time) except -1:
        """Write a row where it is in time, and let go of the segments that it makes expire."""
        cdef int64_t observed = self.clock.observed
        if time <= observed:
            # Most writes are no older than the retention, and need not ask for their segment.
            if time < <int64_t>self.clock.horizon and not self.clock.accepts_segment(
                time, self.interval
            ):
                return 0
            self.put_one(row, raw)
        else:
            self.clock.advance(time)
            try:
                self.put_one(row, raw)
            except BaseException:
                self.clock.rewind(observed)
                raise
            first_live = segment_id(self.clock.horizon, self.interval)
            if first_live != self.first_live:
                self.first_live = first_live
                self.expire(first_live)
        if self.slot.current is not None:
            self.touch()
        return 0


cdef class WindowWriter(Writer):
    """Writes values of keys and windows.

    Parameters
    ----------
    numbers : DuplicateNumbers or None
        Of a store that retains duplicates.
    """

    cdef object numbers

    def __init__(self, Values values not None, table, clock, interval_ms, touch, make, numbers):
        super().__init__(values, table, clock, interval_ms, touch, make)
        self.numbers = numbers

    def put(self, key, value, start, timestamp, headers):
        """Set the value of ``key`` in the window from ``start``, or add it; None deletes."""
        start = window_start(start)
        raw_key, raw = self.values.row(key, value, timestamp, headers)
        if self.numbers is None:
            self.write(self.make(raw_key, start), raw, start)
        elif raw is not None:
            number = self.numbers.next(raw_key, start)
            self.write(self.make(raw_key, start, number), raw, start)


cdef class SessionWriter(Writer):
    """Writes aggregates of sessions."""

    def put(self, session, aggregate, headers):
        """Set the aggregate of a session; None removes it."""
        if type(session) is not Windowed:
            raise TypeError(f"a session is a Windowed(key, start, end), not {session!r}")
        cdef Windowed record = <Windowed>session
        raw_key, raw = self.values.row(record.key, aggregate, None, headers)
        self.write(self.make(raw_key, record.start, record.end), raw, record.end)


cpdef int64_t window_start(object start) except -1:
    """A window's start, ms; a negative one, or one beyond 64 bits, is a ValueError."""
    cdef int64_t millis = to_millis(start) if type(start) is not int else whole(start)
    if millis < 0:
        raise ValueError(f"a window's start is {millis}; it must not be negative")
    return millis


cdef int64_t whole(object number) except? -1:
    try:
        return number
    except OverflowError:
        return to_millis(number)
