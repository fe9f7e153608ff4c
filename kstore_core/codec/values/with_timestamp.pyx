# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions for stored values with a timestamp and for latest rows (docs/formats.md, Values)."""

from libc.stdint cimport int64_t

from kstore_core.codec.primitives.buffers cimport (
    View, address, close_view, copy_bytes, new_bytes, open_view, put,
)
from kstore_core.codec.primitives.faults cimport raise_fault
from kstore_core.codec.primitives.integers cimport as_i64
from kstore_core.codec.primitives.wire cimport TRUNCATED_FIELD, Reader, load_i64, open_reader, store_i64


cdef bytes stamped(object value, int64_t timestamp):
    cdef View view
    cdef bytes row
    open_view(value, &view)
    try:
        row = new_bytes(8 + view.size)
        put(store_i64(address(row), timestamp), view.data, view.size)
        return row
    finally:
        close_view(&view)


cdef tuple unstamped(object buf, str what):
    cdef View view
    cdef Reader reader
    open_view(buf, &view)
    try:
        if view.size < 8:
            open_reader(&reader, view.data, view.size)
            reader.number = 8
            raise_fault(TRUNCATED_FIELD, &reader, what)
        return copy_bytes(view.data + 8, view.size - 8), load_i64(view.data)
    finally:
        close_view(&view)


def encode_value_and_timestamp(value, timestamp):
    """Encode a value with its timestamp: ``ts:i64 value``.

    Timestamped stores contain such values (KIP-258).

    Parameters
    ----------
    value : bytes-like or None
        The value.
    timestamp : int
        The time in milliseconds since the epoch, or -1 if the time is unknown.

    Returns
    -------
    bytes or None
        The stored value. None if `value` is None.

    Raises
    ------
    TypeError
        If `value` is neither bytes-like nor None.
    OverflowError
        If `timestamp` does not fit 64 bits.
    """
    if value is None:
        return None
    return stamped(value, as_i64(timestamp, "timestamp"))


def decode_value_and_timestamp(buf):
    """Decode ``ts:i64 value``.

    Parameters
    ----------
    buf : bytes-like or None

    Returns
    -------
    tuple of (bytes, int) or None
        The value and the timestamp in milliseconds. None if `buf` is None.

    Raises
    ------
    FormatError
        If `buf` is shorter than 8 bytes.
    """
    if buf is None:
        return None
    return unstamped(buf, "value with timestamp")


def encode_latest(timestamp, value):
    """Encode the latest row of a versioned store (KIP-889): ``validFrom:i64 value``.

    Parameters
    ----------
    timestamp : int
        The time from which the version is valid, in milliseconds since the epoch.
    value : bytes-like
        The value. It cannot be None, because a deleted key has no latest row.

    Raises
    ------
    TypeError
        If `value` is not bytes-like.
    """
    return stamped(value, as_i64(timestamp, "timestamp"))


def decode_latest(buf):
    """Decode the latest row of a versioned store.

    Returns
    -------
    tuple of (int, bytes)
        The time in milliseconds from which the version is valid, and the value.

    Raises
    ------
    FormatError
        If `buf` is shorter than 8 bytes.
    """
    value, timestamp = unstamped(buf, "latest row of a versioned store")
    return timestamp, value
