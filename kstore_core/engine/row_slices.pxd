# cython: language_level=3
"""Rows in the memory of an engine, without a Python object for each row."""

from libc.stdint cimport int64_t, uint8_t


cdef struct Slice:
    const uint8_t *data
    Py_ssize_t size


cdef class RowSlices:
    cdef readonly Py_ssize_t count
    cdef readonly int64_t value_bytes
    cdef Slice *values
    cdef uint8_t *keys          # all keys, one after another
    cdef int64_t *ends          # the end of each key in `keys`; the first number is 0
    cdef int64_t room           # the allocated size of `keys` in bytes
    cdef list owners            # the owners of the memory of the values

    cdef int append(
        self, const uint8_t *key, Py_ssize_t key_size, const uint8_t *value, Py_ssize_t value_size
    ) except -1
    cdef int grow(self, int64_t needed) except -1
    cdef int own(self, object owner) except -1
