# cython: language_level=3
"""A table for a store during an upgrade, with rows in the new format and rows in the old format.

Rows in the old format are in one namespace, and rows in the new format in another. A read converts
a row in the old format. A write removes the old row and stores the new row. A lookup does this too
if ``migrate_on_read`` is set. These are the rules of ``DualColumnFamilyAccessor`` in Kafka Streams;
see docs/upgrade.md. kstore adds two rules. A new row and the removal of its old row are staged
together. A lookup does not move a row if staging has no room for it.
"""

from kstore_core.engine import Rows
from kstore_core.tables.merged import MergedScan
from kstore_core.engine.ordered cimport close_chunks
from kstore_core.tables.staging cimport StagedNamespace

__all__ = ["DualTable"]

cdef enum:
    REMOVED_ROWS = 10_000       # the rows that one batch removes after a load


cdef class DualTable(PointTable):
    """A table of the rows of two namespaces, one of an old and one of a new format.

    Parameters
    ----------
    old, new : StagedNamespace
        The two namespaces. They must belong to the same database and have the same `Staging`. If
        both namespaces have a key, a read returns the row of the new namespace.
    convert : callable
        The function ``convert(key, value)`` that returns the new value of an old row.
    migrate_on_read : bool
        If True, a lookup moves an old row to the new namespace. Ignored if the table is read-only.

    Attributes
    ----------
    rows : StagedNamespace
        The new namespace. After its close, scans of the table fail.
    namespaces : tuple of StagedNamespace
        Both namespaces. A commit must write their staged rows in one batch.
    """

    def __cinit__(
        self,
        StagedNamespace old not None,
        StagedNamespace new not None,
        convert not None,
        *,
        bint migrate_on_read=True,
    ):
        self._old = old
        self.rows = new
        self.namespaces = (new, old)
        self._convert = convert
        self._migrates = migrate_on_read and new._writable

    segment_of = expire = None
    key_overhead = 0

    cdef object look_up(self, bytes key):
        return self.get(key)

    cdef object set_row(self, bytes key, bytes value):
        return self.put_one(key, value)

    # The table counts its writes. A lookup reads the new namespace, then the old one. If another
    # thread has written in between, the lookup starts again, because the write may have moved the
    # row.

    cpdef object get(self, bytes key):
        """Return the value of ``key``, or None. Convert an old row, and move it if allowed."""
        cdef unsigned long long writes
        cdef object value
        while True:
            writes = self._writes
            value = self.rows.get(key)
            if value is not None:
                return value
            value = self._old.get(key)
            if value is not None:
                break
            if writes == self._writes:
                return None
        value = self._convert(key, value)
        if self._migrates:
            self._move(key, <bytes?>value, writes)
        return value

    cdef int _move(self, bytes key, bytes value, unsigned long long writes) except -1:
        """Move a row to the new namespace.

        Do nothing if the table was written to since the row was read, or if staging has no room for
        the row.
        """
        if self._writes != writes:
            return 0
        if self.rows._staging._has_room(self._growth(key, value)):
            self._writes += 1
            self._old._stage(key, None)
            self.rows._stage(key, value)
        return 0

    def get_many(self, list keys not None):
        """Return the values of ``keys`` in the order of ``keys``; None for a missing key.

        Old rows are converted, and moved to the new namespace if ``migrate_on_read`` is set.
        """
        cdef unsigned long long writes = self._writes
        cdef list values = self.rows.get_many(keys)
        cdef list missing, olds
        cdef Py_ssize_t index
        missing = [index for index in range(len(keys)) if values[index] is None]
        if not missing:
            return values
        olds = self._old.get_many([keys[index] for index in missing])
        for index, old in zip(missing, olds):
            if old is not None:
                values[index] = self._convert(keys[index], old)
            elif writes != self._writes:
                values[index] = self.get(keys[index])
        if self._migrates:
            for index, old in zip(missing, olds):
                if old is not None and writes == self._writes:
                    self._move(keys[index], <bytes?>values[index], writes)
                    writes = self._writes
        return values

    cpdef object put_one(self, bytes key, bytes value):
        """Write the value of ``key``, or delete the key if ``value`` is None.

        The old row of the key is removed in the same step.
        """
        self.rows._check_writable()
        self.rows._check_key(key)
        self.rows._staging._grow(self._growth(key, value))
        self._writes += 1
        self._old._stage(key, None)
        self.rows._stage(key, value)

    cdef long long _growth(self, bytes key, bytes value) except? -1:
        """Return the change in the staged size, in bytes, of a row and the removal of the old."""
        return self._old._growth(key, None) + self.rows._growth(key, value)

    def write(self, writes):
        """Write rows in the given order, and remove the old rows of their keys.

        If a row is refused, nothing is written or removed.
        """
        cdef dict rows = {key: value for key, value, _ in writes}
        cdef dict removed = dict.fromkeys(rows)
        self.rows._check_writable()
        self.rows._staging._grow(self.rows._growth_of(rows) + self._old._growth_of(removed))
        self._writes += 1
        self._old._stage_all(removed)
        self.rows._stage_all(rows)

    def delete_range(self, bytes lo not None, bytes hi):
        """Delete the rows with ``lo <= key < hi`` from both namespaces."""
        self._writes += 1
        self._old.delete_range(lo, hi)
        self.rows.delete_range(lo, hi)

    # A scan opens the old namespace first. If a row moves from the old namespace to the new one
    # between the two opens, the scan finds it twice, and the merge returns it once. In the
    # opposite order the scan would miss the row.

    def scan(self, bounds):
        """Return an iterator of chunks of rows in key order, as of the time of this call.

        Old rows are converted, but not moved.
        """
        cdef unsigned long long takes
        while True:
            takes = self._old._takes
            old = self._old.scan(bounds.lo, bounds.hi, reverse=bounds.reverse)
            new = self.rows.scan(bounds.lo, bounds.hi, reverse=bounds.reverse)
            if takes == self._old._takes:
                return MergedScan(new, old, (), bounds.reverse, self._convert)
            # A commit began between the two scans, so one of them may lack the commit's deletions.
            close_chunks(old)
            close_chunks(new)

    def first(self, bytes lo=None, bytes hi=None, *, bint reverse=False):
        """Return the first row that a scan would yield, or None if there is no row."""
        old = self._old.first(lo, hi, reverse=reverse)
        new = self.rows.first(lo, hi, reverse=reverse)
        if old is None:
            return new
        if new is not None and (new[0] >= old[0] if reverse else new[0] <= old[0]):
            return new
        return old[0], self._convert(old[0], old[1])

    def approximate_count(self):
        """Return the sum of the approximate numbers of rows in both namespaces."""
        return self.rows.approximate_count() + self._old.approximate_count()

    def load(self, chunks):
        """Load ascending rows into the new namespace, and then remove the old rows of their keys.

        The rows are not staged. The result is the number of loaded rows.

        Raises
        ------
        ValueError
            The keys are not strictly ascending.
        """
        cdef list replaced = []
        cdef bint migrates = self._migrates
        self.rows._check_writable()
        if self._old.base.first() is None:
            return self.rows.load(chunks)
        # Do not move rows during the load: a lookup could stage a converted row, and this row would
        # hide a loaded row.
        self._migrates = False
        try:
            count = self.rows.load(self._noting(chunks, replaced))
        finally:
            self._migrates = migrates
            self._writes += 1
        for start in range(0, len(replaced), REMOVED_ROWS):
            keys = replaced[start : start + REMOVED_ROWS]
            self._old.database.write({self._old.name: Rows(keys, [None] * len(keys))})
        return count

    def _noting(self, chunks, list replaced):
        """Yield ``chunks`` unchanged, and append each key that has an old row to ``replaced``."""
        for keys, values in chunks:
            olds = self._old.base.get_many(keys)
            replaced += [key for key, old in zip(keys, olds) if old is not None]
            yield keys, values
