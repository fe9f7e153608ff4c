# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The class `RecordColumns`, which holds many log records without an object for each record."""

cimport cython
from cpython cimport array
from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT64_MAX
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy

from kstore_core.codec.primitives.buffers cimport (
    Scratch, View, address, close_scratch, close_view, copy_bytes, new_bytes, open_scratch,
    open_view,
)
from kstore_core.codec.headers.encoding cimport collect_headers
from kstore_core.codec.headers.headers cimport lazy_headers
from kstore_core.codec.primitives.integers cimport as_i64
from kstore_core.codec.log.record cimport LogRecord, as_bytes, new_record

import array

from kstore_core.errors import FormatError

cdef array.array LONGS = array.array("q")


@cython.final
cdef class RecordColumns:
    """A sequence of log records in columns. Each access to a record makes a `LogRecord` object.

    `decode_record_columns` decodes bytes to columns, and `encode_record_columns` encodes columns to
    bytes. The columns contain the offsets and the timestamps of the records. The columns share the
    bytes of the keys, values and headers with the input.

    Notes
    -----
    A thread must not append records while another thread reads the columns.
    """

    def __cinit__(self):
        self.sources = []

    def __dealloc__(self):
        free(self.slots)

    def append(self, offset, timestamp, key, value, headers=None):
        """Add a record at the end.

        Parameters
        ----------
        offset : int
            The offset of the record. It must not be negative, and must be greater than the previous
            offset.
        timestamp : int
            The time in milliseconds since the epoch, or -1 if the time is unknown.
        key, value : bytes-like or None
            The key and the value of the record. A record with the value None is a tombstone.
        headers : Headers, iterable of (str, bytes-like or None), or None, optional
            The headers of the record.

        Raises
        ------
        ValueError
            If `offset` is not greater than the previous offset.
        TypeError
            If `key` or `value` is neither bytes-like nor None, or if `encode_headers` raises a
            TypeError for `headers`.
        FormatError
            If `key` or `value` exceeds 2**31 - 1 bytes, or if `encode_headers` raises a FormatError
            for `headers`.
        """
        cdef Slot slot
        cdef Scratch scratch
        cdef const uint8_t *data = NULL
        cdef Py_ssize_t size = 0
        slot.offset = as_i64(offset, "offset")
        slot.timestamp = as_i64(timestamp, "timestamp")
        self.check_next(slot.offset)
        key_bytes = as_bytes(key, "key")
        slot.key = part(key_bytes, &slot.key_size)
        value_bytes = as_bytes(value, "value")
        slot.value = part(value_bytes, &slot.value_size)
        self.make_room(1)
        open_scratch(&scratch)
        try:
            source = collect_headers(headers, &scratch, &data, &size)
            if source is None and size:
                source = copy_bytes(data, size)
                data = address(source)
        finally:
            close_scratch(&scratch)
        slot.headers = data
        slot.header_size = <int32_t>size
        self.sources += (key_bytes, value_bytes, source)
        self.push(&slot)

    def extend(self, other, first_offset):
        """Add the records of `other` at the end. The added records get new offsets without gaps.

        Parameters
        ----------
        other : RecordColumns
            The records to add. Their bytes are shared, not copied.
        first_offset : int
            The new offset of the first added record. It must not be negative, and must be greater
            than the previous offset.

        Raises
        ------
        ValueError
            If `first_offset` is not greater than the previous offset.
        """
        cdef RecordColumns more = <RecordColumns?>other
        cdef int64_t offset = as_i64(first_offset, "first_offset")
        cdef Slot slot
        cdef Py_ssize_t i
        cdef Py_ssize_t count = more.length     # `other` may be self, which grows
        if count == 0:
            return
        self.check_next(offset)
        self.make_room(count)
        for i in range(count):
            slot = more.slots[i]
            slot.offset = offset + i
            self.push(&slot)
        self.sources += more.sources

    @property
    def next_offset(self):
        """int: the offset after the last record, even if that record was removed."""
        return self.end

    @property
    def stopped_at(self):
        """int: the size of the complete batches in the input, in bytes."""
        return self.stop

    @property
    def payload_bytes(self):
        """int: the size of all keys, values and headers in bytes."""
        return self.payload

    @property
    def offsets(self):
        """array.array of int64: the offset of each record."""
        cdef array.array numbers = array.clone(LONGS, self.length, False)
        cdef Py_ssize_t i
        for i in range(self.length):
            numbers.data.as_longlongs[i] = self.slots[i].offset
        return numbers

    @property
    def timestamps(self):
        """array.array of int64: the timestamp of each record in milliseconds since the epoch."""
        cdef array.array numbers = array.clone(LONGS, self.length, False)
        cdef Py_ssize_t i
        for i in range(self.length):
            numbers.data.as_longlongs[i] = self.slots[i].timestamp
        return numbers

    @property
    def earliest(self):
        """int or None: the least timestamp (ms); None if there are no records."""
        cdef Py_ssize_t i
        cdef int64_t least = INT64_MAX
        for i in range(self.length):
            least = min(least, self.slots[i].timestamp)
        return least if self.length else None

    @property
    def keys(self):
        """list of (bytes or None): the key of each record."""
        cdef Py_ssize_t i
        return [taken(self.slots[i].key, self.slots[i].key_size) for i in range(self.length)]

    @property
    def values(self):
        """list of (bytes or None): the value of each record; None for a tombstone."""
        cdef Py_ssize_t i
        return [taken(self.slots[i].value, self.slots[i].value_size) for i in range(self.length)]

    @property
    def null_keys(self):
        """int: the number of records without a key."""
        cdef Py_ssize_t i
        cdef Py_ssize_t count = 0
        for i in range(self.length):
            count += self.slots[i].key_size < 0
        return count

    @property
    def tombstones(self):
        """bytes: one byte for each record; 1 if the value of the record is None, otherwise 0."""
        cdef bytes mask = new_bytes(self.length)
        cdef Py_ssize_t i
        for i in range(self.length):
            address(mask)[i] = self.slots[i].value_size < 0
        return mask

    def with_header_bytes(self, part):
        """Return the indexes of the records whose encoded headers contain the bytes `part`.

        Use this method to find records that may have a certain header key. The method decodes no
        headers. Check the headers of the result, because a header value may contain the same bytes.

        Returns
        -------
        list of int
        """
        cdef View view
        cdef Py_ssize_t i
        cdef list found = []
        open_view(part, &view)
        try:
            for i in range(self.length):
                if contains(&self.slots[i], view.data, view.size):
                    found.append(i)
        finally:
            close_view(&view)
        return found

    def with_key(self, key):
        """Return the indexes of the records with this key.

        Returns
        -------
        list of int
        """
        cdef View view
        cdef Py_ssize_t i
        cdef list found = []
        open_view(key, &view)
        try:
            for i in range(self.length):
                if self.slots[i].key_size == view.size and (
                    memcmp(self.slots[i].key, view.data, view.size) == 0
                ):
                    found.append(i)
        finally:
            close_view(&view)
        return found

    def chosen(self, mask):
        """Return the records whose byte in `mask` is not 0.

        The result shares the bytes of the records.

        Parameters
        ----------
        mask : bytes-like
            One byte for each record.

        Returns
        -------
        RecordColumns

        Raises
        ------
        ValueError
            If the size of `mask` is not the number of records.
        """
        cdef RecordColumns some = RecordColumns()
        cdef View view
        cdef Py_ssize_t i
        open_view(mask, &view)
        try:
            if view.size != self.length:
                raise ValueError(f"mask has {view.size} bytes, but there are {self.length} records")
            some.make_room(self.length)
            for i in range(self.length):
                if view.data[i]:
                    some.push(&self.slots[i])
        finally:
            close_view(&view)
        some.sources = self.sources.copy()
        some.end, some.stop = self.end, self.stop
        return some

    def packed(self):
        """Copy the records so that all keys, values and headers are in one bytes object.

        The copy takes less memory if the records are only a part of the input, or if their parts
        are in many objects.
        """
        cdef RecordColumns same = RecordColumns()
        cdef bytes data = new_bytes(self.payload)
        cdef uint8_t *end = address(data)
        cdef Slot slot
        cdef Py_ssize_t i
        same.make_room(self.length)
        for i in range(self.length):
            slot = self.slots[i]
            slot.key = moved(&end, slot.key, slot.key_size)
            slot.value = moved(&end, slot.value, slot.value_size)
            slot.headers = moved(&end, slot.headers, slot.header_size)
            same.push(&slot)
        same.sources.append(data)
        same.end, same.stop = self.end, self.stop
        return same

    def __len__(self):
        return self.length

    def __getitem__(self, Py_ssize_t index):
        cdef const Slot *slot
        cdef bytes headers = b""
        cdef Py_ssize_t given = index
        if index < 0:
            index += self.length
        if not 0 <= index < self.length:
            raise IndexError(f"there is no record {given}; there are {self.length} records")
        slot = &self.slots[index]
        if slot.header_size:
            headers = copy_bytes(slot.headers, slot.header_size)
        return new_record(
            slot.offset,
            slot.timestamp,
            taken(slot.key, slot.key_size),
            taken(slot.value, slot.value_size),
            lazy_headers(headers, 0, slot.header_size),
        )

    def __iter__(self):
        cdef Py_ssize_t i
        for i in range(self.length):
            yield self[i]

    def __repr__(self):
        return f"<RecordColumns: {self.length} records before offset {self.end}>"

    cdef int make_room(self, Py_ssize_t more) except -1:
        """Make room for `more` slots. If the capacity must grow, it at least doubles."""
        cdef Py_ssize_t capacity = self.length + more
        cdef Slot *slots
        if capacity <= self.capacity:
            return 0
        capacity = max(capacity, 2 * self.capacity)
        slots = <Slot *>realloc(self.slots, capacity * sizeof(Slot))
        if slots is NULL:
            raise MemoryError(f"cannot allocate memory for {capacity} records")
        self.slots, self.capacity = slots, capacity
        return 0

    cdef void push(self, const Slot *slot) noexcept nogil:
        """Add a slot. The caller must have made room for it."""
        self.slots[self.length] = slot[0]
        self.length += 1
        self.payload += slot.header_size
        if slot.key_size > 0:
            self.payload += slot.key_size
        if slot.value_size > 0:
            self.payload += slot.value_size
        if slot.offset >= self.end:
            self.end = slot.offset + 1

    cdef int check_next(self, int64_t offset) except -1:
        if offset < 0 or offset < self.end or offset == INT64_MAX:
            raise ValueError(f"the offset must be {self.end} or greater, not {offset}")
        return 0


