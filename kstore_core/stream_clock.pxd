from libc.stdint cimport int64_t


cdef class StreamClock:
    cdef public int64_t observed
    cdef public int64_t horizon
    cdef readonly int64_t retention_ms
    cdef readonly bint held
    cdef readonly object turn
    cdef readonly int64_t dropped_late

    cpdef void advance(self, int64_t timestamp) noexcept
    cpdef void rewind(self, int64_t observed) noexcept
    cpdef bint accepts(self, int64_t timestamp) noexcept
    cpdef bint accepts_segment(self, int64_t timestamp, int64_t interval_ms) noexcept
