# cython: language_level=3
"""A time-ordered table with an index by key, which finds the rows of a key.

Each row, ``00 times key``, has an index row, ``01 key times``, whose value is empty. Both are
staged together. The table reads and writes rows; a scan from ``01`` on reads the index and gives its keys,
each with the value of its row.
"""

from collections import deque
from threading import RLock
from weakref import ref

from kstore_core.codec.keys.row_pairs cimport RowPairs
from kstore_core.engine.ordered cimport close_chunks
from kstore_core.tables.segments.segment cimport Segment
from kstore_core.tables.segments.table cimport SegmentedTable

from kstore_core.tables import Bounds, Write

__all__ = ["IndexedTable"]

cdef object _MISSING = object()
cdef bytes _INDEX = b"\x01"         # the first byte of index rows

cdef enum:
    WRITTEN_ROWS = 10_000           # the rows of one write of a deleted range
    MOST_TIMES_STAGED = 4           # row, index row, and of each the removal of an older one
    SEGMENT_BYTES = 8               # the segment id that may stand before a key


cdef class IndexedTable:
    """A table over the segments of a store.

    Parameters
    ----------
    below : SegmentedTable
        Rows and index rows.
    pairs : RowPairs
        Converts one to the other.
    repair_index : bool
        A scan that finds an index row without a row removes it, if the table is writable.

    Attributes
    ----------
    below : SegmentedTable
    rows : StagedNamespace
        The namespace whose close ends scans.
    """

    def __cinit__(self, SegmentedTable below not None, RowPairs pairs not None, *, bint repair_index=True):
        self.rows = below.rows
        self.below = below
        self.key_overhead = below.key_overhead
        self.get = (<object>below).get
        self.get_many = (<object>below).get_many
        self._pairs = pairs
        self._repairs = repair_index and below.rows._writable
        self._scans = {}
        self._turn = RLock()

    points = None

    def __repr__(self):
        return f"<IndexedTable over {self.below!r}>"

    @property
    def segments(self):
        """The ids of the live segments, ascending."""
        return self.below.segments

    @property
    def dropped(self):
        """Segments that have expired since the store was opened."""
        return self.below.dropped

    def segment_of(self, bytes key):
        """The segment of the time in ``key``, a row's or an index row's."""
        return self.below._id_of(key)

    # Writes. A row is staged after its index row and removed before it: a commit by another thread
    # in between may leave an index row without a row, which is repaired, but never the reverse.

    def put_one(self, bytes key, bytes value):
        """Set a row and its index row; None deletes both."""
        cdef bytes index = self._pairs.index_of(key)
        cdef Py_ssize_t most = MOST_TIMES_STAGED * (len(key) + SEGMENT_BYTES)
        if value is not None:
            most += len(value)
        self.rows._check_writable()  # in a fork the owner of the lock may not exist
        with self._turn:
            if self._scans:
                self._save(key, index)
            if not self.rows._staging._has_room(most):
                self.below.write(_both(key, value, None, index))
            elif value is None:
                self.below.put_one(key, None)
                self.below.put_one(index, None)
            else:
                self.below.put_one(index, b"")
                self.below.put_one(key, value)

    def write(self, writes):
        """Write rows and their index rows, in their order: all of them, or none."""
        cdef list rows = []
        self.rows._check_writable()
        with self._turn:
            for key, value, context in writes:
                index = self._pairs.index_of(key)
                if self._scans:
                    self._save(key, index)
                rows += _both(key, value, context, index)
            self.below.write(rows)

    def delete_range(self, bytes lo not None, bytes hi):
        """Delete the rows with ``lo <= key < hi``; ``hi`` None reaches to the end."""
        cdef list writes = []
        self.rows._check_writable()
        for keys, _ in self.scan(Bounds(lo, hi)):
            writes += [Write(key, None) for key in keys]
            if len(writes) >= WRITTEN_ROWS:
                self.write(writes)
                writes = []
        self.write(writes)

    def load(self, chunks):
        """Bulk load rows that ascend by ``(segment, key)`` past the staging, and return how many."""
        self.rows._check_writable()
        with self._turn:
            self._read_ahead()
            return self.below.load(self._with_index(chunks)) // 2

    def _with_index(self, chunks):
        """The chunks, and the index rows behind the last row of each segment."""
        cdef list index = []
        last = None
        for number, keys, values in self.below._runs(chunks):
            if number != last and index:
                yield sorted(index), [b""] * len(index)
                index = []
            last = number
            index += [self._pairs.index_of(key) for key in keys]
            yield keys, values
        if index:
            yield sorted(index), [b""] * len(index)

    def expire(self, long long first_live):
        """Expire segments, after the open scans of the index have read all that they need."""
        with self._turn:
            self._read_ahead()
            self.below.expire(first_live)

    # Reads.

    def scan(self, bounds):
        """Chunks of rows in the order of ``(segment, key)``, as of this call.

        Rows if ``bounds.lo`` lies before 01, else index rows with the values of their rows.
        """
        if bounds.lo is not None and bounds.lo >= _INDEX:
            return IndexScan(self, bounds)
        if bounds.hi is None or bounds.hi > _INDEX:
            bounds = Bounds(
                bounds.lo, _INDEX, bounds.reverse, bounds.segment_lo, bounds.segment_hi
            )
        return self.below.scan(bounds)

    def first(self, bytes lo=None, bytes hi=None, *, bint reverse=False):
        """The first row of a scan, or None if it is empty."""
        for keys, values in self.scan(Bounds(lo, hi, reverse)):
            return keys[0], values[0]
        return None

    def approximate_count(self):
        """The approximate number of rows."""
        return self.below.approximate_count() // 2

    # Open scans of the index look rows up after their call, so a write first saves the old rows for
    # them.

    cdef int _save(self, bytes row, bytes index) except -1:
        """Save the current row for the scans that may reach it."""
        cdef IndexScan scan
        cdef object value = _MISSING
        for alive in list(self._scans.values()):
            scan = alive()
            if scan is not None and row not in scan._saved and scan._in_range(index):
                if value is _MISSING:
                    value = self.below.get(row)
                scan._saved[row] = value
        return 0

    cdef int _read_ahead(self) except -1:
        """Read all open scans to their end."""
        cdef IndexScan scan
        for alive in list(self._scans.values()):
            scan = alive()
            if scan is not None:
                while (chunk := scan._next_chunk()) is not None:
                    scan._ahead.append(chunk)
        return 0

    cdef int _repair(self, bytes index) except -1:
        """Remove an index row without a row, unless there is no room to stage that."""
        if self._repairs and self.rows._staging._has_room(MOST_TIMES_STAGED * len(index)):
            self.below.put_one(index, None)
        return 0


