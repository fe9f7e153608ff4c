# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions that encode and decode stored values with headers (docs/formats.md, Values)."""

from cpython.bytes cimport PyBytes_CheckExact
from libc.stdint cimport int64_t, uint8_t

from kstore_core.codec.primitives.buffers cimport (
    Scratch, View, address, close_scratch, close_view, copy_bytes, new_bytes, open_scratch,
    open_view, put,
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
    """Return ``varint(H) headers[H] value``, with the timestamp before the value if `timed`."""
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


cdef int read_parts(Reader *reader, const View *view, bint timed, Py_ssize_t *headers) except -1:
    """Move `reader` to the encoded headers, and set `headers` to their size. Check the size."""
    cdef Fault fault
    open_reader(reader, view.data, view.size)
    fault = read_size(reader, 0, headers)
    if fault == SOUND and timed and left(reader) - headers[0] < 8:
        reader.here += headers[0]
        reader.number = 8
        fault = TRUNCATED_FIELD
    if fault != SOUND:
        raise_fault(fault, reader, "value with timestamp and headers" if timed
                    else "aggregation with headers")
    return 0


cdef Headers shared_headers(object buf, const Reader *reader, Py_ssize_t size):
    """Return headers that are decoded at the first access. They share `buf` if it is immutable."""
    if PyBytes_CheckExact(buf):
        return lazy_headers(<bytes>buf, reader.here - reader.start, size)
    return lazy_headers(copy_bytes(reader.here, size), 0, size)


# ---------------------------------------------------------------- value, timestamp, headers

def encode_value_timestamp_headers(value, timestamp, headers=None):
    """Encode a value with its timestamp and headers: ``varint(H) headers[H] ts:i64 value``.

    Timestamped stores with headers contain such values (KIP-1271).

    Parameters
    ----------
    value : bytes-like or None
        The value.
    timestamp : int
        The time in milliseconds since the epoch, or -1 if the time is unknown.
    headers : Headers, iterable of (str, bytes-like or None), or None
        The headers.

    Returns
    -------
    bytes or None
        The stored value. None if `value` is None.

    Raises
    ------
    TypeError
        If `value` is neither bytes-like nor None, or if `encode_headers` raises it for `headers`.
    FormatError
        If `encode_headers` raises it for `headers`.
    OverflowError
        If `timestamp` does not fit 64 bits.
    """
    if value is None:
        return None
    return joined(value, headers, True, as_i64(timestamp, "timestamp"))


def decode_value_timestamp_headers(buf):
    """Decode ``varint(H) headers[H] ts:i64 value``.

    The size of the headers is checked now. The headers are decoded and checked when they are first
    accessed.

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
    cdef View view
    cdef Reader reader
    cdef Py_ssize_t size = 0
    cdef const uint8_t *rest
    if buf is None:
        return None
    open_view(buf, &view)
    try:
        read_parts(&reader, &view, True, &size)
        rest = reader.here + size
        return (
            copy_bytes(rest + 8, reader.end - rest - 8),
            load_i64(rest),
            shared_headers(buf, &reader, size),
        )
    finally:
        close_view(&view)


# ---------------------------------------------------------------- aggregation, headers

def encode_aggregation_with_headers(value, headers=None):
    """Encode an aggregation with its headers: ``varint(H) headers[H] value``.

    Session stores with headers contain such values (KIP-1271). So do versioned stores with headers.

    Parameters
    ----------
    value : bytes-like or None
        The aggregation.
    headers : Headers, iterable of (str, bytes-like or None), or None
        The headers.

    Returns
    -------
    bytes or None
        The stored value. None if `value` is None.

    Raises
    ------
    TypeError
        If `value` is neither bytes-like nor None, or if `encode_headers` raises it for `headers`.
    FormatError
        If `encode_headers` raises it for `headers`.
    """
    if value is None:
        return None
    return joined(value, headers, False, 0)


def decode_aggregation_with_headers(buf):
    """Decode ``varint(H) headers[H] value``.

    Parameters
    ----------
    buf : bytes-like or None

    Returns
    -------
    tuple of (bytes, Headers) or None
        The aggregation, and the headers, which are read-only. None if `buf` is None.

    Raises
    ------
    FormatError
        If the size H is malformed, negative or greater than the number of bytes that follow.
    """
    cdef View view
    cdef Reader reader
    cdef Py_ssize_t size = 0
    cdef const uint8_t *rest
    if buf is None:
        return None
    open_view(buf, &view)
    try:
        read_parts(&reader, &view, False, &size)
        rest = reader.here + size
        return copy_bytes(rest, reader.end - rest), shared_headers(buf, &reader, size)
    finally:
        close_view(&view)
