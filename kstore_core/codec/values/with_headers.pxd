# cython: language_level=3
from libc.stdint cimport int64_t

from kstore_core.codec.primitives.wire cimport Reader


cdef bytes joined(object value, object headers, bint timed, int64_t timestamp)
cdef int read_parts(Reader *reader, bytes row, bint timed, Py_ssize_t *headers) except -1
