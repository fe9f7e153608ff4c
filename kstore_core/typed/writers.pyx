# cython: language_level=3, cdivision=True
"""The writes of window and session stores. Only this module drops late writes.

One call serialises a value and stages its row. A thread must take a lock for a write that advances
stream time or may be late. Other writes need no lock.
"""

from libc.stdint cimport int64_t

from kstore_core.codec.keys.parts cimport NO_PREFIX
from kstore_core.codec.keys.windowed cimport Windowed
from kstore_core.stream_clock cimport StreamClock
from kstore_core.tables.segments.table cimport SegmentedTable
from kstore_core.typed.reads cimport row_of
from kstore_core.typed.values cimport Values

from kstore_core.types import to_millis

__all__ = ["SessionWriter", "WindowWriter", "window_start"]


cdef class Writer:
    """The base class of the writers of window and session stores.

    The time of a row is the start of a window or the end of a session.

    Parameters
    ----------
    values : Values
    table : Table
        The table of the rows. The writer removes its expired segments.
    clock : StreamClock
    interval_ms : int
        The width of a segment in ms.
    touch : callable
        A function that advances the store's position to an input record.
    keys : RowKeys
    """

    def __init__(
        self,
        Values values not None,
        table,
        StreamClock clock not None,
        int64_t interval_ms,
        touch,
        keys,
    ):
        self.values = values
        self.make = keys.make
        if type(table) is SegmentedTable and keys.schema.prefix == NO_PREFIX:
            self.segments = table
        self.clock = clock
        self.interval = interval_ms
        self.first_live = clock.horizon / interval_ms
        self.rows = table.rows
        self.put_one = table.put_one
        self.get_row = table.get
        self.expire = table.expire
        self.current_record = values.current_record
        self.touch = touch

    cdef int write(self, bytes row, object raw, int64_t time, object record) except -1:
        """Write a row unless it is late, and remove segments that expire because of its time.

        ``record`` is the input record of the write, or None.
        """
        if self.clock.horizon <= time <= self.clock.observed:
            self.put_row(row, raw, time)
        else:
            self.rows._check_writable()  # raises in a fork, where the lock may never be released
            self.clock.turn.take()
            try:
                if not self.write_in_turn(row, raw, time):
                    return 0
            finally:
                self.clock.turn.end()
        if record is not None:
            self.touch(record)
        return 0

    cdef bint write_in_turn(self, bytes row, object raw, int64_t time) except -1:
        """Write a row and advance stream time. Return False without a write if the row is late."""
        if time <= self.clock.observed:
            if not self.clock.accepts_segment(time, self.interval):
                return False
            self.put_row(row, raw, time)
            return True
        try:
            self.put_row(row, raw, time)
        except BaseException:  # possibly of a listener, which a cache calls after the write
            if raw is not None and self.has_row(row, raw):
                self.advance(time)
            raise
        self.advance(time)
        return True

    cdef bint has_row(self, bytes row, object raw) except -1:
        """Return True if the table contains this row, after a put has failed."""
        try:
            return bool(self.get_row(row) == raw)
        except Exception:  # Raise the exception of the put instead.
            return False

    cdef int advance(self, int64_t time) except -1:
        """Advance stream time, and remove expired segments, after the write of a row.

        No other thread runs between the write and this call, so no thread reads the row before
        stream time has advanced. But a listener within the write may have written a later row.
        """
        cdef int64_t first_live
        if time <= self.clock.observed:
            return 0
        self.clock.advance(time)
        if not self.clock.held:
            first_live = self.clock.horizon / self.interval
            if first_live != self.first_live:
                self.expire(first_live)
                self.first_live = first_live
        return 0

    cdef int put_row(self, bytes row, object raw, int64_t time) except -1:
        if self.segments is not None:
            return self.segments.put_at(time / self.interval, row, raw)
        self.put_one(row, raw)
        return 0


cdef class WindowWriter(Writer):
    """A writer of the values of a window store.

    Parameters
    ----------
    numbers : DuplicateNumbers or None
        The sequence numbers of the store's duplicates; None if the store retains no duplicates.
    """

    def __init__(self, Values values not None, table, clock, interval_ms, touch, keys, numbers):
        super().__init__(values, table, clock, interval_ms, touch, keys)
        self.numbers = numbers

    cdef int set(
        self, object key, object value, object start, object timestamp, object headers
    ) except -1:
        """Set the value of ``key`` in a window, or delete it if the value is None.

        If the store retains duplicates, add the value to the stored values, and ignore None.
        """
        record = self.current_record.of_write()
        cdef int64_t begin = window_start(start)
        cdef tuple row = self.values.row(key, value, timestamp, headers)
        return self.set_raw(row[0], row[1], begin, record)

    def set_many(self, list raw_keys, list raws, list starts):
        """Set or add serialised values. The n-th elements of the lists belong to one row."""
        cdef Py_ssize_t i
        record = self.current_record.of_write()
        for i in range(len(raw_keys)):
            self.set_raw(raw_keys[i], raws[i], starts[i], record)

    cdef int set_raw(self, bytes raw_key, object raw, int64_t begin, object record) except -1:
        if self.numbers is None:
            if self.segments is not None:
                made = row_of(raw_key, begin, 0, False, False)
            else:
                made = self.make(raw_key, begin)
            return self.write(made, raw, begin, record)
        self.rows._check_writable()
        if raw is not None:
            with self.clock.turn:
                number = self.numbers.next(raw_key, begin)
                self.write(self.make(raw_key, begin, number), raw, begin, record)
        return 0


cdef class SessionWriter(Writer):
    """A writer of the aggregates of a session store."""

    cdef int set(self, object session, object aggregate, object headers) except -1:
        """Set the aggregate of a session, or remove the session if the aggregate is None."""
        if type(session) is not Windowed:
            raise TypeError(f"a session must be a Windowed(key, start, end), not {session!r}")
        record = self.current_record.of_write()
        cdef Windowed times = <Windowed>session
        cdef tuple row = self.values.row(times.key, aggregate, None, headers)
        return self.set_raw(row[0], row[1], times.start, times.end, record)

    def set_many(self, list raw_keys, list raws, list starts, list ends):
        """Set serialised aggregates. The n-th elements of the lists belong to one row."""
        cdef Py_ssize_t i
        record = self.current_record.of_write()
        for i in range(len(raw_keys)):
            self.set_raw(raw_keys[i], raws[i], starts[i], ends[i], record)

    cdef int set_raw(
        self, bytes raw_key, object raw, int64_t start, int64_t end, object record
    ) except -1:
        if self.segments is not None:
            made = row_of(raw_key, end, start, True, False)
        else:
            made = self.make(raw_key, start, end)
        return self.write(made, raw, end, record)


cpdef int64_t window_start(object start) except -1:
    """Return the start of a window in ms. Raise ValueError if it is negative or exceeds 64 bits."""
    cdef int64_t millis = to_millis(start) if type(start) is not int else whole(start)
    if millis < 0:
        raise ValueError(f"a window's start is {millis}; it must not be negative")
    return millis


cdef int64_t whole(object number) except? -1:
    try:
        return number
    except OverflowError:
        return to_millis(number)
