from libc.stdint cimport int64_t


cpdef int64_t window_start(object start) except -1
