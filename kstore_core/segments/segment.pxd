cdef class Segment:
    cdef readonly long long id
    cdef readonly object table
    cdef readonly unsigned long long used
    cdef readonly Py_ssize_t users
    cdef object _get
    cdef object _put

    cdef int _touch(self) except -1
    cdef object _call(self, str method, tuple arguments, dict named=*)
    cdef tuple _start(self, bounds)
