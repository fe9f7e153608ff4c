# cython: language_level=3
from libc.stdint cimport int64_t


cdef class Windowed:
    cdef readonly object key
    cdef readonly int64_t start
    cdef readonly int64_t end
    cdef bint made              # True after __init__, which cannot be called again


cdef int64_t millis(object time) except? -1
cdef Windowed windowed(object key, int64_t start, int64_t end)
