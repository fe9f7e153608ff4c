# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions that build and split composite keys (docs/formats.md, Keys).

A composite key contains a key, and either the times of its window or session, or its segment. Times
are milliseconds since the epoch. All integers are signed and big-endian, so the keys sort by time
if no time is negative. A key that is not bytes-like raises a TypeError. A number that does not fit
its field raises an OverflowError.
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
    int32_t number      # the sequence number, which distinguishes duplicates
    int width           # size in bytes: 8 (first), 12 (first, number) or 16 (first, second)


cdef uint8_t *store_rest(uint8_t *here, const Times *times) noexcept:
    if times.width == 16:
        return store_i64(here, times.second)
    if times.width == 12:
        return store_i32(here, times.number)
    return here


cdef bytes composed(object key, const Times *times, int prefix):
    """Return the prefix, followed by the key and the times in the order that the prefix defines."""
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
    """Return the key in `row`, and fill in `times`. The caller must first set `times.width`."""
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
    """Return the error for bytes that `take_apart` cannot split."""
    cdef Py_ssize_t least = width + (prefix != NO_PREFIX)
    if size < least:
        return FormatError(
            f"{what}: {size} bytes are too few; at least {least} are needed", offset=size
        )
    return FormatError(f"{what}: the first byte is {data[0]:02x} instead of {prefix:02x}", offset=0)


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
    """Return a key of a window store and its changelog: ``key start:i64 seq:i32``.

    Parameters
    ----------
    key : bytes-like
        The user's key.
    start : int
        The start of the window in milliseconds.
    seq : int, default 0
        The sequence number. It distinguishes the values of one key and window in a store that
        retains duplicates.

    Returns
    -------
    bytes
        The composite key, 12 bytes longer than `key`.

    Raises
    ------
    TypeError
        If `key` is not bytes-like.
    OverflowError
        If `start` does not fit 64 bits, or `seq` does not fit 32 bits.
    """
    return window(key, start, seq, 12, NO_PREFIX)


def split_window_key(row):
    """Return ``(key, start, seq)`` from a `window_key`.

    Raise FormatError if `row` is shorter than 12 bytes.
    """
    return split_window(row, NO_PREFIX, "window key")


def windowed_key(key, start):
    """Return the key of a windowed record in a topic: ``key start:i64``."""
    return window(key, start, 0, 8, NO_PREFIX)


def split_windowed_key(row):
    """Return ``(key, start)`` from a `windowed_key`.

    Raise FormatError if `row` is shorter than 8 bytes.
    """
    cdef Times times
    times.width = 8
    key = decomposed(row, &times, NO_PREFIX, "windowed key")
    return key, times.first


def time_first_window_key(key, start, seq=0):
    """Return the key of a row in a time-ordered window store: ``00 start:i64 key seq:i32``."""
    return window(key, start, seq, 12, TIME_FIRST)


def split_time_first_window_key(row):
    """Return ``(key, start, seq)`` from a `time_first_window_key`.

    Raise FormatError if `row` is too short or does not begin with 00.
    """
    return split_window(row, TIME_FIRST, "time-first window key")


def key_first_window_key(key, start, seq=0):
    """Return the index key of a time-ordered window store: ``01 key start:i64 seq:i32``."""
    return window(key, start, seq, 12, KEY_FIRST)


def split_key_first_window_key(row):
    """Return ``(key, start, seq)`` from a `key_first_window_key`.

    Raise FormatError if `row` is too short or does not begin with 01.
    """
    return split_window(row, KEY_FIRST, "key-first window key")


# ---------------------------------------------------------------- sessions

def session_key(key, start, end):
    """Return a key of a session store and its changelog: ``key end:i64 start:i64``.

    Parameters
    ----------
    key : bytes-like
        The user's key.
    start, end : int
        The times of the session's first and last record in milliseconds.

    Returns
    -------
    bytes
        The composite key, 16 bytes longer than `key`.

    Raises
    ------
    TypeError
        If `key` is not bytes-like.
    OverflowError
        If `start` or `end` does not fit 64 bits.
    """
    return session(key, start, end, NO_PREFIX)


def split_session_key(row):
    """Return ``(key, start, end)`` from a `session_key`.

    Raise FormatError if `row` is shorter than 16 bytes.
    """
    return split_session(row, NO_PREFIX, "session key")


def time_first_session_key(key, start, end):
    """Return the key of a row in a time-ordered session store: ``00 end:i64 start:i64 key``."""
    return session(key, start, end, TIME_FIRST)


def split_time_first_session_key(row):
    """Return ``(key, start, end)`` from a `time_first_session_key`.

    Raise FormatError if `row` is too short or does not begin with 00.
    """
    return split_session(row, TIME_FIRST, "time-first session key")


def key_first_session_key(key, start, end):
    """Return the index key of a time-ordered session store: ``01 key end:i64 start:i64``."""
    return session(key, start, end, KEY_FIRST)


def split_key_first_session_key(row):
    """Return ``(key, start, end)`` from a `key_first_session_key`.

    Raise FormatError if `row` is too short or does not begin with 01.
    """
    return split_session(row, KEY_FIRST, "key-first session key")


# ---------------------------------------------------------------- versioned rows

def versioned_key(segment, key):
    """Return the key of a row in a versioned store: ``segment:i64 key``.

    The latest version of a key is in segment -1.
    """
    return stamped(key, as_i64(segment, "segment"))


def split_versioned_key(row):
    """Return ``(segment, key)`` from a `versioned_key`.

    Raise FormatError if `row` is shorter than 8 bytes.
    """
    cdef View view
    open_view(row, &view)
    try:
        if view.size < 8:
            raise FormatError(
                f"versioned key: {view.size} bytes are too few; at least 8 are needed",
                offset=view.size,
            )
        return load_i64(view.data), copy_bytes(view.data + 8, view.size - 8)
    finally:
        close_view(&view)
