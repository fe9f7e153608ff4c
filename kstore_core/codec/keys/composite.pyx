# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Composite keys (docs/formats.md, Keys): a key with the times of its window, session or segment.

All integers are big-endian and signed, so keys of times from 0 on sort by time. Times are
milliseconds since the epoch. A key of None or of a type that is not bytes-like is a TypeError, a
number that does not fit its field an OverflowError.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore_core.codec.primitives.buffers cimport (
    View, address, close_view, copy_bytes, new_bytes, open_view, put,
)
from kstore_core.codec.primitives.integers cimport as_i32, as_i64
from kstore_core.codec.keys.parts cimport NO_PREFIX, KEY_FIRST, TIME_FIRST, Parts, take_apart
from kstore_core.codec.primitives.wire cimport load_i64, store_i32, store_i64
from kstore_core.codec.values.with_timestamp cimport stamped

from kstore_core.errors import FormatError

cdef struct Times:
    int64_t first       # the window's start, or the session's end
    int64_t second      # the session's start
    int32_t number      # the sequence number that tells duplicates apart
    int width           # their size in bytes: 8, 12 (first, number) or 16 (first, second)


cdef uint8_t *store_rest(uint8_t *here, const Times *times) noexcept:
    if times.width == 16:
        return store_i64(here, times.second)
    if times.width == 12:
        return store_i32(here, times.number)
    return here


cdef bytes composed(object key, const Times *times, int prefix):
    """Write the prefix, and then the key and the times in the order that the prefix means."""
    cdef View view
    cdef bytes row
    cdef uint8_t *here
    open_view(key, &view)
    try:
        row = new_bytes((prefix != NO_PREFIX) + view.size + times.width)
        here = address(row)
        if prefix != NO_PREFIX:
            here[0] = <uint8_t>prefix
            here += 1
        if prefix == TIME_FIRST:
            here = store_i64(here, times.first)
            if times.width == 16:                   # end, start, key
                here = store_rest(here, times)
                put(here, view.data, view.size)
            else:                                   # start, key, number
                here = put(here, view.data, view.size)
                store_rest(here, times)
        else:
            here = put(here, view.data, view.size)
            here = store_i64(here, times.first)
            store_rest(here, times)
        return row
    finally:
        close_view(&view)


cdef bytes decomposed(object row, Times *times, int prefix, str what):
    """Return the key in `row`, and fill in `times`, whose width the caller has set."""
    cdef View view
    cdef Parts parts
    open_view(row, &view)
    try:
        if not take_apart(view.data, view.size, prefix, times.width, &parts):
            raise no_key(view.data, view.size, prefix, times.width, what)
        times.first = parts.first
        times.second = parts.second
        times.number = parts.number
        return copy_bytes(parts.key, parts.key_size)
    finally:
        close_view(&view)


cdef object no_key(
    const uint8_t *data, Py_ssize_t size, int prefix, int width, str what
):
    """The error for bytes that `take_apart` refuses."""
    cdef Py_ssize_t least = width + (prefix != NO_PREFIX)
    if size < least:
        return FormatError(
            f"{what}: {size} bytes, but its times alone take {least}", offset=size
        )
    return FormatError(f"{what}: starts with {data[0]:02x} instead of {prefix:02x}", offset=0)


cdef bytes window(object key, object start, object seq, int width, int prefix):
    cdef Times times
    times.first = as_i64(start, "start")
    times.number = as_i32(seq, "seq")
    times.width = width
    return composed(key, &times, prefix)


cdef tuple split_window(object row, int prefix, str what):
    cdef Times times
    times.width = 12
    key = decomposed(row, &times, prefix, what)
    return key, times.first, times.number


cdef bytes session(object key, object start, object end, int prefix):
    cdef Times times
    times.first = as_i64(end, "end")
    times.second = as_i64(start, "start")
    times.width = 16
    return composed(key, &times, prefix)


cdef tuple split_session(object row, int prefix, str what):
    cdef Times times
    times.width = 16
    key = decomposed(row, &times, prefix, what)
    return key, times.second, times.first


# ---------------------------------------------------------------- windows

