# cython: language_level=3
"""One segment of time of a store, whose rows are a table of their own."""

from kstore_core.segments.prefixed cimport PrefixedTable
from kstore_core.staging cimport StagedNamespace

from kstore_core.tables import NamespaceTable

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
        """The table of the rows. Called once, when they are first used."""
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
            table = self.open()
            self.table = table
            self._put = table.put_one
            self._get = table.get
        return 0

    # A segment that has users is not put away. Lookups have no need to be counted: what they meet
    # when the rows are put away under them brings the rows back.

    cdef object _call(self, str method, tuple arguments, dict named=None):
        self.users += 1
        try:
            return getattr(self.table, method)(*arguments, **(named or {}))
        finally:
            self.users -= 1

    cdef tuple _start(self, bounds):
        """The first chunk of a scan of the rows, or None, and a scan of what follows it, or None.

        Whoever ends that takes its user away.
        """
        cdef tuple begun
        self.users += 1
        try:
            begun = start_of(self.table, bounds)
        except BaseException:
            self.users -= 1
            raise
        if begun[1] is None:
            self.users -= 1
        return begun


cdef tuple start_of(table, bounds):
    """A scan's first chunk and the rest of it, of a namespace without any iterator between."""
    if type(table) is NamespaceTable:
        return (<StagedNamespace>table.rows)._start(bounds.lo, bounds.hi, bounds.reverse)
    if type(table) is PrefixedTable:
        return (<PrefixedTable>table)._start(bounds)
    chunks = iter(table.scan(bounds))
    chunk = next(chunks, None)
    return chunk, None if chunk is None else chunks
