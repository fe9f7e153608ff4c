# cython: language_level=3, cdivision=True
"""The reads of a window or session store, which return only rows that are not too old.

A read of one key calls the segmented table directly if no layer wraps the table.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kstore_core.codec.keys.parts cimport NO_PREFIX
from kstore_core.codec.keys.ranges cimport KeyLayout, one_key
from kstore_core.codec.primitives.wire cimport store_i32, store_i64
from kstore_core.tables.segments.table cimport SegmentedTable
from kstore_core.tables.scan cimport Scan

__all__ = ["Reads"]


cdef class Reads:
    """The reads of a window or session store.

    The time of a row is the start of a window or the end of a session.

    Parameters
    ----------
    table : Table
    clock : StreamClock
        The clock of the store. Its horizon (stream time minus the retention) limits the rows that
        reads return.
    keys : RowKeys
    interval_ms : int
        The width of a segment in ms.
    """

    def __init__(self, table, clock, keys, int64_t interval_ms):
        self._table = table
        self._get = table.get
        if type(table) is SegmentedTable and keys.schema.prefix == NO_PREFIX:
            self._segments = table
        self._rows = table.rows
        self._layout = keys.schema.layout
        self._clock = clock
        self._keys = keys
        self._interval = interval_ms
        self._hidden = keys.hidden
        self._session = keys.schema.session

    cdef int64_t last_hidden(self) except? -2:
        """Return the latest time (ms) of rows that are too old to be read; -1 if there is none."""
        cdef int64_t horizon = self._clock.horizon
        return -1 if horizon < 0 else horizon - 1 + self._hidden

    cdef bytes find(self, bytes key, int64_t first, int64_t second):
        """Return the value of one row, or None if the row is missing or too old.

        Parameters
        ----------
        first, second : int
            The start of a window and the number of a duplicate, or the end and the start of a
            session. They must not be negative.
        """
        if first <= self.last_hidden():
            self._rows._check_open()
            return None
        if self._segments is not None:
            return self._segments.find(
                first / self._interval, row_of(key, first, second, self._session, False)
            )
        if self._session:
            return self._get(self._keys.make(key, second, first))
        return self._get(self._keys.make(key, first, second))

    def fetch(
        self, item, columns, bytes key_from, bytes key_to, int64_t earliest, int64_t latest,
        int64_t latest_start=INT64_MAX, *, bint reverse=False,
    ):
        """Return a scan of the rows in a range of keys and times, except rows that are too old.

        The ranges include both ends.

        Parameters
        ----------
        item, columns : callable
            The function that converts a row to an item, and the function that converts rows to an
            Arrow table.
        key_from, key_to : bytes or None
        earliest, latest : int
            The first and the last time of the rows in ms, both inclusive.
        latest_start : int
            The latest start of a session in ms, inclusive.
        """
        return self.scan(
            item, columns, key_from, key_to, earliest, latest, latest_start, reverse
        )

    cdef Scan scan(
        self, item, columns, bytes key_from, bytes key_to, int64_t earliest, int64_t latest,
        int64_t latest_start, bint reverse
    ):
        """Return the scan that :meth:`fetch` returns."""
        cdef bint one = key_from is not None and (key_from is key_to or key_from == key_to)
        cdef int64_t hidden = self.last_hidden()
        if (
            hidden >= latest
            or earliest > latest
            or latest_start < 0
            or (not one and key_from is not None and key_to is not None and key_from > key_to)
        ):
            self._rows._check_open()
            return Scan(self._rows, None, item, columns)
        earliest = max(earliest, hidden + 1)
        if one and self._segments is not None:
            chunks = self._of_key(key_from, earliest, latest, latest_start, reverse)
        else:
            all_keys = key_from is None and key_to is None
            schema = self._keys.schema if all_keys else self._keys.by_key
            chunks = schema.fetch(
                self._interval, key_from, key_to, earliest, latest,
                latest_start=latest_start, reverse=reverse,
            ).scan(self._table)
        return Scan(self._rows, chunks, item, columns)

    cdef object _of_key(
        self, bytes key, int64_t earliest, int64_t latest, int64_t latest_start, bint reverse
    ):
        """Return an iterator of chunks of one key's rows in the given range of times."""
        cdef int64_t last = latest_start if self._session else INT32_MAX
        chunks = self._segments.between(
            row_of(key, earliest, 0, self._session, False),
            row_of(key, latest, last, self._session, True),
            reverse, earliest / self._interval, latest / self._interval, True,
        )
        return one_key(self._layout, key, earliest, latest, latest_start).chunks(chunks)


cdef bytes row_of(bytes key, int64_t first, int64_t second, bint session, bint behind):
    """Return the row key of a key with two times. If ``behind``, return the next greater key."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
    cdef bytes row = PyBytes_FromStringAndSize(NULL, size + (16 if session else 12) + behind)
    cdef uint8_t *here = <uint8_t *>PyBytes_AS_STRING(row)
    memcpy(here, PyBytes_AS_STRING(key), size)
    here = store_i64(here + size, first)
    here = store_i64(here, second) if session else store_i32(here, <int32_t>second)
    if behind:
        here[0] = 0
    return row
