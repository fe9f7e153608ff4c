# cython: language_level=3
from libc.stdint cimport int64_t


cdef bytes stamped(object value, int64_t timestamp)
