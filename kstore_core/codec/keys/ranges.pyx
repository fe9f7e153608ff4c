# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The rows of a window or session store that a fetch reads: a range of bytes, then a filter.

Keys have no length in front of them, so a range of bytes with every row of some keys and times
may contain rows of other keys. A :class:`KeyFilter` leaves those out.
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
    """The positions of the key and the times in a row.

    Parameters
    ----------
    session : bool
        The times are those of a session: its end and its start. Otherwise a window's start and a
        sequence number.
    prefix : int
        The first byte of a row: 0 if the times come first, 1 if the key does; -1 for a row without
        a prefix, whose key comes first.
    """

    def __cinit__(self, *, bint session, int prefix=NO_PREFIX):
        if not -1 <= prefix <= 1:
            raise ValueError(f"a prefix is -1, 0 or 1, not {prefix}")
        self.prefix = prefix
        self.session = session
        self.width = SESSION_WIDTH if session else WINDOW_WIDTH

    def __repr__(self):
        return f"KeyLayout(session={self.session}, prefix={self.prefix})"

    def segment_time(self, bytes row not None):
        """The time that selects a row's segment (ms): a window's start, a session's end.

        Raises
        ------
        FormatError
            The row is not of this layout.
        """
        cdef Parts parts
        self.parts(row, &parts)
        return parts.first

    def split(self, bytes row not None):
        """``(key, first, second)`` of a row: a window's start and its number, or a session's end
        and its start; FormatError as for `segment_time`."""
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
    """A filter of the rows of a range of keys and times; every end is inclusive.

    Parameters
    ----------
    layout : KeyLayout
    key_from, key_to : bytes or None
        None leaves an end open.
    earliest, latest : int
        Bounds of a window's start or a session's end (ms).
    latest_start : int
        The latest start of a session (ms); unused for windows.
    """

    def __cinit__(self, *_):
        self.prefix = NO_PREFIX         # if __init__ is never called
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
        """The chunks of an iterator of ``(keys, values)``, without the rows of other keys.

        Closing the result closes ``rows``.
        """
        return FilteredChunks(self, rows)


cdef KeyFilter one_key(
    KeyLayout layout, bytes key, int64_t earliest, int64_t latest, int64_t latest_start
):
    """A filter of the rows of one key, made without a call through Python."""
    cdef KeyFilter rows = KeyFilter.__new__(KeyFilter)
    rows.prefix = layout.prefix
    rows.width = layout.width
    rows.key_from = rows.key_to = key
    rows.earliest = earliest
    rows.latest = latest
    rows.latest_start = latest_start
    return rows


cdef int compared(const Parts *parts, bytes key) noexcept:
    """Negative, zero or positive if the key of the row sorts before, at or after `key`."""
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
        """Close the chunks below."""
        close_chunks(self.below)


def last_row_of(bytes key not None, bytes suffix not None):
    """The greatest row of a key up to `key` whose times are `suffix`, the greatest possible times.

    A proper prefix of a key sorts before it, but the row of the prefix may sort after the rows of
    the longer key, because its times follow directly. So the row of every prefix is compared; each
    comparison takes at most the bytes of `suffix`.
    """
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(key)
    cdef const uint8_t *times = <const uint8_t *>PyBytes_AS_STRING(suffix)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
    cdef Py_ssize_t width = PyBytes_GET_SIZE(suffix)
    cdef Py_ssize_t best = 0            # the size of the key's part before the times
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
