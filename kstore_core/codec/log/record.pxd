# cython: language_level=3
from libc.stdint cimport int64_t

from kstore_core.codec.headers.headers cimport Headers


cdef class LogRecord:
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly bytes key
    cdef readonly bytes value
    cdef readonly Headers headers


cdef bytes as_bytes(object data, str what)
cdef LogRecord new_record(
    int64_t offset, int64_t timestamp, bytes key, bytes value, Headers headers
)
