# cython: language_level=3
"""A map from bytes to values with scans in key order. It sorts its keys only for a scan.

A put is as fast as a put to a dict. The first scan sorts all keys. Each later scan only merges the
keys that have changed since the last scan, so a scan after every put is fast too. A view is a
snapshot of the map, and shares lists with it. While the view exists, the map copies a shared list
before it changes the list.

Staging uses such maps for uncommitted rows, and the memory engine uses them for all rows.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memset

from kstore_core.engine.bytes_map cimport BytesMap
from kstore_core.engine.prefetching cimport prefetch

__all__ = ["OrderedRows", "OrderedScan", "OrderedView", "close_chunks", "take"]

cdef object _GONE = object()
cdef extern from "Python.h":
    # Both functions read fields of an immutable object, so they need no GIL.
    const char *bytes_data "PyBytes_AS_STRING"(PyObject *data) nogil
    Py_ssize_t bytes_size "PyBytes_GET_SIZE"(PyObject *data) nogil
    PyObject *list_item "PyList_GET_ITEM"(object items, Py_ssize_t index)  # borrowed

cdef enum:
    AHEAD = 16          # rows that are prefetched before they are read

cdef Py_ssize_t _CHUNK = 256  # rows in a chunk after a rebuild; a chunk of over 512 is split


cpdef int close_chunks(object chunks) except -1:
    """Call the method ``close`` of an iterator of chunks, if it has such a method."""
    close = getattr(chunks, "close", None)
    if close is not None:
        close()
    return 0


cdef int compare(bytes a, bytes b) noexcept:
    """Compare two keys as unsigned bytes. Return a negative number, zero or a positive number."""
    cdef Py_ssize_t a_size = PyBytes_GET_SIZE(a)
    cdef Py_ssize_t b_size = PyBytes_GET_SIZE(b)
    cdef int order = memcmp(
        PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), a_size if a_size < b_size else b_size
    )
    if order != 0:
        return order
    return (a_size > b_size) - (a_size < b_size)


cdef Py_ssize_t bisect_left(list keys, bytes key) noexcept:
    """Return the index of the first item of ``keys`` that is greater than or equal to ``key``."""
    cdef Py_ssize_t lo = 0, hi = len(keys), middle
    while lo < hi:
        middle = (lo + hi) // 2
        if compare(<bytes>keys[middle], key) < 0:
            lo = middle + 1
        else:
            hi = middle
    return lo


cdef Py_ssize_t chunk_of(list firsts, bytes key) noexcept:
    """Return the index of the chunk to which ``key`` belongs. The chunk may lack ``key``.

    ``firsts`` has the first key of each chunk.
    """
    cdef Py_ssize_t index = bisect_left(firsts, key)
    if index < len(firsts) and compare(<bytes>firsts[index], key) == 0:
        return index
    return index - 1 if index > 0 else 0


def take(pairs, Py_ssize_t size, bytes hi=None):
    """Read up to ``size`` rows from an iterator of ``(key, value)``.

    Parameters
    ----------
    pairs : iterator of (bytes, bytes)
        The rows. Their keys must ascend if ``hi`` is given.
    size : int
        The maximum number of rows to read, 1 or more.
    hi : bytes, optional
        The end of the range of keys, exclusive; no limit if None.

    Returns
    -------
    tuple of (list of bytes, list of bytes, bool)
        The keys, the values, and True if there may be more rows.
    """
    cdef list keys = [], values = []
    for key, value in pairs:
        if hi is not None and compare(<bytes?>key, hi) >= 0:
            break
        keys.append(key)
        values.append(value)
        if len(keys) >= size:
            return keys, values, True
    return keys, values, False


cdef struct Slot:
    uint64_t prefix     # eight bytes of the key as a number, or zeros after the key's end
    PyObject *key       # borrowed from the map
    PyObject *value


cdef inline uint64_t eight_bytes(PyObject *key, Py_ssize_t start) noexcept:
    """Return eight bytes of a key, from ``start`` on, as a number. Zeros follow a short key."""
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(<bytes>key) + start
    cdef Py_ssize_t size = PyBytes_GET_SIZE(<bytes>key) - start
    cdef uint64_t number = 0
    cdef Py_ssize_t index
    if size >= 8:
        for index in range(8):  # the compiler makes one load of this loop
            number = (number << 8) | data[index]
        return number
    for index in range(size):
        number = (number << 8) | data[index]
    return number << (8 * (8 - size)) if size > 0 else 0


cdef int compare_slots(const void *a, const void *b) noexcept nogil:
    cdef PyObject *x = (<const Slot *>a).key
    cdef PyObject *y = (<const Slot *>b).key
    cdef uint64_t x_prefix = (<const Slot *>a).prefix, y_prefix = (<const Slot *>b).prefix
    cdef Py_ssize_t x_size, y_size
    cdef int order
    if x_prefix != y_prefix:
        return -1 if x_prefix < y_prefix else 1
    x_size, y_size = bytes_size(x), bytes_size(y)
    order = memcmp(bytes_data(x), bytes_data(y), x_size if x_size < y_size else y_size)
    if order != 0:
        return order
    return (x_size > y_size) - (x_size < y_size)


cdef Py_ssize_t shared_size(Slot *slots, Py_ssize_t count) noexcept:
    """Return the size of the longest prefix that all keys share."""
    cdef bytes first = <bytes>slots[0].key
    cdef bytes key
    cdef Py_ssize_t shared = PyBytes_GET_SIZE(first), index, at
    for index in range(1, count):
        if index + AHEAD < count:
            prefetch(slots[index + AHEAD].key)
        key = <bytes>slots[index].key
        if PyBytes_GET_SIZE(key) < shared:
            shared = PyBytes_GET_SIZE(key)
        at = 0
        while at < shared and PyBytes_AS_STRING(key)[at] == PyBytes_AS_STRING(first)[at]:
            at += 1
        shared = at
        if shared == 0:
            break
    return shared


cdef Slot *sort_by_prefix(Slot *slots, Slot *spare, Py_ssize_t count) noexcept:
    """Sort slots by their prefixes with a radix sort. Return the array that contains the result."""
    cdef Py_ssize_t[256] ends
    cdef Py_ssize_t index, begin, size
    cdef int shift, byte
    for shift in range(0, 64, 8):
        memset(ends, 0, sizeof(ends))
        for index in range(count):
            ends[(slots[index].prefix >> shift) & 0xFF] += 1
        if ends[(slots[0].prefix >> shift) & 0xFF] == count:
            continue    # all prefixes have this byte
        begin = 0
        for byte in range(256):
            size = ends[byte]
            ends[byte] = begin
            begin += size
        for index in range(count):
            byte = (slots[index].prefix >> shift) & 0xFF
            spare[ends[byte]] = slots[index]
            ends[byte] += 1
        slots, spare = spare, slots
    return slots


cdef int sort_equal_prefixes(Slot *slots, Py_ssize_t count) noexcept:
    """Sort each run of slots with the same prefix by eight bytes after their common prefix."""
    cdef Py_ssize_t begin = 0, end, index, shared
    while begin < count:
        end = begin + 1
        while end < count and slots[end].prefix == slots[begin].prefix:
            if end + AHEAD < count:
                prefetch(slots[end + AHEAD].key)
            end += 1
        if end - begin > 1:
            shared = shared_size(slots + begin, end - begin)
            for index in range(begin, end):
                slots[index].prefix = eight_bytes(slots[index].key, shared)
            qsort(slots + begin, end - begin, sizeof(Slot), compare_slots)
        begin = end
    return 0


cdef tuple ordered_items(dict rows, BytesMap table):
    """Return a sorted list of the keys of ``rows``, and a list of their values.

    If ``rows`` is None, the rows of ``table`` are returned. A radix sort orders the keys by the
    first eight bytes after their common prefix. It takes a fifth of the time of Python's sort.
    """
    cdef Py_ssize_t count = table.count if rows is None else len(rows), index = 0, at = 0, shared
    cdef Slot *slots
    cdef Slot *sorted_slots
    cdef PyObject *key
    cdef PyObject *value
    cdef list keys, values
    cdef bint collecting
    if count == 0:
        return [], []
    slots = <Slot *>PyMem_Malloc(2 * count * sizeof(Slot))
    if slots is NULL:
        raise MemoryError(f"no memory to sort {count} keys")
    collecting = PyGC_Disable()  # the docstring of OrderedRows gives the reason
    try:
        if rows is None:
            for at in range(table.mask + 1):
                if table.entries[at].key is not NULL:
                    slots[index].key, slots[index].value = table.entries[at].key, table.entries[at].value
                    index += 1
        else:
            while PyDict_Next(rows, &at, &key, &value):
                slots[index].key = key
                slots[index].value = value
                index += 1
        shared = shared_size(slots, count)
        for index in range(count):
            if index + AHEAD < count:
                prefetch(slots[index + AHEAD].key)
            slots[index].prefix = eight_bytes(slots[index].key, shared)
        sorted_slots = sort_by_prefix(slots, slots + count, count)
        sort_equal_prefixes(sorted_slots, count)
        keys = PyList_New(count)
        values = PyList_New(count)
        for index in range(count):
            if index + AHEAD < count:
                prefetch(sorted_slots[index + AHEAD].key)
                prefetch(sorted_slots[index + AHEAD].value)
            Py_INCREF(<object>sorted_slots[index].key)
            PyList_SET_ITEM(keys, index, <object>sorted_slots[index].key)
            Py_INCREF(<object>sorted_slots[index].value)
            PyList_SET_ITEM(values, index, <object>sorted_slots[index].value)
    finally:
        PyMem_Free(slots)
        if collecting:
            PyGC_Enable()
    return keys, values


cdef class _Chunk:
    """A sorted list of keys and a list of their values.

    The map changes the lists only while the epoch of the map equals ``epoch``, or while the map
    has no view. In all other cases a view may share the lists, so the map copies the lists first.
    """

    cdef list keys
    cdef list values
    cdef unsigned long epoch

    def __cinit__(self, list keys, list values, unsigned long epoch):
        self.keys = keys
        self.values = values
        self.epoch = epoch


cdef class OrderedRows:
    """A map from bytes to values that can be read in ascending and descending order of its keys.

    A snapshot of the map copies no rows. Several threads may use a map, because each method is
    atomic. Some methods disable the garbage collector to stay atomic, because in Python 3.11 the
    creation of a list may start the collector. The collector runs finalizers, during which other
    threads may run.

    Parameters
    ----------
    for_lookups : bool
        If True, the rows are in a BytesMap, whose lookups take less time than those of a dict. A
        dict also keeps the order in which its keys were added.

    Attributes
    ----------
    rows : dict or None
        All rows, in no particular order. Only the methods of this class may change the dict.
    table : BytesMap or None
        The same as ``rows`` if ``for_lookups`` is True.
    """

    def __cinit__(self, bint for_lookups=False):
        if for_lookups:
            self.table = BytesMap.__new__(BytesMap)
        else:
            self.rows = {}
        self._pending = {}
        self._chunks = []
        self._firsts = []
        self._epoch = 0
        self._pinned = False

    def __len__(self):
        return self._count()

    cdef Py_ssize_t _count(self) except -1:
        return self.table.count if self.rows is None else len(self.rows)

    def put(self, bytes key not None, value):
        """Set ``key`` to ``value``, which may be any object."""
        self.set(key, value)

    def remove(self, bytes key not None):
        """Remove ``key``. Return True if it was present."""
        return self.unset(key)

    def copy(self):
        """Return a map with the same rows. The rows must be in a BytesMap."""
        cdef OrderedRows other = OrderedRows.__new__(OrderedRows, True)
        other.table = self.table.copy()
        return other

    cdef tuple items(self):
        """Return a sorted list of all keys, and a list of their values."""
        if self._chunks:
            return self.view().scan().all()
        return ordered_items(self.rows, self.table)

    def put_rows(self, list keys not None, list values not None):
        """Set each key to its value, or remove the key if the value is None."""
        cdef Py_ssize_t index, count = len(keys)
        if len(values) != count:
            raise ValueError(f"there are {count} keys but {len(values)} values")
        for index in range(count):
            if index + AHEAD < count:
                prefetch(list_item(keys, index + AHEAD))
                prefetch(list_item(values, index + AHEAD))
                if self.table is not None:
                    self.table.prefetch(<bytes?>keys[index + AHEAD // 2])
            if values[index] is None:
                self.unset(<bytes?>keys[index])
            else:
                self.set(<bytes?>keys[index], values[index])

    cdef int set(self, bytes key, object value) except -1:
        if self.rows is None:
            self.table.set(key, value)
        else:
            self.rows[key] = value
        if self._chunks:
            self._pending[key] = value
        return 0

    cdef object swap(self, bytes key, object value, object absent):
        """Set ``key`` to ``value``. Return its former value, or ``absent`` if it had none.

        The rows must be in a BytesMap.
        """
        cdef object old = self.table.swap(key, value, absent)
        if self._chunks:
            self._pending[key] = value
        return old

    cdef bint unset(self, bytes key) except -1:
        if self.rows is None:
            if not self.table.unset(key):
                return False
        elif self.rows.pop(key, _GONE) is _GONE:
            return False
        if self._chunks:
            self._pending[key] = _GONE
        return True

    cpdef OrderedView view(self):
        """Return a snapshot of the map that can be read in key order."""
        cdef OrderedView view = OrderedView.__new__(OrderedView)
        if self._pending or not self._chunks:
            self._arrange()
        view._owner = self
        view._chunks = self._chunks
        view._firsts = self._firsts
        self._views += 1
        self._pinned = True
        self._epoch += 1
        return view

    cdef int _arrange(self) except -1:
        """Update the sorted chunks with all changes, without letting another thread run."""
        cdef bint collecting = PyGC_Disable()
        try:
            if self._chunks:
                self._merge()
            elif self._count():
                self._rebuild()
        finally:
            if collecting:
                PyGC_Enable()
        return 0

    cdef int _rebuild(self) except -1:
        cdef Py_ssize_t start
        cdef list keys, values, part
        keys, values = ordered_items(self.rows, self.table)
        self._chunks = []
        self._firsts = []
        self._pinned = False
        for start in range(0, len(keys), _CHUNK):
            part = keys[start : start + _CHUNK]
            self._chunks.append(_Chunk(part, values[start : start + _CHUNK], self._epoch))
            self._firsts.append(part[0])
        self._pending.clear()
        return 0

    cdef int _merge(self) except -1:
        if len(self._pending) * 4 > self._count():
            self._rebuild()
            return 0
        if self._pinned and self._views:
            self._chunks = list(self._chunks)
            self._firsts = list(self._firsts)
            self._pinned = False
        for key in sorted(self._pending):
            self._place(<bytes>key, self._pending[key])
        self._pending.clear()
        return 0

    cdef int _place(self, bytes key, object value) except -1:
        cdef Py_ssize_t index, where
        cdef _Chunk chunk
        if not self._chunks:
            if value is not _GONE:
                self._chunks.append(_Chunk([key], [value], self._epoch))
                self._firsts.append(key)
            return 0
        index = chunk_of(self._firsts, key)
        chunk = <_Chunk>self._chunks[index]
        if chunk.epoch != self._epoch and self._views:
            chunk = _Chunk(list(chunk.keys), list(chunk.values), self._epoch)
            self._chunks[index] = chunk
        where = bisect_left(chunk.keys, key)
        if where < len(chunk.keys) and compare(<bytes>chunk.keys[where], key) == 0:
            if value is not _GONE:
                chunk.values[where] = value
                return 0
            del chunk.keys[where]
            del chunk.values[where]
            if not chunk.keys:
                del self._chunks[index]
                del self._firsts[index]
            return 0
        if value is _GONE:
            return 0
        chunk.keys.insert(where, key)
        chunk.values.insert(where, value)
        if where == 0:
            self._firsts[index] = key
        if len(chunk.keys) > 2 * _CHUNK:
            self._chunks.insert(
                index + 1, _Chunk(chunk.keys[_CHUNK:], chunk.values[_CHUNK:], self._epoch)
            )
            self._firsts.insert(index + 1, chunk.keys[_CHUNK])
            del chunk.keys[_CHUNK:]
            del chunk.values[_CHUNK:]
        return 0


cdef class OrderedView:
    """A snapshot of an :class:`OrderedRows`."""

    def __dealloc__(self):
        if self._owner is not None:
            self._owner._views -= 1

    cpdef OrderedScan scan(self, bytes lo=None, bytes hi=None, bint reverse=False):
        """Return an iterator of chunks of the rows with ``lo <= key < hi``. None means no limit."""
        cdef OrderedScan scan = OrderedScan.__new__(OrderedScan)
        cdef Py_ssize_t chunks = len(self._chunks)
        cdef Py_ssize_t first = 0, last = chunks - 1, lo_index = 0, hi_index = 0
        scan._reverse = reverse
        scan.done = chunks == 0
        if scan.done:
            return scan
        scan._view = self
        hi_index = len((<_Chunk>self._chunks[last]).keys)
        if lo is not None:
            first = chunk_of(self._firsts, lo)
            lo_index = bisect_left((<_Chunk>self._chunks[first]).keys, lo)
        if hi is not None:
            last = chunk_of(self._firsts, hi)
            hi_index = bisect_left((<_Chunk>self._chunks[last]).keys, hi)
        if first > last or (first == last and lo_index >= hi_index):
            scan.done = True
        scan._lo_index = lo_index
        scan._hi_index = hi_index
        scan._chunk = last if reverse else first
        scan._last_chunk = first if reverse else last
        return scan


cdef class OrderedScan:
    """An iterator of chunks ``(keys, values)`` of the rows of a view.

    Attributes
    ----------
    done : bool
        True if the iterator has no more chunks.
    """

    def __iter__(self):
        return self

    def __next__(self):
        cdef tuple chunk = self.next_chunk()
        if chunk is None:
            raise StopIteration
        return chunk

    cdef tuple all(self):
        """Return the remaining rows as one chunk, which may be empty."""
        cdef list keys = [], values = []
        cdef tuple chunk = self.next_chunk()
        while chunk is not None:
            keys.extend(<list>chunk[0])
            values.extend(<list>chunk[1])
            chunk = self.next_chunk()
        return keys, values

    cpdef tuple next_chunk(self):
        """Return the next chunk, which is never empty, or None at the end."""
        cdef _Chunk chunk
        cdef Py_ssize_t start, end
        cdef list keys, values
        while not self.done:
            chunk = <_Chunk>self._view._chunks[self._chunk]
            start = 0
            end = len(chunk.keys)
            # Only the first and the last chunk of the scan can contain rows outside the bounds.
            if self._reverse:
                if self._chunk == self._last_chunk:
                    start = self._lo_index
                    self.done = True
                if self._hi_index >= 0:
                    end = self._hi_index
                    self._hi_index = -1
                self._chunk -= 1
            else:
                if self._chunk == self._last_chunk:
                    end = self._hi_index
                    self.done = True
                if self._lo_index >= 0:
                    start = self._lo_index
                    self._lo_index = -1
                self._chunk += 1
            if start < end:
                keys = chunk.keys[start:end]
                values = chunk.values[start:end]
                if self._reverse:
                    keys.reverse()
                    values.reverse()
                return keys, values
        self._view = None
        return None
