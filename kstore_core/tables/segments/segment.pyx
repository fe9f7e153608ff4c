# cython: language_level=3
"""One segment of time of a store, whose rows are a table of their own."""

from kstore_core.tables.segments.prefixed cimport PrefixedTable
from kstore_core.tables.staging cimport StagedNamespace

from kstore_core.tables import Bounds, NamespaceTable

__all__ = ["Segment"]

cdef unsigned long long _uses = 0


cdef class Segment:
    """One segment and its rows, which are opened at the first use.

    Parameters
    ----------
    number : int
        The segment id: the time of its rows divided by the interval, truncated.

    Attributes
    ----------
    table : Table or None
        The rows; None before the first use.
    used : int
        The number of the last use; it grows with every use of any segment.
    users : int
        The number of calls and scans that use the segment now.
    """

    def __init__(self, long long number):
        self.id = number

    def open(self):
        """Open the table of the rows. Several threads may call this at the first use."""
        raise NotImplementedError

    def load(self, chunks):
        """Bulk load ascending rows without staging them, and return their number."""
        return self._call("load", (chunks,))

    cdef int _touch(self) except -1:
        """Count a use, and open the rows if this is the first one."""
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
            # Set all attributes once and together: another thread may have opened the rows
            # meanwhile, and use its attributes now.
            if self._get is None:
                self.table, self._put, self._rows, self._part = table, put, rows, part
                self._get = get
        return 0

    cdef bytes _look_up(self, bytes key):
        """The value of ``key``, or None."""
        if self._rows is not None:
            return self._rows.get(key)
        if self._part is not None:
            return self._part.get(key)
        return self._get(key)

    cdef int _set(self, bytes key, bytes value) except -1:
        """Set ``key``; None deletes."""
        if self._rows is not None:
            self._rows.put(key, value)
        elif self._part is not None:
            self._part.put_one(key, value)
        else:
            self._put(key, value)
        return 0

    # A segment with users is not closed. Lookups are not counted as users: if the database is
    # closed meanwhile, its stand-in opens it again.

    cdef object _call(self, str method, tuple arguments, dict named=None):
        self.users += 1
        try:
            return getattr(self.table, method)(*arguments, **(named or {}))
        finally:
            self.users -= 1

    cdef tuple _start(self, bytes lo, bytes hi, bint reverse):
        """The first chunk of a scan of the rows, or None, and a scan of the rest, or None.

        If there is a rest, the code that closes it must decrement ``users``.
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
