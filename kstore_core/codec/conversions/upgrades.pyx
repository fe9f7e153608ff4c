# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Stored rows converted to a newer format (docs/formats.md, Conversions).

A conversion takes the key and value of a row and returns the value in the newer format. The
functions of `values` convert any bytes, as Kafka does. The conversions here check the row, and
refuse one that could not be read afterwards.
"""

from libc.stdint cimport INT32_MAX, int32_t, uint8_t

from kstore_core.codec.primitives.buffers cimport View, address, close_view, new_bytes, put
from kstore_core.codec.keys.parts cimport KEY_FIRST
from kstore_core.codec.versions.row_layout cimport ENTRY_BYTES, HEAD_BYTES, Row, entry_at, entry_size
from kstore_core.codec.versions.row_writer cimport open_checked
from kstore_core.codec.primitives.wire cimport store_i32

from kstore_core.errors import FormatError

cdef enum:
    TIME_BYTES = 8              # the time in front of a value
    SEGMENT_BYTES = 8           # the segment id in front of a versioned key
    NO_INDEX = -1

cdef bytes LATEST_PREFIX = b"\xff" * SEGMENT_BYTES


cdef object unreadable(bytes key, str reason, object offset):
    return FormatError(f"the row of key {key!r} cannot be upgraded: {reason}", offset=offset)


cdef class Prefix:
    """A conversion that puts the same bytes in front of every value: ``convert(key, value)``.

    Parameters
    ----------
    prefix : bytes
    least_bytes : int
        The least size of a value of the older format.
    index_at : int
        The position in a key of the byte that is 01 in an index row. The value of an index row is
        not changed. -1 if there are no index rows.
    """

    cdef bytes prefix
    cdef Py_ssize_t least_bytes
    cdef Py_ssize_t index_at

    def __cinit__(
        self, bytes prefix not None, Py_ssize_t least_bytes=0, Py_ssize_t index_at=NO_INDEX
    ):
        self.prefix = prefix
        self.least_bytes = least_bytes
        self.index_at = index_at

    def behind(self, Py_ssize_t size):
        """The same conversion for rows whose keys begin with `size` other bytes."""
        if self.index_at == NO_INDEX:
            return self
        return Prefix(self.prefix, self.least_bytes, self.index_at + size)

    def __call__(self, bytes key not None, bytes value not None):
        return self.value_of(key, value)

    def __repr__(self):
        return f"<Prefix {self.prefix.hex()}>"

    cdef bytes value_of(self, bytes key, bytes value):
        if 0 <= self.index_at < len(key) and key[self.index_at] == KEY_FIRST:
            return value
        if len(value) < self.least_bytes:
            raise unreadable(
                key, f"a field of {self.least_bytes} bytes is cut short: {len(value)} are left", 0
            )
        return self.prefix + value


plain_to_timestamped = Prefix(b"\xff" * 8)
plain_to_headers = Prefix(b"\x00" + b"\xff" * 8)
timestamped_to_headers = Prefix(b"\x00", TIME_BYTES)
plain_to_session_headers = Prefix(b"\x00")
ordered_timestamped_to_headers = Prefix(b"\x00", TIME_BYTES, 0)
ordered_plain_to_session_headers = Prefix(b"\x00", 0, 0)


def versioned_to_headers(bytes key not None, bytes value not None):
    """A row of a versioned store with empty headers (one byte 00) in front of each value.

    A row whose key begins with the segment -1 is the latest version, ``time value``. Any other row is
    a segment row: the size of each of its values grows by one, and its tombstones do not change.

    Raises
    ------
    FormatError
        The key has no segment, or the row is damaged; the text names the key.
    """
    if len(key) < SEGMENT_BYTES:
        raise unreadable(key, f"a versioned key has at least {SEGMENT_BYTES} bytes", None)
    if not key.startswith(LATEST_PREFIX):
        try:
            return row_with_headers(value)
        except FormatError as error:
            raise unreadable(key, str(error), error.offset) from error
    if len(value) < TIME_BYTES:
        raise unreadable(key, f"a time of {TIME_BYTES} bytes is cut short: {len(value)} are left", 0)
    return value[:TIME_BYTES] + b"\x00" + value[TIME_BYTES:]


cdef bytes row_with_headers(bytes row):
    """A segment row in which every value begins with 00."""
    cdef View view
    cdef Row old
    cdef bytes new
    cdef uint8_t *entry
    cdef uint8_t *out
    cdef const uint8_t *data
    cdef Py_ssize_t i
    cdef Py_ssize_t values = 0
    cdef int32_t size
    open_checked(row, &view, &old)
    try:
        for i in range(old.count):
            size = entry_size(&old, i)
            if size == INT32_MAX:
                raise FormatError("a value of 2**31 - 1 bytes has no room for its headers")
            values += size >= 0
        new = new_bytes(view.size + values)
        data = entry_at(&old, old.count)            # the values follow the entries, oldest first
        out = put(address(new), view.data, data - view.data)
        for i in range(old.count - 1, -1, -1):
            size = entry_size(&old, i)
            if size < 0:
                continue
            entry = address(new) + HEAD_BYTES + i * ENTRY_BYTES
            store_i32(entry + TIME_BYTES, size + 1)
            out[0] = 0
            out = put(out + 1, data, size)
            data += size
        return new
    finally:
        close_view(&view)


def convert_rows(convert, list keys not None, list values not None):
    """The values of many rows, each by ``convert(key, value)``.

    Raises
    ------
    ValueError
        If there are more or fewer values than keys.
    FormatError
        If a conversion raises it.
    """
    cdef Py_ssize_t count = len(keys)
    cdef Py_ssize_t i
    cdef Prefix prefix
    if len(values) != count:
        raise ValueError(f"convert_rows: {count} keys and {len(values)} values")
    if type(convert) is Prefix:
        prefix = <Prefix>convert
        return [prefix.value_of(<bytes?>keys[i], <bytes?>values[i]) for i in range(count)]
    return [convert(keys[i], values[i]) for i in range(count)]
