# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions that encode and decode stored values with headers (docs/formats.md, Values)."""

from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t

from kstore_core.codec.primitives.buffers cimport (
    Scratch, View, address, bytes_of, close_scratch, close_view, copy_bytes, new_bytes,
    open_scratch, open_view, put,
)
from kstore_core.codec.primitives.faults cimport raise_fault
from kstore_core.codec.headers.encoding cimport collect_headers
from kstore_core.codec.headers.headers cimport Headers, lazy_headers
from kstore_core.codec.primitives.integers cimport as_i64
from kstore_core.codec.primitives.wire cimport (
    SOUND, TRUNCATED_FIELD, Fault, Reader, left, load_i64, open_reader, read_size, store_i64,
    store_varint, varint_size,
)


# ---------------------------------------------------------------- shared steps

cdef bytes joined(object value, object headers, bint timed, int64_t timestamp):
    """Return ``varint(H) headers[H] value``. If `timed`, the timestamp precedes the value."""
    cdef Scratch scratch
    cdef View view
    cdef const uint8_t *header_data = NULL
    cdef Py_ssize_t header_size = 0
    cdef Py_ssize_t prefix
    cdef uint8_t *here
    cdef bytes row
    cdef bytes source
    open_view(value, &view)
    open_scratch(&scratch)
    try:
        source = collect_headers(headers, &scratch, &header_data, &header_size)
        prefix = varint_size(header_size) + header_size + (8 if timed else 0)
        row = new_bytes(prefix + view.size)
        here = store_varint(address(row), header_size)
        here = put(here, header_data, header_size)
        if timed:
            here = store_i64(here, timestamp)
        put(here, view.data, view.size)
        return row
    finally:
        close_scratch(&scratch)
        close_view(&view)


cdef int read_parts(Reader *reader, bytes row, bint timed, Py_ssize_t *headers) except -1:
    """Open `reader` at the encoded headers of a row. Check their size, and set `headers` to it."""
    cdef Fault fault
    open_reader(reader, address(row), PyBytes_GET_SIZE(row))
    fault = read_size(reader, 0, headers)
    if fault == SOUND and timed and left(reader) - headers[0] < 8:
        reader.here += headers[0]
        reader.number = 8
        fault = TRUNCATED_FIELD
    if fault != SOUND:
        raise_fault(fault, reader, "value with timestamp and headers" if timed
                    else "aggregation with headers")
    return 0


cdef tuple separated(object buf, bint timed):
    """Return the value and the headers, and the timestamp between them if `timed`.

    The headers are decoded at the first access.
    """
    cdef bytes row = bytes_of(buf)
    cdef Reader reader
    cdef Py_ssize_t size = 0
    cdef const uint8_t *rest
    read_parts(&reader, row, timed, &size)
    rest = reader.here + size
    headers = lazy_headers(row, reader.here - reader.start, size)
    if timed:
        return copy_bytes(rest + 8, reader.end - rest - 8), load_i64(rest), headers
    return copy_bytes(rest, reader.end - rest), headers


# ---------------------------------------------------------------- value, timestamp, headers

def encode_value_timestamp_headers(value, timestamp, headers=None):
    """Encode a value with its timestamp and headers: ``varint(H) headers[H] ts:i64 value``.

    Timestamped stores with headers contain such values (KIP-1271). `value`, `timestamp`, the result
    and the errors are those of `encode_value_and_timestamp`.

    Parameters
    ----------
    headers : Headers, iterable of (str, bytes-like or None), or None
        The headers.

    Raises
    ------
    TypeError, FormatError
        If `encode_headers` raises this error for `headers`.
    """
    if value is None:
        return None
    return joined(value, headers, True, as_i64(timestamp, "timestamp"))


def decode_value_timestamp_headers(buf):
    """Decode ``varint(H) headers[H] ts:i64 value``.

    This function checks the size of the headers. The first access to the headers decodes and checks
    them.

    Parameters
    ----------
    buf : bytes-like or None

    Returns
    -------
    tuple of (bytes, int, Headers) or None
        The value, the timestamp in milliseconds, and the headers, which are read-only. None if
        `buf` is None.

    Raises
    ------
    FormatError
        If the size H is malformed, negative or too large, or fewer than 8 bytes follow the headers.
    """
    return None if buf is None else separated(buf, True)


# ---------------------------------------------------------------- aggregation, headers

def encode_aggregation_with_headers(value, headers=None):
    """Encode an aggregation with its headers: ``varint(H) headers[H] value``.

    Session stores with headers (KIP-1271) and versioned stores with headers contain such values.
    The parameters, the result and the errors are those of `encode_value_timestamp_headers`.
    """
    if value is None:
        return None
    return joined(value, headers, False, 0)


def decode_aggregation_with_headers(buf):
    """Decode ``varint(H) headers[H] value`` to the aggregation and the headers.

    The parameter and the errors are those of `decode_value_timestamp_headers`. The headers are
    decoded at the first access.
    """
    return None if buf is None else separated(buf, False)
