# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Conversions between rows and index rows of a time-ordered store with an index.

The key of a row begins with the byte 00 and the times. The key of an index row begins with the byte
01 and the user's key (docs/formats.md, Keys).
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from kstore_core.codec.primitives.buffers cimport address, new_bytes, put
from kstore_core.codec.keys.parts cimport KEY_FIRST, TIME_FIRST, Parts, take_apart

from kstore_core.errors import FormatError

cdef enum:
    WINDOW_TIMES = 8                # the start precedes the key; the sequence number is always last
    SESSION_TIMES = 16              # the end and the start precede the key
    NUMBER = 4


@cython.final
cdef class RowPairs:
    """A converter between the keys of rows and the keys of index rows.

    Parameters
    ----------
    session : bool
        True for the keys of session stores, False for the keys of window stores.
    """

    def __cinit__(self, *, bint session):
        self.session = session
        self.leading = SESSION_TIMES if session else WINDOW_TIMES
        self.width = SESSION_TIMES if session else WINDOW_TIMES + NUMBER

    def __repr__(self):
        return f"RowPairs(session={self.session})"

    cpdef bytes index_of(self, bytes row):
        """Return the index row's key for the key of a row.

        Raise FormatError if `row` is not the key of a row.
        """
        if row is None or PyBytes_GET_SIZE(row) <= self.width or row[0] != TIME_FIRST:
            raise no_row(row, self.session)
        return self._turned(
            row, KEY_FIRST, self.leading, PyBytes_GET_SIZE(row) - 1 - self.width
        )

    cpdef bytes row_of(self, bytes index):
        """Return the row's key for the key of an index row.

        Raise FormatError if `index` is not the key of an index row.
        """
        if index is None or PyBytes_GET_SIZE(index) <= self.width or index[0] != KEY_FIRST:
            raise no_row(index, self.session)
        return self._turned(
            index, TIME_FIRST, PyBytes_GET_SIZE(index) - 1 - self.width, self.leading
        )

    cdef bytes _turned(self, bytes row, int prefix, Py_ssize_t first, Py_ssize_t second):
        """Return `row` with the first byte `prefix`, and with the two parts after it swapped.

        The first part has `first` bytes, and the second part has `second` bytes.
        """
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
        """Return the time (ms) that determines the segment of a row.

        This time is the start of a window or the end of a session. Raise FormatError if `row` is
        neither the key of a row nor the key of an index row.
        """
        cdef Parts parts
        self._take_apart(row, &parts)
        return parts.first

    def split(self, bytes row not None):
        """Return the user's key and the two numbers in the key of a row or of an index row.

        The numbers of a window key are the start of the window and the sequence number. The numbers
        of a session key are the end and the start of the session. Raise FormatError if `row` is
        neither the key of a row nor the key of an index row.
        """
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
        return TypeError("a key must be bytes, not None")
    return FormatError(
        f"{row.hex()} is not the key of a time-ordered {'session' if session else 'window'} store",
        offset=0,
    )