cdef list _both(key, value, context, index):
    return [Write(key, value, context), Write(index, None if value is None else b"", context)]


cdef class IndexScan:
    """A scan of the index as of its call: an iterator of chunks of index rows and rows' values.

    Parameters
    ----------
    table : IndexedTable
    bounds : Bounds
        Bounds of index rows. :class:`~kstore_core.keys.IndexBounds` also filter the index rows
        before their rows are looked up.
    """

    def __cinit__(self, IndexedTable table not None, bounds):
        self._table = table
        self._lo = bounds.lo
        self._hi = bounds.hi
        self._saved = {}
        self._ahead = deque()
        with table._turn:
            chunks = table.below.scan(bounds)
            rows = getattr(bounds, "rows", None)
            self._chunks = chunks if rows is None else rows.chunks(chunks)
            table._scans[id(self)] = ref(self)

    def __iter__(self):
        return self

    def __next__(self):
        cdef tuple chunk
        self._table.rows._check_open()
        with self._table._turn:
            chunk = self._ahead.popleft() if self._ahead else self._next_chunk()
        if chunk is None:
            raise StopIteration
        return chunk

    cdef bint _in_range(self, bytes index) except -1:
        return self._lo <= index and (self._hi is None or index < self._hi)

    cdef tuple _next_chunk(self):
        """The next chunk that has rows, or None at the end."""
        cdef tuple found
        while self._chunks is not None:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._release()
            else:
                found = self._look_up(<list?>chunk[0])
                if found[0]:
                    return found
        return None

    cdef tuple _look_up(self, list index):
        """The index rows (of one segment) that have a row, and the values of their rows."""
        cdef RowPairs pairs = self._table._pairs
        cdef list rows = [pairs.row_of(<bytes?>key) for key in index]
        cdef Segment segment = self._table.below._of(<bytes>rows[0])
        cdef list values = [None] * len(rows)
        cdef Py_ssize_t at
        cdef bint whole = True
        if segment is not None:
            values = segment._call("get_many", (rows,))
        for at in range(len(rows)):
            if self._saved and rows[at] in self._saved:
                values[at] = self._saved[rows[at]]
            elif values[at] is None:
                self._table._repair(<bytes>index[at])
            whole = whole and values[at] is not None
        if whole:
            return index, values
        present = [at for at in range(len(rows)) if values[at] is not None]
        return [index[at] for at in present], [values[at] for at in present]

    def close(self):
        """Close the scan of the index. A second close does nothing."""
        with self._table._turn:
            self._ahead.clear()
            self._release()

    def __del__(self):
        # The chunks release themselves; waiting for the lock here could deadlock.
        self._table._scans.pop(id(self), None)

    cdef int _release(self) except -1:
        self._table._scans.pop(id(self), None)
        chunks, self._chunks = self._chunks, None
        close_chunks(chunks)
        return 0
