# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions that convert a value to a newer format, or that read a part of a stored value.

Kafka Streams upgrades a store with the same conversions (docs/formats.md). Every function
except `has_empty_headers` takes None for a null value, and then returns None.
"""

from libc.string cimport memset

from kstore_core.codec.primitives.buffers cimport (
    View, address, close_view, copy_bytes, new_bytes, open_view, put,
)
from kstore_core.codec.primitives.faults cimport raise_fault
from kstore_core.codec.primitives.wire cimport (
    SOUND, TRUNCATED_FIELD, Fault, Reader, left, load_i64, open_reader, read_size,
)


cdef bytes prefixed(object buf, Py_ssize_t zeros, Py_ssize_t ones):
    """Return `zeros` bytes 00, then `ones` bytes ff, and then `buf`."""
    cdef View view
    cdef bytes row
    open_view(buf, &view)
    try:
        row = new_bytes(zeros + ones + view.size)
        memset(address(row), 0x00, zeros)
        memset(address(row) + zeros, 0xFF, ones)
        put(address(row) + zeros + ones, view.data, view.size)
        return row
    finally:
        close_view(&view)


def convert_to_timestamped_format(buf):
    """Convert a plain value to ``ts:i64 value`` with the timestamp -1, "unknown" (KIP-258).
    """
    return None if buf is None else prefixed(buf, 0, 8)


def convert_to_header_format(buf):
    """Put empty headers (one byte 00) in front of ``ts:i64 value`` or an aggregation (KIP-1271)."""
    return None if buf is None else prefixed(buf, 1, 0)


def convert_from_plain_to_header_format(buf):
    """Put empty headers and the timestamp -1, "unknown", in front of a plain value (KIP-1271).
    """
    return None if buf is None else prefixed(buf, 1, 8)


# ---------------------------------------------------------------- parts of a row with headers

cdef int skip_headers(Reader *reader, const View *view, bint timed) except -1:
    """Move `reader` past the headers. If `timed`, the 8 bytes of a timestamp must follow."""
    cdef Py_ssize_t size = 0
    cdef Fault fault
    open_reader(reader, view.data, view.size)
    fault = read_size(reader, 0, &size)
    if fault == SOUND:
        reader.here += size
        if timed and left(reader) < 8:
            reader.number = 8
            fault = TRUNCATED_FIELD
    if fault != SOUND:
        raise_fault(fault, reader, "value with headers")
    return 0


cdef bytes tail(object buf, bint timed, Py_ssize_t skipped):
    """Return the bytes that follow the headers and the next `skipped` bytes."""
    cdef View view
    cdef Reader reader
    open_view(buf, &view)
    try:
        skip_headers(&reader, &view, timed)
        return copy_bytes(reader.here + skipped, left(&reader) - skipped)
    finally:
        close_view(&view)


cdef inline object timestamp_of(object buf, bint with_headers):
    """Return the timestamp after the headers, or, if `with_headers`, the bytes of both parts."""
    cdef View view
    cdef Reader reader
    open_view(buf, &view)
    try:
        skip_headers(&reader, &view, True)
        if with_headers:
            return copy_bytes(view.data, reader.here + 8 - view.data)
        return load_i64(reader.here)
    finally:
        close_view(&view)


def raw_plain_value(buf):
    """Return the value in ``varint(H) headers[H] ts:i64 value``. The headers are not decoded.

    Parameters
    ----------
    buf : bytes-like or None

    Returns
    -------
    bytes or None
        The value. None if `buf` is None.

    Raises
    ------
    FormatError
        If the size H is malformed, negative or too large, or fewer than 8 bytes follow the headers.
    """
    return None if buf is None else tail(buf, True, 8)


def raw_timestamped_value(buf):
    """Return ``ts:i64 value`` from ``varint(H) headers[H] ts:i64 value``.

    The headers are not decoded. The parameter and the errors are those of `raw_plain_value`.
    """
    return None if buf is None else tail(buf, True, 0)


def raw_aggregation(buf):
    """Return the aggregation in ``varint(H) headers[H] aggregation``. The headers are not decoded.

    Raise FormatError if the size H is malformed, negative or greater than the number of bytes that
    follow.
    """
    return None if buf is None else tail(buf, False, 0)


def raw_headers_timestamp_prefix(buf):
    """Return ``varint(H) headers[H] ts:i64`` from ``varint(H) headers[H] ts:i64 value``.

    The headers are not decoded. The parameter and the errors are those of `raw_plain_value`.
    """
    return None if buf is None else timestamp_of(buf, True)


def raw_timestamp(buf):
    """Return the timestamp (ms) in ``varint(H) headers[H] ts:i64 value``.

    The headers are not decoded. The parameter and the errors are those of `raw_plain_value`.
    """
    return None if buf is None else timestamp_of(buf, False)


def has_empty_headers(buf):
    """Return True if the headers of a stored value are empty, so that its first byte is 00."""
    cdef View view
    open_view(buf, &view)
    try:
        return view.size > 0 and view.data[0] == 0
    finally:
        close_view(&view)
