# cython: language_level=3
"""A table whose rows are sorted by time, with an index that finds the rows of a key.

The key of a row is ``00 times key``. Each row has an index row with the key ``01 key times`` and an
empty value. A row and its index row are staged together. A caller reads and writes only rows, and
the table maintains the index. A scan that begins at ``01`` or later reads the index. Such a scan
returns the key of each index row with the value of the row that the index row points to.
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
    WRITTEN_ROWS = 10_000           # how many rows delete_range deletes in one write
    # How often a put may stage the key: a row, an index row, the removal of an older row, and the
    # removal of an older index row.
    MOST_TIMES_STAGED = 4
    SEGMENT_BYTES = 8               # the size of the segment id with which a stored key may begin


cdef class IndexedTable:
    """A table of rows that are sorted by time, with an index by key.

    Parameters
    ----------
    below : SegmentedTable
        The table that stores the rows and the index rows.
    pairs : RowPairs
        The object that converts the key of a row to the key of its index row, and back.
    repair_index : bool
        If True, a scan that finds an index row without a row removes the index row. Ignored if the
        table is read-only.

    Attributes
    ----------
    below : SegmentedTable
        The table that stores the rows and the index rows.
    rows : StagedNamespace
        A namespace of the store. After the namespace is closed, scans of the table fail.
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
        """The ids of the segments that have not expired, in ascending order."""
        return self.below.segments

    @property
    def dropped(self):
        """The number of segments that have expired since the store was opened."""
        return self.below.dropped

    def segment_of(self, bytes key):
        """Return the id of the segment for the time in the key of a row or an index row."""
        return self.below._id_of(key)

    # Writes. The index row is staged before the row, and the row is removed before the index row.
    # If another thread commits in between, the store may contain an index row without a row. A scan
    # repairs this. The store never contains a row without an index row.

    def put_one(self, bytes key, bytes value):
        """Write a row and its index row, or delete both if ``value`` is None."""
        cdef bytes index = self._pairs.index_of(key)
        cdef Py_ssize_t most = MOST_TIMES_STAGED * (len(key) + SEGMENT_BYTES)
        if value is not None:
            most += len(value)
        # Raise an error before taking the lock: in a forked process the lock may never be released.
        self.rows._check_writable()
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
        """Write rows and their index rows in the given order.

        If a row is refused, nothing is written.
        """
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
        """Delete the rows with ``lo <= key < hi``. If ``hi`` is None, there is no upper limit."""
        cdef list writes = []
        self.rows._check_writable()
        for keys, _ in self.scan(Bounds(lo, hi)):
            writes += [Write(key, None) for key in keys]
            if len(writes) >= WRITTEN_ROWS:
                self.write(writes)
                writes = []
        self.write(writes)

    def load(self, chunks):
        """Load rows without staging them, and return their number.

        The rows must be in ascending order of ``(segment, key)``.
        """
        self.rows._check_writable()
        with self._turn:
            self._read_ahead()
            return self.below.load(self._with_index(chunks)) // 2

    def _with_index(self, chunks):
        """Yield the chunks of rows. After the last row of each segment, yield its index rows."""
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
        """Remove the segments before ``first_live``.

        First, the open scans of the index read all their remaining rows into memory.
        """
        with self._turn:
            self._read_ahead()
            self.below.expire(first_live)

    # Reads.

    def scan(self, bounds):
        """Return an iterator of chunks in the order of ``(segment, key)``.

        Later writes do not change the result. If ``bounds.lo`` lies before the byte 01, the chunks
        contain rows. If ``bounds.lo`` is the byte 01 or lies after it, the chunks contain the keys
        of index rows and the values of their rows.
        """
        if bounds.lo is not None and bounds.lo >= _INDEX:
            return IndexScan(self, bounds)
        if bounds.hi is None or bounds.hi > _INDEX:
            bounds = Bounds(
                bounds.lo, _INDEX, bounds.reverse, bounds.segment_lo, bounds.segment_hi
            )
        return self.below.scan(bounds)

    def first(self, bytes lo=None, bytes hi=None, *, bint reverse=False):
        """Return the first row that a scan would yield, or None if there is no row."""
        for keys, values in self.scan(Bounds(lo, hi, reverse)):
            return keys[0], values[0]
        return None

    def approximate_count(self):
        """Return the approximate number of rows, without index rows."""
        return self.below.approximate_count() // 2

    # A scan of the index looks up the rows of a chunk when it reads the chunk. So before a write
    # changes a row, the write gives the old value of the row to the scan.

    cdef int _save(self, bytes row, bytes index) except -1:
        """Save the present value of a row for each open scan that may reach the row."""
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
        """Make each open scan of the index read its remaining chunks into memory."""
        cdef IndexScan scan
        for alive in list(self._scans.values()):
            scan = alive()
            if scan is not None:
                while (chunk := scan._next_chunk()) is not None:
                    scan._ahead.append(chunk)
        return 0

    cdef int _repair(self, bytes index) except -1:
        """Remove an index row that has no row, unless staging has no room for the removal."""
        if self._repairs and self.rows._staging._has_room(MOST_TIMES_STAGED * len(index)):
            self.below.put_one(index, None)
        return 0


cdef list _both(key, value, context, index):
    return [Write(key, value, context), Write(index, None if value is None else b"", context)]


cdef class IndexScan:
    """A scan of the index. The scan is an iterator of chunks.

    A chunk contains the keys of index rows and the values of their rows. Writes after the start of
    the scan do not change its result.

    Parameters
    ----------
    table : IndexedTable
    bounds : Bounds
        The range of index rows to read. A :class:`~kstore_core.keys.IndexBounds` also filters the
        index rows before the scan looks up their rows.
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
        """Return the next chunk that is not empty, or None at the end of the scan."""
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
        """Return the keys of the index rows that have a row, and the values of these rows.

        All index rows in ``index`` must belong to the same segment.
        """
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
        """Close the scan. A second close does nothing."""
        with self._table._turn:
            self._ahead.clear()
            self._release()

    def __del__(self):
        # The chunks release their resources themselves. A wait for the lock could deadlock.
        self._table._scans.pop(id(self), None)

    cdef int _release(self) except -1:
        self._table._scans.pop(id(self), None)
        chunks, self._chunks = self._chunks, None
        close_chunks(chunks)
        return 0
