# cython: language_level=3
from libc.stdint cimport int64_t, uint8_t

from kstore_core.codec.primitives.buffers cimport View
from kstore_core.codec.versions.row_layout cimport Row


cdef struct Version:
    int64_t timestamp
    const uint8_t *value
    Py_ssize_t size             # TOMBSTONE if the version is a tombstone


cdef int open_checked(object source, View *view, Row *row) except -1
cdef int open_version(object value, int64_t timestamp, View *view, Version *version) except -1
cdef bytes spliced(
    const Row *row, Py_ssize_t begin, Py_ssize_t end,
    const Version *added, int count, int64_t next_timestamp, int64_t min_timestamp,
)
cdef object value_of(const Row *row, Py_ssize_t index, Py_ssize_t newer)
cdef object misplaced(str what, int64_t timestamp, const Row *row)
