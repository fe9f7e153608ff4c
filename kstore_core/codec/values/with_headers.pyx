# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Stored values with headers (docs/formats.md, Values). None, a delete, gives None."""

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
    """varint(H) headers[H] (timestamp) value"""
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
    """Check the size prefix and move `reader` to the header bytes, whose size is `headers`."""
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
    """Lazy headers at the reader's position. They share `buf` if it is immutable."""
    if PyBytes_CheckExact(buf):
        return lazy_headers(<bytes>buf, reader.here - reader.start, size)
    return lazy_headers(copy_bytes(reader.here, size), 0, size)


# ---------------------------------------------------------------- value, timestamp, headers

def encode_value_timestamp_headers(value, timestamp, headers=None):
    """Encode a value with its timestamp and headers: ``varint(H) headers[H] ts:i64 value``.

    The row of the timestamped stores with headers (KIP-1271).

    Parameters
    ----------
    value : bytes-like or None
    timestamp : int
        Milliseconds since the epoch; -1 when unknown.
    headers : Headers, iterable of (str, bytes-like or None), or None

    Returns
    -------
    bytes or None
        None when `value` is None.

    Raises
    ------
    TypeError, FormatError
        As `encode_headers` does; TypeError if `value` is not bytes-like.
    OverflowError
        If `timestamp` does not fit 64 bits.
    """
    if value is None:
        return None
    return joined(value, headers, True, as_i64(timestamp, "timestamp"))


def decode_value_timestamp_headers(buf):
    """Decode ``varint(H) headers[H] ts:i64 value``.

    The size of the headers is checked now, their content at the first access.

    Parameters
    ----------
    buf : bytes-like or None

    Returns
    -------
    tuple of (bytes, int, Headers) or None
        Value, timestamp in milliseconds, read-only headers; None when `buf` is None.

    Raises
    ------
    FormatError
        If the size is malformed, negative or too large, or fewer than 8 bytes follow the headers.
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

    The row of the session store with headers (KIP-1271), and each value in the rows of the
    versioned store with headers.

    Parameters
    ----------
    value : bytes-like or None
    headers : Headers, iterable of (str, bytes-like or None), or None

    Returns
    -------
    bytes or None
        None when `value` is None.

    Raises
    ------
    TypeError, FormatError
        As `encode_headers` does; TypeError if `value` is not bytes-like.
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
        Value and read-only headers; None when `buf` is None.

    Raises
    ------
    FormatError
        If the size of the headers is malformed, negative or larger than what follows.
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
