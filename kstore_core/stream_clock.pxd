from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int64_t


cdef class Turn:
    cdef PyThread_type_lock _lock
    cdef long _owner    # the id of the thread that holds the lock
    cdef int _depth     # how often this thread holds it; 0 if no thread holds it

    cdef bint try_take(self) noexcept
    cdef int take(self) except -1
    cdef int wait(self) except -1
    cdef int end(self) except -1


cdef class StreamClock:
    cdef public int64_t observed
    cdef public int64_t horizon
    cdef readonly int64_t retention_ms
    cdef readonly bint held
    cdef readonly Turn turn
    cdef readonly int64_t dropped_late

    cpdef void advance(self, int64_t timestamp) noexcept
    cpdef void rewind(self, int64_t observed) noexcept
    cpdef bint accepts(self, int64_t timestamp) noexcept
    cpdef bint accepts_segment(self, int64_t timestamp, int64_t interval_ms) noexcept
