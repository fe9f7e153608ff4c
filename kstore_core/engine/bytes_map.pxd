# cython: language_level=3
"""A hash table from bytes to objects."""

from cpython.object cimport PyObject


cdef struct Entry:
    Py_hash_t hash
    PyObject *key               # NULL if the entry is free
    PyObject *value


cdef class BytesMap:
    cdef Entry *entries
    cdef Py_ssize_t mask        # the number of entries, a power of 2, minus 1
    cdef Py_ssize_t count

    cdef Entry *find(self, bytes key) except NULL
    cdef int prefetch(self, bytes key) except -1
    cdef Py_ssize_t count_values(self) noexcept
    cdef object get_or(self, bytes key, object absent)
    cdef object swap(self, bytes key, object value, object absent)
    cdef int set(self, bytes key, object value) except -1
    cdef bint unset(self, bytes key) except -1
    cdef BytesMap copy(self)
    cdef int resize(self, Py_ssize_t size) except -1
