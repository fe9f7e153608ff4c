# cython: language_level=3
from libc.stdint cimport int64_t

from kstore_core.codec.primitives.wire cimport Fault, Reader


cdef str describe(Fault fault, int64_t number, Py_ssize_t left)
cdef int raise_fault(Fault fault, const Reader *reader, str what) except -1
