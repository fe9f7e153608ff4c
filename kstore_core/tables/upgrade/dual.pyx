# cython: language_level=3
"""A store in the middle of an upgrade: rows of a newer format over those of an older one.

New rows lie in a namespace of their own. A read converts a row of the old namespace; a write moves
it, and so does a lookup if reads migrate. The rules are Kafka's (``DualColumnFamilyAccessor``); see
docs/upgrade.md. Two rules go beyond them: a row and the removal of its old row are staged together,
and a read without room to move a row neither fails nor spills.
"""

from kstore_core.engine import Rows
from kstore_core.tables.merged import MergedScan
from kstore_core.engine.ordered cimport close_chunks
from kstore_core.tables.staging cimport StagedNamespace

__all__ = ["DualTable"]

cdef enum:
    REMOVED_ROWS = 10_000       # the rows that one batch removes after a load


cdef class DualTable(PointTable):
    """A table over an old and a new namespace of one database.

    Parameters
    ----------
    old, new : StagedNamespace
        Of the same database and the same budget. If both have a key, the new row counts.
    convert : callable
        Converts the key and value of an old row to the value of its new row.
    migrate_on_read : bool
        A lookup moves an old row. Ignored if the table is read-only.

    Attributes
    ----------
    rows : StagedNamespace
        The new namespace, whose close ends scans.
    namespaces : tuple of StagedNamespace
        Both; their staged rows belong in one batch.
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

    @property
    def points(self):
        """The compiled access to single rows."""
        return self

    cdef object look_up(self, bytes key):
        return self.get(key)

    cdef object set_row(self, bytes key, bytes value):
        return self.put_one(key, value)

    # Writes are counted. A lookup reads the new namespace, then the old one, and starts again if a
    # write came in between, because the write may have moved the row.

    cpdef object get(self, bytes key):
        """The value of ``key``, or None. An old row is converted and moved."""
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
        """Move a row to the new format.

        Do nothing if the table was written to since the row was read, or if the staging buffer has
        no room for the row.
        """
        cdef long long removal, growth
        if self._writes != writes:
            return 0
        removal = self._old._growth(key, None)
        growth = self.rows._growth(key, value)
        if self.rows._staging._has_room(removal + growth):
            self._writes += 1
            self._old._stage(key, None, removal)
            self.rows._stage(key, value, growth)
        return 0

    def get_many(self, list keys not None):
        """The values of ``keys``, in their order. Old rows are converted and moved."""
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
        """Set ``key``, None deletes, and remove its old row: both, or neither."""
        cdef long long removal, growth
        self.rows._check_writable()
        self.rows._check_key(key)
        removal = self._old._growth(key, None)
        growth = self.rows._growth(key, value)
        if self.rows._staging._grow(removal + growth):
            removal = self._old._growth(key, None)
            growth = self.rows._growth(key, value)
        self._writes += 1
        self._old._stage(key, None, removal)
        self.rows._stage(key, value, growth)

    def write(self, writes):
        """Write rows, in their order, and remove their old ones: all of it, or nothing."""
        cdef dict rows = {key: value for key, value, _ in writes}
        cdef dict removed = dict.fromkeys(rows)
        self.rows._check_writable()
        self.rows._staging._grow(self.rows._growth_of(rows) + self._old._growth_of(removed))
        self._writes += 1
        self._old._stage_all(removed)
        self.rows._stage_all(rows)

    def delete_range(self, bytes lo not None, bytes hi):
        """Delete ``lo <= key < hi`` from the old rows and from the new ones."""
        self._writes += 1
        self._old.delete_range(lo, hi)
        self.rows.delete_range(lo, hi)

    # Scans read the old namespace first: a row that moves in between is then read twice, which the
    # merge resolves, and never missed.

    def scan(self, bounds):
        """Chunks of rows in key order, old ones converted, as of this call. Nothing is moved."""
        cdef unsigned long long takes
        while True:
            takes = self._old._takes
            old = self._old.scan(bounds.lo, bounds.hi, reverse=bounds.reverse)
            new = self.rows.scan(bounds.lo, bounds.hi, reverse=bounds.reverse)
            if takes == self._old._takes:
                return MergedScan(new, old, (), bounds.reverse, self._convert)
            close_chunks(old)  # a commit began in between: a key may be deleted in one of them only
            close_chunks(new)

    def first(self, bytes lo=None, bytes hi=None, *, bint reverse=False):
        """The first row of a scan, or None if it is empty."""
        old = self._old.first(lo, hi, reverse=reverse)
        new = self.rows.first(lo, hi, reverse=reverse)
        if old is None:
            return new
        if new is not None and (new[0] >= old[0] if reverse else new[0] <= old[0]):
            return new
        return old[0], self._convert(old[0], old[1])

    def approximate_count(self):
        """The approximate number of rows: the sum of both namespaces."""
        return self.rows.approximate_count() + self._old.approximate_count()

    def load(self, chunks):
        """Bulk load ascending rows into the new namespace; then remove their old ones.

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
        self._migrates = False  # or a row that a read stages meanwhile would hide a loaded row
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
        """Pass chunks on, and collect their keys that have an old row."""
        for keys, values in chunks:
            olds = self._old.base.get_many(keys)
            replaced += [key for key, old in zip(keys, olds) if old is not None]
            yield keys, values
