# cython: language_level=3
from libc.stdint cimport uint8_t

from kstore_core.codec.primitives.buffers cimport Scratch


cdef class Header:
    cdef readonly str key
    cdef readonly bytes value


cdef Header as_header(object pair, Py_ssize_t position)
cdef int write_pair(Scratch *scratch, object pair, Py_ssize_t position) except -1
cdef tuple parse_headers(const uint8_t *data, Py_ssize_t size)
