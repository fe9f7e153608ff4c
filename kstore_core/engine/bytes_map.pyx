# cython: language_level=3, binding=False
"""A hash table from bytes to objects, for lookups in large tables.

A lookup reads one place of the table. A lookup in a dict reads two places, the index and the entry.
In a large table with random keys, each place is a miss of the processor's caches.

The table has open addressing with linear probing. An eighth to two thirds of it are full. An entry
contains the hash of its key, so growth and most comparisons need not read the keys.
"""

cimport cython
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree  # tracemalloc counts this memory
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, Py_XINCREF
from libc.string cimport memcpy

from kstore_core.engine.prefetching cimport prefetch

__all__ = ["BytesMap"]

cdef enum:
    SMALLEST = 8


@cython.final
cdef class BytesMap:
    """A map from bytes to objects, in no order. Its objects must not refer to the map.

    Each method is atomic while the GIL is held, because no method runs Python code before the map
    is consistent again.
    """

    def __cinit__(self):
        self.entries = <Entry *>PyMem_RawCalloc(SMALLEST, sizeof(Entry))
        if self.entries is NULL:
            raise MemoryError("cannot allocate memory for a map")
        self.mask = SMALLEST - 1

    def __dealloc__(self):
        cdef Py_ssize_t at
        if self.entries is not NULL:
            for at in range(self.mask + 1):
                Py_XDECREF(self.entries[at].key)
                Py_XDECREF(self.entries[at].value)
            PyMem_RawFree(self.entries)

    def __len__(self):
        return self.count

    def get(self, bytes key not None):
        """Return the value of a key, or None if the key is missing."""
        return self.get_or(key, None)

    cdef BytesMap copy(self):
        """Return a map with the same keys and values.

        To set the keys of a map in its order would be slow, because their places would be close to
        each other in a small map.
        """
        cdef BytesMap other = BytesMap.__new__(BytesMap)
        cdef Py_ssize_t at
        other.resize(self.mask + 1)
        memcpy(other.entries, self.entries, (self.mask + 1) * sizeof(Entry))
        other.count = self.count
        for at in range(self.mask + 1):
            Py_XINCREF(other.entries[at].key)
            Py_XINCREF(other.entries[at].value)
        return other

    cdef Entry *find(self, bytes key) except NULL:
        """Return the entry of a key, or the free entry where the key belongs."""
        cdef Py_hash_t hashed = hash(key)
        cdef Py_ssize_t at = hashed & self.mask
        cdef Entry *entry = &self.entries[at]
        while entry.key is not NULL and (
            entry.key is not <PyObject *>key
            and (entry.hash != hashed or <bytes>entry.key != key)
        ):
            at = (at + 1) & self.mask
            entry = &self.entries[at]
        return entry

    cdef int prefetch(self, bytes key) except -1:
        """Load the place of a key into the processor's caches."""
        prefetch(&self.entries[hash(key) & self.mask])
        return 0

    cdef Py_ssize_t count_values(self) noexcept:
        """Return the number of values that are not None."""
        cdef Py_ssize_t at, found = 0
        for at in range(self.mask + 1):
            found += self.entries[at].key is not NULL and <object>self.entries[at].value is not None
        return found

    cdef object get_or(self, bytes key, object absent):
        """Return the value of a key, or ``absent`` if the key is missing."""
        cdef Entry *entry = self.find(key)
        return absent if entry.key is NULL else <object>entry.value

    cdef int set(self, bytes key, object value) except -1:
        """Set a key to a value."""
        self.swap(key, value, None)
        return 0

    cdef object swap(self, bytes key, object value, object absent):
        """Set a key to a value. Return its former value, or ``absent`` if it had none.

        A key that is present stays, and only its value is replaced.
        """
        cdef Entry *entry = self.find(key)
        cdef object old
        if entry.key is not NULL:
            old = <object>entry.value
            Py_INCREF(value)
            entry.value = <PyObject *>value
            Py_DECREF(old)  # the reference of the entry
            return old
        if 3 * (self.count + 1) > 2 * (self.mask + 1):
            self.resize(2 * (self.mask + 1))
            entry = self.find(key)
        Py_INCREF(key)
        Py_INCREF(value)
        entry.hash, entry.key, entry.value = hash(key), <PyObject *>key, <PyObject *>value
        self.count += 1
        return absent

    cdef bint unset(self, bytes key) except -1:
        """Remove a key. Return False if it is missing."""
        cdef Entry *entries = self.entries
        cdef Entry *entry = self.find(key)
        cdef Entry removed = entry[0]
        cdef Py_ssize_t hole, at
        if removed.key is NULL:
            return False
        # Move later entries of the run into the hole, if their places are not behind the hole.
        hole = at = entry - entries
        while True:
            at = (at + 1) & self.mask
            if entries[at].key is NULL:
                break
            if ((at - entries[at].hash) & self.mask) >= ((at - hole) & self.mask):
                entries[hole] = entries[at]
                hole = at
        entries[hole].key = entries[hole].value = NULL
        self.count -= 1
        if self.mask >= SMALLEST and 8 * self.count <= self.mask:
            self.resize((self.mask + 1) // 2)
        Py_XDECREF(removed.key)
        Py_XDECREF(removed.value)
        return True

    cdef int resize(self, Py_ssize_t size) except -1:
        """Change the number of entries."""
        cdef Py_ssize_t at, place
        cdef Entry *old = self.entries
        cdef Entry *entries = <Entry *>PyMem_RawCalloc(size, sizeof(Entry))
        if entries is NULL:
            if size <= self.mask:
                return 0  # The map stays larger than necessary.
            raise MemoryError(f"cannot allocate memory for a map of {self.count + 1} keys")
        for at in range(self.mask + 1):
            if old[at].key is not NULL:
                place = old[at].hash & (size - 1)
                while entries[place].key is not NULL:
                    place = (place + 1) & (size - 1)
                entries[place] = old[at]
        self.entries, self.mask = entries, size - 1
        PyMem_RawFree(old)
        return 0
