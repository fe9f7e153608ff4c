# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""What is left of the stored rows of a format in an older one, which cannot hold all of them.

The way back from `upgrades`; a store goes it only into a new one (docs/migrate.md).
"""

from libc.stdint cimport int32_t, uint8_t

from kstore_core.codec.primitives.buffers cimport View, address, close_view, copy_bytes, new_bytes, put
from kstore_core.codec.primitives.faults cimport raise_fault
from kstore_core.codec.keys.parts cimport KEY_FIRST
from kstore_core.codec.versions.row_layout cimport ENTRY_BYTES, HEAD_BYTES, Row, entry_at, entry_size
from kstore_core.codec.versions.row_writer cimport open_checked
from kstore_core.codec.primitives.wire cimport (
    SOUND,
    TRUNCATED_FIELD,
    Fault,
    Reader,
    left,
    load_i64,
    open_reader,
    read_count,
    read_size,
    store_i32,
)

from kstore_core.errors import FormatError

cdef enum:
    TIME_BYTES = 8              # the time in front of a value
    SEGMENT_BYTES = 8           # the segment id in front of a versioned key
    NO_INDEX = -1
    UNKNOWN = -1                # the time of a value that was stored without one

cdef bytes LATEST_PREFIX = b"\xff" * SEGMENT_BYTES


cdef class Strip:
    """Takes headers or timestamps off stored values, and counts what is lost with them.

    Parameters
    ----------
    headers : bool
        Whether values begin with headers, which go.
    timestamp : bool
        Whether a timestamp comes then, which goes, too.
    least_bytes : int
        What has to be left of a value.
    versioned : bool
        Whether the rows are those of a versioned store.
    index_at : int
        Where in a key the byte stands that is 01 in an index row, whose value stays as it is; -1
        where there are no such rows.

    Attributes
    ----------
    headers : int
        How many headers have been taken off.
    headed : int
        How many values had any.
    timestamps : int
        How many timestamps have been taken off, but for those that are -1, unknown.
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
        """What is left of the values of many rows.

        Raises
        ------
        ValueError
            There are not as many values as keys.
        FormatError
            A value is not of the format; the text names its key.
        """
        cdef Py_ssize_t count = len(keys)
        cdef Py_ssize_t i
        if len(values) != count:
            raise ValueError(f"rows: {count} keys and {len(values)} values")
        return [self._value(<bytes?>keys[i], <bytes?>values[i]) for i in range(count)]

    cdef bytes _value(self, bytes key, bytes value):
        try:
            if not self._versioned:
                if 0 <= self._index_at < len(key) and key[self._index_at] == KEY_FIRST:
                    return value
                return self._stripped(value, 0)
            if len(key) < SEGMENT_BYTES:
                raise FormatError(f"a versioned key has at least {SEGMENT_BYTES} bytes")
            if key.startswith(LATEST_PREFIX):
                return self._stripped(value, TIME_BYTES)
            return self._segment_row(value)
        except FormatError as error:
            raise FormatError(
                f"the row of key {key!r} cannot be converted: {error}", offset=error.offset
            ) from error

    cdef bytes _stripped(self, bytes value, Py_ssize_t kept):
        """The value without what goes, but with the bytes in front that are kept."""
        cdef Py_ssize_t size = len(value)
        cdef Py_ssize_t skipped
        cdef bytes new
        if size < kept:
            raise FormatError(f"a field of {kept} bytes is cut short: {size} are left", offset=0)
        skipped = self._skipped(address(value) + kept, size - kept)
        new = new_bytes(size - skipped)
        put(address(new), address(value), kept)
        put(address(new) + kept, address(value) + kept + skipped, size - kept - skipped)
        return new

    cdef bytes _segment_row(self, bytes row):
        """A segment row without the headers of each of its values."""
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
            data = entry_at(&old, old.count)        # the values follow the entries, oldest first
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
        """How many bytes go; what they held is counted."""
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
