# cython: language_level=3
from cpython.buffer cimport Py_buffer
from libc.stdint cimport int64_t

from kstore_core.codec.arrow.input cimport Column, Texts, Times
from kstore_core.spark.join.version_runs cimport Runs


cdef class VersionIndex:
    cdef Runs runs
    cdef bint borrowed          # True if the arrays of `runs` are in `buffer`
    cdef Py_buffer buffer

    cdef int build(self, keys, begins, ends, horizons) except -1
    cdef int point_into_buffer(
        self, int64_t n_keys, int64_t n_versions, int64_t n_bytes, int shift
    ) except -1


cdef int open_spans(
    Column keys, Column begins, Column ends, str each, Texts *texts, Times *since, Times *until
) except -1
