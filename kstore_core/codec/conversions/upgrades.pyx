# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Conversions of stored rows to a newer format (docs/formats.md, Conversions).

A conversion takes the key and value of a row and returns the value in the newer format. Unlike the
functions of `conversions.values`, which convert any bytes like Kafka, these conversions check the
row. They raise `FormatError` if a reader could not read the converted row.
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
    """A conversion that puts the same prefix in front of every value.

    A call takes the key and the value of a row, and returns the converted value.

    Parameters
    ----------
    prefix : bytes
        The bytes to put in front of a value.
    least_bytes : int
        The minimum size of a value in the older format; a shorter value raises `FormatError`.
    index_at : int
        The position of the key byte that marks an index row: 01 in an index row, 00 in any other
        row. The value of an index row is not changed. -1 if the store has no index rows.
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
        """Return the same conversion for keys with `size` more bytes at their beginning."""
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
    """Put empty headers (one byte 00) in front of each value in a row of a versioned store.

    If the key begins with the segment -1, the row contains the latest version as ``time value``.
    Any other row is a segment row. Each value in a segment row becomes one byte longer. Tombstones
    do not change.

    Raises
    ------
    FormatError
        If the key is too short to contain a segment, or if the row is damaged. The message names
        the key.
    """
    if len(key) < SEGMENT_BYTES:
        reason = f"the key has {len(key)} bytes, but needs at least {SEGMENT_BYTES} bytes"
        raise unreadable(key, reason, None)
    if not key.startswith(LATEST_PREFIX):
        try:
            return row_with_headers(value)
        except FormatError as error:
            raise unreadable(key, str(error), error.offset) from error
    if len(value) < TIME_BYTES:
        raise unreadable(key, f"a time of {TIME_BYTES} bytes is cut short: {len(value)} are left", 0)
    return value[:TIME_BYTES] + b"\x00" + value[TIME_BYTES:]


cdef bytes row_with_headers(bytes row):
    """Return a segment row with the byte 00 in front of every value."""
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
                raise FormatError("a value has 2**31 - 1 bytes, so headers cannot be added")
            values += size >= 0
        new = new_bytes(view.size + values)
        data = entry_at(&old, old.count)            # The values follow the entries, oldest first.
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
    """Return ``convert(key, value)`` for each row, in the order of the rows.

    Raises
    ------
    ValueError
        If the numbers of keys and values differ.
    FormatError
        If `convert` raises `FormatError` for a row.
    """
    cdef Py_ssize_t count = len(keys)
    cdef Py_ssize_t i
    cdef Prefix prefix
    if len(values) != count:
        raise ValueError(f"the lengths differ: {count} keys and {len(values)} values")
    if type(convert) is Prefix:
        prefix = <Prefix>convert
        return [prefix.value_of(<bytes?>keys[i], <bytes?>values[i]) for i in range(count)]
    return [convert(keys[i], values[i]) for i in range(count)]
