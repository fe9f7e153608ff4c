# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
"""Functions for Cython callers that decode stored values to records with values of bytes."""

from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from kstore_core.codec.primitives.buffers cimport address, copy_bytes
from kstore_core.codec.primitives.faults cimport raise_fault
from kstore_core.codec.headers.headers cimport lazy_headers
from kstore_core.codec.values.records cimport (
    AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders,
)
from kstore_core.codec.values.with_headers cimport read_parts
from kstore_core.codec.primitives.wire cimport TRUNCATED_FIELD, Reader, load_i64, open_reader


cdef ValueAndTimestamp timestamped_record(bytes row):
    """Return the record in ``ts:i64 value``."""
    cdef const uint8_t *data = address(row)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(row)
    cdef Reader reader
    cdef ValueAndTimestamp record
    if size < 8:
        open_reader(&reader, data, size)
        reader.number = 8
        raise_fault(TRUNCATED_FIELD, &reader, "value and timestamp")
    record = ValueAndTimestamp.__new__(ValueAndTimestamp)
    record.timestamp = load_i64(data)
    record.value = copy_bytes(data + 8, size - 8)
    record.made = True
    return record


cdef ValueTimestampHeaders headers_record(bytes row):
    """Return the record in ``varint(H) headers[H] ts:i64 value``."""
    cdef Reader reader
    cdef Py_ssize_t size = 0
    cdef const uint8_t *rest
    cdef ValueTimestampHeaders record
    read_parts(&reader, row, True, &size)
    rest = reader.here + size
    record = ValueTimestampHeaders.__new__(ValueTimestampHeaders)
    record.value = copy_bytes(rest + 8, reader.end - rest - 8)
    record.timestamp = load_i64(rest)
    record.headers = lazy_headers(row, reader.here - reader.start, size)
    return record


cdef AggregationWithHeaders aggregation_record(bytes row):
    """Return the record in ``varint(H) headers[H] value``."""
    cdef Reader reader
    cdef Py_ssize_t size = 0
    cdef const uint8_t *rest
    cdef AggregationWithHeaders record
    read_parts(&reader, row, False, &size)
    rest = reader.here + size
    record = AggregationWithHeaders.__new__(AggregationWithHeaders)
    record.aggregation = copy_bytes(rest, reader.end - rest)
    record.headers = lazy_headers(row, reader.here - reader.start, size)
    return record
