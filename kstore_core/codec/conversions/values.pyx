# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Conversions of values to newer formats, and reads of parts of a value without decoding the rest.

The upgrade of a store converts each old row with these functions (docs/formats.md). For None they
return None.
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
    """`zeros` bytes 00 and `ones` bytes ff in front of `buf`."""
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
    """Turn a plain value into ``ts:i64 value`` with timestamp -1, unknown (KIP-258).

    Parameters
    ----------
    buf : bytes-like or None

    Returns
    -------
    bytes or None
        8 bytes longer; None when `buf` is None.
    """
    return None if buf is None else prefixed(buf, 0, 8)


def convert_to_header_format(buf):
    """Put empty headers, one byte 00, in front of ``ts:i64 value`` or an aggregation (KIP-1271).

    Parameters
    ----------
    buf : bytes-like or None

    Returns
    -------
    bytes or None
        1 byte longer; None when `buf` is None.
    """
    return None if buf is None else prefixed(buf, 1, 0)


def convert_from_plain_to_header_format(buf):
    """Put empty headers and timestamp -1, unknown, in front of a plain value (KIP-1271).

    Parameters
    ----------
    buf : bytes-like or None

    Returns
    -------
    bytes or None
        9 bytes longer; None when `buf` is None.
    """
    return None if buf is None else prefixed(buf, 1, 8)


# ---------------------------------------------------------------- parts of a row with headers

cdef int skip_headers(Reader *reader, const View *view, bint timed) except -1:
    """Move `reader` to the first byte after the headers. If `timed`, 8 bytes must follow."""
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
    """The bytes after the headers, without the first `skipped` of them."""
    cdef View view
    cdef Reader reader
    open_view(buf, &view)
    try:
        skip_headers(&reader, &view, timed)
        return copy_bytes(reader.here + skipped, left(&reader) - skipped)
    finally:
        close_view(&view)


def raw_plain_value(buf):
    """The plain value of ``varint(H) headers[H] ts:i64 value``; the headers are not decoded.

    Parameters
    ----------
    buf : bytes-like or None

    Returns
    -------
    bytes or None
        None when `buf` is None.

    Raises
    ------
    FormatError
        If the size is malformed, negative or too large, or fewer than 8 bytes follow the headers.
    """
    return None if buf is None else tail(buf, True, 8)


def raw_timestamped_value(buf):
    """The ``ts:i64 value`` of ``varint(H) headers[H] ts:i64 value``; see `raw_plain_value`."""
    return None if buf is None else tail(buf, True, 0)


def raw_aggregation(buf):
    """The aggregation of ``varint(H) headers[H] aggregation``; the headers are not decoded.

    Raises
    ------
    FormatError
        If the size is malformed, negative or larger than what follows.
    """
    return None if buf is None else tail(buf, False, 0)


def raw_headers_timestamp_prefix(buf):
    """The ``varint(H) headers[H] ts:i64`` in front of a value; see `raw_plain_value`."""
    cdef View view
    cdef Reader reader
    if buf is None:
        return None
    open_view(buf, &view)
    try:
        skip_headers(&reader, &view, True)
        return copy_bytes(view.data, reader.here + 8 - view.data)
    finally:
        close_view(&view)


def raw_timestamp(buf):
    """The timestamp, in ms, of ``varint(H) headers[H] ts:i64 value``; see `raw_plain_value`."""
    cdef View view
    cdef Reader reader
    if buf is None:
        return None
    open_view(buf, &view)
    try:
        skip_headers(&reader, &view, True)
        return load_i64(reader.here)
    finally:
        close_view(&view)


def has_empty_headers(buf):
    """Return True if a row with headers starts with the size 0, written as the one byte 00."""
    cdef View view
    open_view(buf, &view)
    try:
        return view.size > 0 and view.data[0] == 0
    finally:
        close_view(&view)
