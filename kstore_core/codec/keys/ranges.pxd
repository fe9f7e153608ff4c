# cython: language_level=3
from libc.stdint cimport int64_t

from kstore_core.codec.keys.parts cimport Parts


cdef class KeyLayout:
    cdef readonly int prefix
    cdef readonly bint session
    cdef int width

    cdef int parts(self, bytes row, Parts *parts) except -1


cdef class KeyFilter:
    cdef int prefix
    cdef int width
    cdef bytes key_from
    cdef bytes key_to
    cdef int64_t earliest
    cdef int64_t latest
    cdef int64_t latest_start

    cdef bint lets_pass(self, bytes row) except -1
    cpdef FilteredChunks chunks(self, rows)


cdef class FilteredChunks:
    cdef KeyFilter rows
    cdef object below


cdef int compared(const Parts *parts, bytes key) noexcept
cdef KeyFilter one_key(
    KeyLayout layout, bytes key, int64_t earliest, int64_t latest, int64_t latest_start
)
