# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Filters for the rows of a range of keys and times in a window or session store.

A stored key has no length in front of it. So a byte range that contains every wanted row may also
contain rows of other keys. A :class:`KeyFilter` removes these rows.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from kstore_core.codec.keys.parts cimport NO_PREFIX, Parts, take_apart
from kstore_core.engine.ordered cimport close_chunks

from kstore_core.errors import FormatError

cdef enum:
    WINDOW_WIDTH = 12
    SESSION_WIDTH = 16


@cython.final
cdef class KeyLayout:
    """The positions of the user's key and the times in the stored keys of a store.

    Parameters
    ----------
    session : bool
        True if a stored key contains the end and the start of a session. False if it contains the
        start of a window and a sequence number.
    prefix : int
        The first byte of a stored key: 0 if the times precede the user's key, 1 if the times follow
        it. -1 if there is no such byte; the times then follow the user's key.
    """

    def __cinit__(self, *, bint session, int prefix=NO_PREFIX):
        if not -1 <= prefix <= 1:
            raise ValueError(f"prefix must be -1, 0 or 1, not {prefix}")
        self.prefix = prefix
        self.session = session
        self.width = SESSION_WIDTH if session else WINDOW_WIDTH

    def __repr__(self):
        return f"KeyLayout(session={self.session}, prefix={self.prefix})"

    def segment_time(self, bytes row not None):
        """Return the time (ms) that determines the segment of a row.

        This time is the start of a window or the end of a session. Raise FormatError if the row
        does not have this layout.
        """
        cdef Parts parts
        self.parts(row, &parts)
        return parts.first

    def split(self, bytes row not None):
        """Return the user's key and the two numbers in a row key.

        The numbers of a window row are the start of the window and the sequence number. The numbers
        of a session row are the end and the start of the session. Raise FormatError if the row does
        not have this layout.
        """
        cdef Parts parts
        self.parts(row, &parts)
        return (
            <bytes>(<const char *>parts.key)[: parts.key_size],
            parts.first,
            parts.second if self.session else parts.number,
        )

    cdef int parts(self, bytes row, Parts *parts) except -1:
        if not take_apart(
            <const uint8_t *>PyBytes_AS_STRING(row), PyBytes_GET_SIZE(row),
            self.prefix, self.width, parts
        ):
            raise FormatError(
                f"{row.hex()} is not the key of a {'session' if self.session else 'window'} store",
                offset=0,
            )
        return 0


@cython.final
cdef class KeyFilter:
    """A filter that passes the rows of a range of keys and times.

    Parameters
    ----------
    layout : KeyLayout
        The layout of the rows.
    key_from, key_to : bytes or None
        The first and the last key, both inclusive. None means no limit.
    earliest, latest : int
        The limits of a window's start or a session's end (ms), both inclusive.
    latest_start : int
        The latest start of a session (ms), inclusive; not used for windows.
    """

    def __cinit__(self, *_):
        self.prefix = NO_PREFIX         # valid values for an object whose __init__ is never called
        self.width = SESSION_WIDTH

    def __init__(
        self, KeyLayout layout not None, bytes key_from, bytes key_to,
        int64_t earliest, int64_t latest, int64_t latest_start,
    ):
        self.prefix = layout.prefix
        self.width = layout.width
        self.key_from = key_from
        self.key_to = key_to
        self.earliest = earliest
        self.latest = latest
        self.latest_start = latest_start

    cdef bint lets_pass(self, bytes row) except -1:
        cdef Parts parts
        if not take_apart(
            <const uint8_t *>PyBytes_AS_STRING(row), PyBytes_GET_SIZE(row),
            self.prefix, self.width, &parts
        ):
            return False
        return (
            self.earliest <= parts.first <= self.latest
            and parts.second <= self.latest_start
            and (self.key_from is None or compared(&parts, self.key_from) >= 0)
            and (self.key_to is None or compared(&parts, self.key_to) <= 0)
        )

    cpdef FilteredChunks chunks(self, rows):
        """Return an iterator over the chunks of `rows`, without the rows outside the range.

        A chunk is a pair of lists ``(keys, values)``. Closing the result closes `rows`.
        """
        return FilteredChunks(self, rows)


cdef KeyFilter one_key(
    KeyLayout layout, bytes key, int64_t earliest, int64_t latest, int64_t latest_start
):
    """Make a filter that passes the rows of one key.

    The function does not call `__init__`, so it is faster than `KeyFilter(...)`.
    """
    cdef KeyFilter rows = KeyFilter.__new__(KeyFilter)
    rows.prefix = layout.prefix
    rows.width = layout.width
    rows.key_from = rows.key_to = key
    rows.earliest = earliest
    rows.latest = latest
    rows.latest_start = latest_start
    return rows


cdef int compared(const Parts *parts, bytes key) noexcept:
    """Compare the key of a row with `key`. Return a negative number, 0 or a positive number."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
    cdef Py_ssize_t shared = min(size, parts.key_size)
    cdef int order = memcmp(parts.key, PyBytes_AS_STRING(key), shared) if shared else 0
    if order:
        return order
    return (parts.key_size > size) - (parts.key_size < size)


@cython.final
cdef class FilteredChunks:
    def __cinit__(self, KeyFilter rows not None, below):
        self.rows = rows
        self.below = below

    def __iter__(self):
        return self

    def __next__(self):
        cdef list keys, values, passed_keys, passed_values
        cdef Py_ssize_t at, count
        while True:
            chunk = next(self.below, None)
            if chunk is None:
                raise StopIteration
            keys, values = chunk
            count = len(keys)
            at = 0
            while at < count and self.rows.lets_pass(<bytes?>keys[at]):
                at += 1
            if at == count:
                if count:
                    return keys, values
                continue
            passed_keys = keys[:at]
            passed_values = values[:at]
            for at in range(at + 1, count):
                if self.rows.lets_pass(<bytes?>keys[at]):
                    passed_keys.append(keys[at])
                    passed_values.append(values[at])
            if passed_keys:
                return passed_keys, passed_values

    def close(self):
        """Close the unfiltered chunks."""
        close_chunks(self.below)


def last_row_of(bytes key not None, bytes suffix not None):
    """Return the greatest possible row of the keys up to and including `key`.

    A row consists of a key and its times, and `suffix` contains the greatest times. The result is
    not always ``key + suffix``. A prefix of `key` sorts before `key`. But the times follow a key
    directly, so a row of the prefix may sort after the rows of `key`. The function therefore
    compares the rows of all prefixes of `key`. A comparison reads at most ``len(suffix)`` bytes.
    """
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(key)
    cdef const uint8_t *times = <const uint8_t *>PyBytes_AS_STRING(suffix)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
    cdef Py_ssize_t width = PyBytes_GET_SIZE(suffix)
    cdef Py_ssize_t best = 0            # the size of the prefix whose row is the greatest so far
    cdef Py_ssize_t longer, at
    cdef uint8_t byte
    for longer in range(1, size + 1):
        for at in range(width):
            byte = data[best + at] if best + at < longer else times[best + at - longer]
            if byte != times[at]:
                if byte > times[at]:
                    best = longer
                break
        else:
            best = longer
    return key[:best] + suffix
