# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Conversions of stored rows to an older format, which has no headers or no timestamps.

A downgrade removes headers or timestamps from the values, and so reverses a conversion in
`upgrades`. A store is never downgraded in place: a migration writes the converted rows to a new
store (docs/migrate.md).
"""

from libc.stdint cimport int32_t, uint8_t

from kstore_core.codec.primitives.buffers cimport View, address, close_view, copy_bytes, new_bytes, put
from kstore_core.codec.primitives.faults cimport raise_fault
from kstore_core.codec.keys.parts cimport KEY_FIRST
from kstore_core.codec.versions.row_layout cimport ENTRY_BYTES, HEAD_BYTES, Row, entry_at, entry_size
from kstore_core.codec.versions.row_writer cimport open_checked
from kstore_core.codec.primitives.wire cimport (
    SOUND, TRUNCATED_FIELD, Fault, Reader, left, load_i64, open_reader, read_count, read_size,
    store_i32,
)

from kstore_core.errors import FormatError

cdef enum:
    TIME_BYTES = 8              # the time in front of a value
    SEGMENT_BYTES = 8           # the segment id in front of a versioned key
    NO_INDEX = -1
    UNKNOWN = -1                # the stored time if the time of a value is unknown

cdef bytes LATEST_PREFIX = b"\xff" * SEGMENT_BYTES


cdef class Strip:
    """A conversion that removes headers or timestamps from stored values. It counts the removals.

    Parameters
    ----------
    headers : bool
        True if every value begins with headers, which are removed.
    timestamp : bool
        True if every value contains a timestamp, at its beginning or after its headers. The
        timestamp is removed.
    least_bytes : int
        The minimum number of bytes after the headers, if `timestamp` is False.
    versioned : bool
        True if the rows belong to a versioned store.
    index_at : int
        The position of the key byte that marks an index row: 01 in an index row, 00 in any other
        row. The value of an index row is not changed. -1 if the store has no index rows.

    Attributes
    ----------
    headers : int
        The number of removed headers.
    headed : int
        The number of values from which at least one header was removed.
    timestamps : int
        The number of removed timestamps. Timestamps of -1 (unknown) are not counted.
    """

    cdef readonly long long headers, headed, timestamps
    cdef bint _headers, _timestamp, _versioned
    cdef Py_ssize_t _least, _index_at

    def __cinit__(
        self,
        *,
        bint headers,
        bint timestamp=False,
        Py_ssize_t least_bytes=0,
        bint versioned=False,
        Py_ssize_t index_at=NO_INDEX,
    ):
        self._headers = headers
        self._timestamp = timestamp
        self._least = least_bytes
        self._versioned = versioned
        self._index_at = index_at

    def rows(self, list keys not None, list values not None):
        """Return the converted values of rows, in the order of the rows.

        Raises
        ------
        ValueError
            If the numbers of keys and values differ.
        FormatError
            If a value does not have the format of the store. The message names the key.
        """
        cdef Py_ssize_t count = len(keys)
        cdef Py_ssize_t i
        if len(values) != count:
            raise ValueError(f"the lengths differ: {count} keys and {len(values)} values")
        return [self._value(<bytes?>keys[i], <bytes?>values[i]) for i in range(count)]

    cdef bytes _value(self, bytes key, bytes value):
        try:
            if not self._versioned:
                if 0 <= self._index_at < len(key) and key[self._index_at] == KEY_FIRST:
                    return value
                return self._stripped(value, 0)
            if len(key) < SEGMENT_BYTES:
                raise FormatError(f"the key has {len(key)} bytes, but needs at least {SEGMENT_BYTES} bytes")
            if key.startswith(LATEST_PREFIX):
                return self._stripped(value, TIME_BYTES)
            return self._segment_row(value)
        except FormatError as error:
            raise FormatError(
                f"the row of key {key!r} cannot be converted: {error}", offset=error.offset
            ) from error

    cdef bytes _stripped(self, bytes value, Py_ssize_t prefix):
        """Return the converted value. The first `prefix` bytes do not change."""
        cdef Py_ssize_t size = len(value)
        cdef Py_ssize_t skipped
        cdef bytes new
        if size < prefix:
            raise FormatError(f"a field of {prefix} bytes is cut short: {size} are left", offset=0)
        skipped = self._skipped(address(value) + prefix, size - prefix)
        new = new_bytes(size - skipped)
        put(address(new), address(value), prefix)
        put(address(new) + prefix, address(value) + prefix + skipped, size - prefix - skipped)
        return new

    cdef bytes _segment_row(self, bytes row):
        """Return a segment row without the headers of its values."""
        cdef View view
        cdef Row old
        cdef bytes new
        cdef uint8_t *out
        cdef const uint8_t *data
        cdef Py_ssize_t i, skipped
        cdef int32_t size
        open_checked(row, &view, &old)
        try:
            new = new_bytes(view.size)
            data = entry_at(&old, old.count)        # The values follow the entries, oldest first.
            out = put(address(new), view.data, data - view.data)
            for i in range(old.count - 1, -1, -1):
                size = entry_size(&old, i)
                if size < 0:
                    continue
                skipped = self._skipped(data, size)
                store_i32(
                    address(new) + HEAD_BYTES + i * ENTRY_BYTES + TIME_BYTES,
                    <int32_t>(size - skipped),
                )
                out = put(out, data + skipped, size - skipped)
                data += size
            return copy_bytes(address(new), out - address(new))
        finally:
            close_view(&view)

    cdef Py_ssize_t _skipped(self, const uint8_t *data, Py_ssize_t size) except -1:
        """Return the number of bytes to remove, and count the headers and timestamps among them."""
        cdef Reader reader, inside
        cdef Py_ssize_t length = 0
        cdef int32_t count = 0
        cdef Fault fault = SOUND
        open_reader(&reader, data, size)
        if self._headers:
            fault = read_size(&reader, 0, &length)
            if fault != SOUND:
                raise_fault(fault, &reader, "value with headers")
            if length:
                open_reader(&inside, reader.here, length)
                fault = read_count(&inside, &count)
                if fault != SOUND:
                    raise_fault(fault, &inside, "headers")
                reader.here += length
        if left(&reader) < (TIME_BYTES if self._timestamp else self._least):
            reader.number = TIME_BYTES if self._timestamp else self._least
            raise_fault(TRUNCATED_FIELD, &reader, "value")
        if self._timestamp:
            self.timestamps += load_i64(reader.here) != UNKNOWN
            reader.here += TIME_BYTES
        self.headers += count
        self.headed += count > 0
        return reader.here - data
