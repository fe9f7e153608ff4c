from libc.stdint cimport int64_t

from kstore_core.stream_clock cimport StreamClock
from kstore_core.tables.staging cimport StagedNamespace


cdef class VersionedTable:
    cdef readonly object rows
    cdef readonly int64_t segment_interval_ms
    cdef readonly StreamClock clock
    cdef StagedNamespace _namespace     # None if the rows are reached through a layer
    cdef list _ids

    cdef int64_t _segment_of(self, int64_t timestamp) noexcept
    cdef bytes _row_key(self, int64_t segment, bytes key)
    cdef bytes _row(self, bytes row_key)
    cdef bint _live(self, int64_t segment) except -1
    cdef int _expire(self) except -1
    cdef int64_t set(self, bytes key, bytes value, int64_t timestamp) except? -2
    cdef int64_t _plan(self, bytes key, bytes value, int64_t timestamp, dict writes) except? -2
    cdef int64_t _plan_in_history(
        self, bytes key, bytes value, int64_t timestamp, bint has_newer, int64_t newer, dict writes
    ) except? -2
    cdef int _retire(
        self, bytes key, bytes value, int64_t valid_from, int64_t valid_to, dict writes
    ) except -1
    cdef bint _bury(self, bytes key, int64_t timestamp, dict writes) except -1
    cdef int64_t _plan_before(
        self, bytes key, bytes value, int64_t timestamp, int64_t newer, dict writes
    ) except? -2
    cdef tuple _latest(self, bytes key, int64_t as_of)
    cpdef tuple get(self, bytes key)
    cpdef tuple get_as_of(self, bytes key, int64_t as_of)