def window_key(key, start, seq=0):
    """The key of a window store and of its changelog: ``key start:i64 seq:i32``.

    Parameters
    ----------
    key : bytes-like
    start : int
        The window's start, milliseconds.
    seq : int, default 0
        The sequence number, 32 bits: distinguishes the values of one key and window in a store that
        retains duplicates.

    Returns
    -------
    bytes
        The key, 12 bytes longer than `key`.

    Raises
    ------
    TypeError
        If `key` is not bytes-like.
    OverflowError
        If `start` does not fit 64 bits or `seq` 32.
    """
    return window(key, start, seq, 12, NO_PREFIX)


def split_window_key(row):
    """``(key, start, seq)`` of a `window_key`; FormatError if it is shorter than 12 bytes."""
    return split_window(row, NO_PREFIX, "window key")


def windowed_key(key, start):
    """The key of a windowed record in a topic: ``key start:i64``, without a sequence number."""
    return window(key, start, 0, 8, NO_PREFIX)


def split_windowed_key(row):
    """``(key, start)`` of a `windowed_key`; FormatError if it is shorter than 8 bytes."""
    cdef Times times
    times.width = 8
    key = decomposed(row, &times, NO_PREFIX, "windowed key")
    return key, times.first


def time_first_window_key(key, start, seq=0):
    """The row key of a time-ordered window store: ``00 start:i64 key seq:i32``."""
    return window(key, start, seq, 12, TIME_FIRST)


def split_time_first_window_key(row):
    """``(key, start, seq)`` of a `time_first_window_key`; FormatError if it is not one."""
    return split_window(row, TIME_FIRST, "time-first window key")


def key_first_window_key(key, start, seq=0):
    """The index key of a time-ordered window store: ``01 key start:i64 seq:i32``."""
    return window(key, start, seq, 12, KEY_FIRST)


def split_key_first_window_key(row):
    """``(key, start, seq)`` of a `key_first_window_key`; FormatError if it is not one."""
    return split_window(row, KEY_FIRST, "key-first window key")


# ---------------------------------------------------------------- sessions

def session_key(key, start, end):
    """The key of a session store and of its changelog: ``key end:i64 start:i64``, the end first.

    Parameters
    ----------
    key : bytes-like
    start, end : int
        The times of the session's first and last record, milliseconds, both inclusive.

    Returns
    -------
    bytes
        16 bytes longer than `key`.

    Raises
    ------
    TypeError
        If `key` is not bytes-like.
    OverflowError
        If `start` or `end` does not fit 64 bits.
    """
    return session(key, start, end, NO_PREFIX)


def split_session_key(row):
    """``(key, start, end)`` of a `session_key`; FormatError if it is shorter than 16 bytes."""
    return split_session(row, NO_PREFIX, "session key")


def time_first_session_key(key, start, end):
    """The row key of a time-ordered session store: ``00 end:i64 start:i64 key``."""
    return session(key, start, end, TIME_FIRST)


def split_time_first_session_key(row):
    """``(key, start, end)`` of a `time_first_session_key`; FormatError if it is not one."""
    return split_session(row, TIME_FIRST, "time-first session key")


def key_first_session_key(key, start, end):
    """The index key of a time-ordered session store: ``01 key end:i64 start:i64``."""
    return session(key, start, end, KEY_FIRST)


def split_key_first_session_key(row):
    """``(key, start, end)`` of a `key_first_session_key`; FormatError if it is not one."""
    return split_session(row, KEY_FIRST, "key-first session key")


# ---------------------------------------------------------------- versioned rows

def versioned_key(segment, key):
    """The row key of a versioned store: ``segment:i64 key``; segment -1 holds the latest rows."""
    return stamped(key, as_i64(segment, "segment"))


def split_versioned_key(row):
    """``(segment, key)`` of a `versioned_key`; FormatError if it is shorter than 8 bytes."""
    cdef View view
    open_view(row, &view)
    try:
        if view.size < 8:
            raise FormatError(
                f"versioned key: {view.size} bytes, but its segment alone takes 8",
                offset=view.size,
            )
        return load_i64(view.data), copy_bytes(view.data + 8, view.size - 8)
    finally:
        close_view(&view)
