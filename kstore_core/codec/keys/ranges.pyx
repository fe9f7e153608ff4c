# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Which rows of a window or session store a fetch reads: by bytes first, and then exactly.

Keys have no length in front of them, so a range of bytes that holds every row of some keys and
times holds strangers too. A :class:`KeyFilter` leaves those out.
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
    """Where the key and the times of a row stand.

    Parameters
    ----------
    session : bool
        The times are those of a session: its end and its start. Otherwise a window's start and a
        sequence number.
    prefix : int
        The first byte of a row: 0 where the times come first, 1 where the key does; -1 for a row
        without one, whose key comes first.
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
        """The time that a row's segment is of (ms): a window's start, a session's end.

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
    """Lets the rows of a range of keys and times pass; every end is inclusive.

    Parameters
    ----------
    layout : KeyLayout
    key_from, key_to : bytes or None
        None leaves an end open.
    earliest, latest : int
        Of the time that a segment is of: a window's start, a session's end (ms).
    latest_start : int
        Of a session's start (ms); of no use to windows.
    """

    def __cinit__(self, *_):
        self.prefix = NO_PREFIX         # of a filter that was never initialised
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
        """The chunks of an iterator of ``(keys, values)``, without the strangers.

        Closing it closes what it reads.
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
    """Below 0, 0 or above, as the key of the row sorts before, at or after `key`."""
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
        cdef list keys, values, kept_keys, kept_values
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
            kept_keys = keys[:at]
            kept_values = values[:at]
            for at in range(at + 1, count):
                if self.rows.lets_pass(<bytes?>keys[at]):
                    kept_keys.append(keys[at])
                    kept_values.append(values[at])
            if kept_keys:
                return kept_keys, kept_values

    def close(self):
        """Let go of what is read."""
        close_chunks(self.below)


def last_row_of(bytes key not None, bytes suffix not None):
    """The greatest row of a key up to `key` whose times are `suffix`, the greatest there are.

    A proper prefix of a key sorts before it, yet its row, whose times follow at once, may sort
    after the rows of the longer one. So the row of every prefix is looked at; none needs more than
    the bytes of `suffix` to be compared.
    """
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(key)
    cdef const uint8_t *times = <const uint8_t *>PyBytes_AS_STRING(suffix)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
    cdef Py_ssize_t width = PyBytes_GET_SIZE(suffix)
    cdef Py_ssize_t best = 0            # how much of the key stands before the times
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
