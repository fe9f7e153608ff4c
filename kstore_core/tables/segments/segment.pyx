# cython: language_level=3
"""One segment of time of a store, whose rows are a table of their own."""

from kstore_core.tables.segments.prefixed cimport PrefixedTable
from kstore_core.tables.staging cimport StagedNamespace

from kstore_core.tables import Bounds, NamespaceTable

__all__ = ["Segment"]

cdef unsigned long long _uses = 0


cdef class Segment:
    """One segment and its rows, which are found when somebody first asks for them.

    Parameters
    ----------
    number : int
        Its id: the time of its rows divided by the interval, truncated.

    Attributes
    ----------
    table : Table or None
        Its rows; None before the first use.
    used : int
        When it was last used, as a number that grows with every use of any segment.
    users : int
        How many calls and scans are in it right now.
    """

    def __init__(self, long long number):
        self.id = number

    def open(self):
        """The table of the rows. Called when they are first used, by each thread that does so."""
        raise NotImplementedError

    def load(self, chunks):
        """Bulk load ascending rows past the staging; returns how many."""
        return self._call("load", (chunks,))

    cdef int _touch(self) except -1:
        """Note a use, before which the rows are found if they were not yet."""
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
            # Set once, all at once: another thread that had it opened meanwhile may be inside of
            # what it has set.
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

    # A segment that has users is not put away. Lookups have no need to be counted: what they meet
    # when the rows are put away under them brings the rows back.

    cdef object _call(self, str method, tuple arguments, dict named=None):
        self.users += 1
        try:
            return getattr(self.table, method)(*arguments, **(named or {}))
        finally:
            self.users -= 1

    cdef tuple _start(self, bytes lo, bytes hi, bint reverse):
        """The first chunk of a scan of the rows, or None, and a scan of what follows it, or None.

        Whoever ends that takes its user away.
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
