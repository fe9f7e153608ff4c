# cython: language_level=3
from libc.stdint cimport uint8_t

from kstore_core.codec.primitives.buffers cimport Scratch


cdef bytes collect_headers(
    object headers, Scratch *scratch, const uint8_t **data, Py_ssize_t *size
)
