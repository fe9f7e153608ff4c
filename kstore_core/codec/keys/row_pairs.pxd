# cython: language_level=3
from kstore_core.codec.keys.parts cimport Parts


cdef class RowPairs:
    cdef bint session
    cdef Py_ssize_t leading
    cdef int width

    cpdef bytes index_of(self, bytes row)
    cpdef bytes row_of(self, bytes index)
    cdef bytes _turned(self, bytes row, int prefix, Py_ssize_t first, Py_ssize_t second)
    cdef int _take_apart(self, bytes row, Parts *parts) except -1