cdef bint contains(const Slot *slot, const uint8_t *part, Py_ssize_t size) noexcept nogil:
    """Return True if the headers of a record contain these bytes."""
    cdef const uint8_t *here = slot.headers
    cdef Py_ssize_t left = slot.header_size - size + 1
    cdef const uint8_t *found
    if size == 0:
        return True
    while left > 0:
        found = <const uint8_t *>memchr(here, part[0], left)
        if found is NULL:
            return False
        if memcmp(found, part, size) == 0:
            return True
        left -= found + 1 - here
        here = found + 1
    return False


cdef const uint8_t *part(bytes data, int32_t *size) except? NULL:
    """Return the address of a key or value, and set `size`; NULL and -1 for None."""
    if data is None:
        size[0] = -1
        return NULL
    if PyBytes_GET_SIZE(data) > INT32_MAX:
        raise FormatError(
            f"a key or value of {PyBytes_GET_SIZE(data)} bytes exceeds the limit of 2**31 - 1"
        )
    size[0] = <int32_t>PyBytes_GET_SIZE(data)
    return address(data)


cdef const uint8_t *moved(uint8_t **end, const uint8_t *data, int32_t size) noexcept nogil:
    """Copy bytes to `end`, and move `end` past the copy. Return the address of the copy."""
    cdef uint8_t *begin = end[0]
    if size > 0:
        memcpy(begin, data, size)
        end[0] += size
    return begin


cdef bytes taken(const uint8_t *data, int32_t size):
    return None if size < 0 else copy_bytes(data, size)
