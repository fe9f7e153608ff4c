# cython: language_level=3
from kstore_core.codec.buffers cimport View
from kstore_core.codec.wire cimport Reader


cdef int read_parts(Reader *reader, const View *view, bint timed, Py_ssize_t *headers) except -1
