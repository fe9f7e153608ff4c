# cython: language_level=3
from libc.stdint cimport int64_t

from kstore_core.codec.headers.headers cimport Headers


cdef class ValueAndTimestamp:
    cdef readonly object value
    cdef readonly int64_t timestamp
    cdef bint made              # True after __init__, which cannot be called again


cdef class ValueTimestampHeaders:
    cdef readonly object value
    cdef readonly int64_t timestamp
    cdef readonly Headers headers


cdef class AggregationWithHeaders:
    cdef readonly object aggregation
    cdef readonly Headers headers
