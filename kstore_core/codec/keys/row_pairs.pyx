# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The row and the index row of a record in a time-ordered store with an index.

The first byte of a row is 00, and its times come first. The first byte of an index row is 01, and
its key comes first (docs/formats.md, Keys).
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from kstore_core.codec.primitives.buffers cimport address, new_bytes, put
from kstore_core.codec.keys.parts cimport KEY_FIRST, TIME_FIRST, Parts, take_apart

from kstore_core.errors import FormatError

cdef enum:
    WINDOW_TIMES = 8                # the start, before the key; the number stays at the end
    SESSION_TIMES = 16              # the end and the start
    NUMBER = 4


@cython.final
cdef class RowPairs:
    """The rows of window stores, or of session stores.

    Parameters
    ----------
    session : bool
    """

    def __cinit__(self, *, bint session):
        self.session = session
        self.leading = SESSION_TIMES if session else WINDOW_TIMES
        self.width = SESSION_TIMES if session else WINDOW_TIMES + NUMBER

    def __repr__(self):
        return f"RowPairs(session={self.session})"

    cpdef bytes index_of(self, bytes row):
        """The index row of a row; FormatError if `row` is not a row."""
        if row is None or PyBytes_GET_SIZE(row) <= self.width or row[0] != TIME_FIRST:
            raise no_row(row, self.session)
        return self._turned(
            row, KEY_FIRST, self.leading, PyBytes_GET_SIZE(row) - 1 - self.width
        )

    cpdef bytes row_of(self, bytes index):
        """The row of an index row; FormatError if `index` is not an index row."""
        if index is None or PyBytes_GET_SIZE(index) <= self.width or index[0] != KEY_FIRST:
            raise no_row(index, self.session)
        return self._turned(
            index, TIME_FIRST, PyBytes_GET_SIZE(index) - 1 - self.width, self.leading
        )

    cdef bytes _turned(self, bytes row, int prefix, Py_ssize_t first, Py_ssize_t second):
        """The row with another prefix, and with the next two parts, of these sizes, swapped."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(row)
        cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(row) + 1
        cdef bytes other = new_bytes(size)
        cdef uint8_t *here = address(other)
        here[0] = <uint8_t>prefix
        here = put(here + 1, data + first, second)
        here = put(here, data, first)
        put(here, data + first + second, size - 1 - first - second)
        return other

    def segment_time(self, bytes row not None):
        """The time in ms that selects the segment of a row or of its index row: a window's start
        or a session's end. Raises FormatError if the bytes are neither a row nor an index row."""
        cdef Parts parts
        self._take_apart(row, &parts)
        return parts.first

    def split(self, bytes row not None):
        """``(key, first, second)`` of a row or an index row: a window's start and its number, or a
        session's end and its start; FormatError if it is neither."""
        cdef Parts parts
        self._take_apart(row, &parts)
        return (
            <bytes>(<const char *>parts.key)[: parts.key_size],
            parts.first,
            parts.second if self.session else parts.number,
        )

    cdef int _take_apart(self, bytes row, Parts *parts) except -1:
        cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(row)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(row)
        if size == 0 or data[0] > KEY_FIRST or not take_apart(
            data, size, data[0], self.width, parts
        ):
            raise no_row(row, self.session)
        return 0


cdef object no_row(bytes row, bint session):
    if row is None:
        return TypeError("a key is bytes, not None")
    return FormatError(
        f"{row.hex()} is not the key of a time-ordered {'session' if session else 'window'} store",
        offset=0,
    )
