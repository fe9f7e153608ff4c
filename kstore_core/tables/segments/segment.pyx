# cython: language_level=3
"""A segment of a store, which contains the rows of one interval of time."""

from kstore_core.tables.segments.prefixed cimport PrefixedTable
from kstore_core.tables.staging cimport StagedNamespace

from kstore_core.tables import Bounds, NamespaceTable

__all__ = ["Segment"]

cdef unsigned long long _uses = 0


cdef class Segment:
    """A segment of a store. The table of its rows is opened at the first use.

    Parameters
    ----------
    number : int
        The segment id: the time of a row, divided by the segment interval and truncated.

    Attributes
    ----------
    table : Table or None
        The table of the segment's rows; None before the first use.
    used : int
        The order of the last use: the value of a counter of the uses of all segments.
    users : int
        The number of calls and scans that are using the segment.
    """

    def __init__(self, long long number):
        self.id = number

    def open(self):
        """Open the table of the rows and return it. Several threads may call this at once."""
        raise NotImplementedError

    def load(self, chunks):
        """Load rows in ascending order without staging them, and return their number."""
        return self._call("load", (chunks,))

    cdef int _touch(self) except -1:
        """Count a use of the segment, and open its table at the first use."""
        global _uses
        _uses += 1
        self.used = _uses
        if self._get is None:
            self.users += 1
            try:
                table = self.open()
            finally:
                self.users -= 1
            get, put = table.get, table.put_one
            rows = table.rows if type(table) is NamespaceTable else None
            part = table if type(table) is PrefixedTable else None
            # Another thread may have opened the table meanwhile, and may be using it now. So set
            # the attributes only if they are not set yet.
            if self._get is None:
                self.table, self._put, self._rows, self._part = table, put, rows, part
                self._get = get
        return 0

    cdef bytes _look_up(self, bytes key):
        """Return the value of ``key``, or None if the key is missing."""
        if self._rows is not None:
            return self._rows.get(key)
        if self._part is not None:
            return self._part.get(key)
        return self._get(key)

    cdef int _set(self, bytes key, bytes value) except -1:
        """Write the value of ``key``, or delete the row if ``value`` is None."""
        if self._rows is not None:
            self._rows.put(key, value)
        elif self._part is not None:
            self._part.put_one(key, value)
        else:
            self._put(key, value)
        return 0

    # A segment with users is not closed. A lookup need not be counted as a user, because a
    # SleepingDatabase opens the database again if it is closed during the lookup.

    cdef object _call(self, str method, tuple arguments, dict named=None):
        self.users += 1
        try:
            return getattr(self.table, method)(*arguments, **(named or {}))
        finally:
            self.users -= 1

    cdef tuple _start(self, bytes lo, bytes hi, bint reverse):
        """Return the first chunk of a scan, and an iterator of the rest. An empty part is None.

        The code that closes the iterator must decrement ``users``.
        """
        cdef object chunk, rest = None
        self.users += 1
        try:
            if self._rows is not None:
                chunk, rest = self._rows._start(lo, hi, reverse)
            elif self._part is not None:
                chunk, rest = self._part._start(lo, hi, reverse)
            else:
                chunks = iter(self.table.scan(Bounds(lo, hi, reverse)))
                chunk = next(chunks, None)
                rest = None if chunk is None else chunks
        finally:
            if rest is None:
                self.users -= 1
        return chunk, rest
