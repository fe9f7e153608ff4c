# cython: language_level=3
from libc.stdint cimport uint8_t

from kstore_core.codec.buffers cimport Scratch


cdef class Headers:
    cdef bytes _source          # the encoded headers are _source[_start:_start + _size]; None once modified
    cdef Py_ssize_t _start
    cdef Py_ssize_t _size
    cdef tuple _items           # of Header; None while nobody has looked
    cdef bint _read_only

    cdef tuple items(self)
    cdef tuple locked_items(self)
    cdef bytes locked_source(self)
    cdef int refuse_if_read_only(self, str what) except -1


cdef Headers lazy_headers(bytes source, Py_ssize_t start, Py_ssize_t size)
cdef Headers as_headers(object headers)
cdef bytes collect_headers(
    object headers, Scratch *scratch, const uint8_t **data, Py_ssize_t *size
)
