# cython: language_level=3
"""A table of those rows of another table that have a key with a given prefix."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from kstore_core.engine.ordered cimport close_chunks
from kstore_core.errors import CorruptionError
from kstore_core.tables.staging cimport StagedNamespace
from kstore_core.tables import Bounds, NamespaceTable, Write

__all__ = ["PrefixedTable"]


cdef class PrefixedTable:
    """A table of those rows of another table that have a key with a given prefix.

    A key of this table is the key in the other table without the prefix.

    Parameters
    ----------
    below : Table
        The table that stores the rows.
    prefix : bytes
        The prefix of the stored keys.
    end : bytes
        The end of the range of stored keys, exclusive.
    """

    def __cinit__(self, below not None, bytes prefix not None, bytes end not None):
        self.rows = below.rows
        self._below = below
        self._prefix = prefix
        self._end = end
        self._only = below.rows if type(below) is NamespaceTable else None

    points = segment_of = expire = None
    key_overhead = 0

    # If the table below is a single namespace, lookups and puts call the namespace directly. This
    # saves the time of one call.

    cpdef object get(self, bytes key):
        """Return the value of ``key``, or None if the key is missing."""
        if self._only is not None:
            return self._only.get(joined(self._prefix, key))
        return self._below.get(self._prefix + key)

    cpdef object put_one(self, bytes key, bytes value):
        """Write the value of ``key``, or delete the row if ``value`` is None."""
        if self._only is not None:
            self._only.put(self._prefix + key, value)
        else:
            self._below.put_one(self._prefix + key, value)

    def get_many(self, list keys not None):
        """Return the values of ``keys`` in the order of ``keys``."""
        return self._below.get_many([self._prefix + key for key in keys])

    def write(self, writes):
        """Write rows in the given order. If a row is refused, no row is written."""
        self._below.write(
            [Write(self._prefix + key, value, context) for key, value, context in writes]
        )

    def delete_range(self, bytes lo not None, bytes hi):
        """Delete the rows with ``lo <= key < hi``. If ``hi`` is None, there is no upper limit."""
        self._below.delete_range(self._prefix + lo, self._beyond(hi))

    cdef bytes _from(self, bytes lo):
        return self._prefix if lo is None else joined(self._prefix, lo)

    cdef bytes _beyond(self, bytes hi):
        return self._end if hi is None else joined(self._prefix, hi)

    def scan(self, bounds):
        """Return an iterator of chunks of rows in key order, as of the time of this call."""
        lo, hi = self._from(bounds.lo), self._beyond(bounds.hi)
        if self._only is not None:
            chunks = self._only.scan(lo, hi, reverse=bounds.reverse)
        else:
            chunks = self._below.scan(Bounds(lo, hi, bounds.reverse))
        return _Unprefixed(chunks, len(self._prefix))

    cdef tuple _start(self, bytes lo, bytes hi, bint reverse):
        """Return the first chunk of a scan, and an iterator of the rest. An empty part is None."""
        if self._only is None:
            chunks = self.scan(Bounds(lo, hi, reverse))
            chunk = next(chunks, None)
            return chunk, None if chunk is None else chunks
        return self._bare(self._only._start(self._from(lo), self._beyond(hi), reverse))

    cdef tuple _bare(self, tuple begun):
        """Remove the prefix from the keys in a result of ``_start`` of the table below."""
        cdef Py_ssize_t size = len(self._prefix)
        chunk, rest = begun
        if chunk is None:
            return begun
        return _without(chunk, size), None if rest is None else _Unprefixed(rest, size)

    cdef int _append(self, tuple chunk, list keys, list values) except -1:
        """Append a chunk to ``keys`` and ``values``, and remove the prefix from its keys."""
        cdef Py_ssize_t size = len(self._prefix)
        cdef bytes key
        for key in <list>chunk[0]:
            keys.append(bare(key, size))
        values.extend(<list>chunk[1])
        return 0

    def first(self, bytes lo=None, bytes hi=None, *, bint reverse=False):
        """Return the first row that a scan would yield, or None if there is no row."""
        row = self._below.first(self._from(lo), self._beyond(hi), reverse=reverse)
        return None if row is None else (bare(row[0], len(self._prefix)), row[1])

    def load(self, chunks):
        """Load rows in ascending order without staging them, and return their number."""
        return self._below.load(
            ([self._prefix + key for key in keys], values) for keys, values in chunks
        )

    def approximate_count(self):
        """Count the rows with a scan, and return their number."""
        return sum(len(keys) for keys, _ in self.scan(Bounds()))


cdef class _Unprefixed:
    """An iterator of chunks that removes the prefix from the keys."""

    cdef object _chunks
    cdef Py_ssize_t _size

    def __init__(self, chunks, Py_ssize_t size):
        self._chunks = iter(chunks)
        self._size = size

    def __iter__(self):
        return self

    def __next__(self):
        return _without(next(self._chunks), self._size)

    def close(self):
        close_chunks(self._chunks)


cdef bytes joined(bytes prefix, bytes key):
    if key is None:
        raise TypeError("a key must be bytes, not None")
    cdef Py_ssize_t size = PyBytes_GET_SIZE(prefix)
    cdef bytes row = PyBytes_FromStringAndSize(NULL, size + PyBytes_GET_SIZE(key))
    cdef char *here = PyBytes_AS_STRING(row)
    memcpy(here, PyBytes_AS_STRING(prefix), size)
    memcpy(here + size, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
    return row


cdef tuple _without(tuple chunk, Py_ssize_t size):
    """Return a chunk without the first ``size`` bytes of each key."""
    cdef list keys = <list>chunk[0]
    cdef bytes key
    return [bare(key, size) for key in keys], chunk[1]


cdef bytes bare(bytes key, Py_ssize_t size):
    if PyBytes_GET_SIZE(key) < size:
        raise CorruptionError(
            f"the stored key {key!r} has {len(key)} bytes, fewer than the {size} bytes of a segment "
            "id, so the store is damaged. List the damage with: kstore verify PATH"
        )
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(key) + size, PyBytes_GET_SIZE(key) - size)
