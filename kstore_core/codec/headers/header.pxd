# cython: language_level=3
from libc.stdint cimport int32_t, uint8_t

from kstore_core.codec.primitives.buffers cimport Scratch


cdef class Header:
    cdef readonly str key
    cdef bytes _value
    cdef bytes _source          # contains the value until it is read; None afterwards
    cdef Py_ssize_t _start      # the position of the value in _source
    cdef Py_ssize_t _size

    cdef bytes read(self)


cdef Header as_header(object pair, Py_ssize_t position)
cdef int write_pair(Scratch *scratch, object pair, Py_ssize_t position) except -1
cdef int32_t count_headers(const uint8_t *data, Py_ssize_t size) except -1
cdef tuple parse_headers(bytes source, Py_ssize_t start, Py_ssize_t size)
