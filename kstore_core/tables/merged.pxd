cdef class MergedScan:
    cdef object _upper
    cdef object _lower
    cdef tuple _ranges
    cdef bint _reverse
    cdef object _convert
    cdef list _upper_keys
    cdef list _upper_values
    cdef Py_ssize_t _upper_at
    cdef list _lower_keys
    cdef list _lower_values
    cdef Py_ssize_t _lower_at

    cdef int _pull_upper(self) except -1
    cdef int _pull_lower(self) except -1


cdef bint in_ranges(ranges, bytes key) except -1
