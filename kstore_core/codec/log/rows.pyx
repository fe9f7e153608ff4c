# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Conversions between rows of a store and records of its changelog (docs/changelogs.md).

A stored value may contain a timestamp and headers. The record has the same key as its row. The
timestamp, the headers and the rest of the stored value are separate fields of the record.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kstore_core.codec.primitives.buffers cimport (
    Scratch, address, close_scratch, copy_bytes, new_bytes, open_scratch,
)
from kstore_core.codec.primitives.faults cimport raise_fault
from kstore_core.codec.headers.encoding cimport collect_headers
from kstore_core.codec.primitives.integers cimport as_i64
from kstore_core.codec.arrow.layouts cimport Layout, layout_of
from kstore_core.codec.log.record cimport as_bytes
from kstore_core.codec.log.columns cimport RecordColumns, Slot
from kstore_core.codec.primitives.wire cimport (
    SOUND, TRUNCATED_FIELD, Fault, Reader, left, load_i64, open_reader, read_size, walk_headers,
)

from kstore_core.engine.packed cimport PackedBytes, packed
from kstore_core.errors import FormatError


cdef int row_layout(object name, Layout *layout) except -1:
    layout.headed = layout.timed = False
    return 0 if name == "plain" else layout_of(name, layout)


# ---------------------------------------------------------------- rows to records

cdef Fault split_row(Reader *reader, const Layout *layout, Slot *slot) noexcept nogil:
    """Fill in the value, the timestamp and the headers of a row. Also check the encoded headers."""
    cdef Py_ssize_t size = 0
    cdef int32_t count = 0
    cdef Reader inner
    cdef Fault fault
    if layout.headed:
        fault = read_size(reader, 0, &size)
        if fault != SOUND:
            return fault
        inner = reader[0]
        inner.end = inner.here + size
        fault = walk_headers(&inner, &count)
        if fault != SOUND:
            reader[0] = inner
            return fault
        slot.headers, slot.header_size = reader.here, <int32_t>size
        reader.here += size
    if layout.timed:
        if left(reader) < 8:
            reader.number = 8
            return TRUNCATED_FIELD
        slot.timestamp = load_i64(reader.here)
        reader.here += 8
    slot.value = reader.here
    slot.value_size = <int32_t>left(reader)
    return SOUND


def rows_to_log(keys, rows, layout, *, first_offset, timestamps=None, headers=None):
    """Return the changelog records of rows.

    Parameters
    ----------
    keys : sequence of bytes-like
        The keys of the rows. In window and session stores these keys include the times.
    rows : sequence of bytes-like or None
        The stored values. None means that the row is deleted.
    layout : {"plain", "value_and_timestamp", "value_timestamp_headers", \
"aggregation_with_headers"}
        The format of the stored values.
    first_offset : int
        The offset of the first record. Each following record has the next offset.
    timestamps : sequence of int, optional
        The time (ms) of each row's version or input record. Required if `layout` has no timestamp,
        or if a row is deleted.
    headers : sequence of headers or None, optional
        The headers of the input records. They are used only for deleted rows, and only if `layout`
        has headers.

    Returns
    -------
    RecordColumns
        The records, which share the bytes of `keys` and `rows`.

    Raises
    ------
    FormatError
        If a stored value does not have this layout. The message names the row.
    ValueError
        If the sequences differ in length, or if a row has no timestamp and `timestamps` is None.
    """
    cdef RecordColumns columns = RecordColumns()
    cdef Layout how
    cdef Slot slot
    cdef Reader reader
    cdef Fault fault
    cdef Py_ssize_t i
    cdef Py_ssize_t count = len(keys)
    cdef int64_t offset = as_i64(first_offset, "first_offset")
    cdef bytes key, row
    row_layout(layout, &how)
    for what, others in (("rows", rows), ("timestamps", timestamps), ("headers", headers)):
        if others is not None and len(others) != count:
            raise ValueError(f"the lengths differ: {count} keys and {len(others)} {what}")
    if count:
        columns.check_next(offset)
        columns.make_room(count)
    for i in range(count):
        key, row = as_bytes(keys[i], "key"), as_bytes(rows[i], "row")
        if key is None:
            raise TypeError(f"row {i}: the key is None, but a changelog record must have a key")
        memset(&slot, 0, sizeof(Slot))
        slot.offset = offset + i
        slot.key, slot.key_size = address(key), sized(len(key), i)
        if row is None:
            slot.value_size = -1
            if how.headed and headers is not None:
                add_headers(columns, &slot, headers[i])
        else:
            sized(len(row), i)
            open_reader(&reader, address(row), len(row))
            fault = split_row(&reader, &how, &slot)
            if fault != SOUND:
                raise_fault(fault, &reader, f"row {i}")
        if row is None or not how.timed:
            if timestamps is None:
                raise ValueError(f"row {i} has no timestamp; pass the timestamps of the rows as timestamps=")
            slot.timestamp = as_i64(timestamps[i], "timestamp")
        columns.sources.append(key)
        columns.sources.append(row)
        columns.push(&slot)
    return columns


cdef int32_t sized(Py_ssize_t size, Py_ssize_t index) except -1:
    if size > INT32_MAX:
        raise FormatError(f"row {index}: {size} bytes exceed the limit of 2**31 - 1")
    return <int32_t>size


cdef int add_headers(RecordColumns columns, Slot *slot, object headers) except -1:
    """Encode the headers of a deleted row, and set them in its slot."""
    cdef Scratch scratch
    cdef const uint8_t *data = NULL
    cdef Py_ssize_t size = 0
    cdef bytes own
    open_scratch(&scratch)
    try:
        collect_headers(headers, &scratch, &data, &size)
        own = copy_bytes(data, size)
    finally:
        close_scratch(&scratch)
    columns.sources.append(own)
    slot.headers, slot.header_size = address(own), <int32_t>size
    return 0


# ---------------------------------------------------------------- records to rows

cdef int refuse_null_key(const Slot *slot) except -1:
    if slot.key_size < 0:
        raise FormatError(
            f"the record at offset {slot.offset} has no key; a changelog record must have a key"
        )
    return 0


def log_to_rows(columns, layout):
    """Return the keys and stored values of changelog records.

    Parameters
    ----------
    columns : RecordColumns
        The records.
    layout : {"plain", "value_and_timestamp", "value_timestamp_headers", \
"aggregation_with_headers"}
        The format of the stored values in the result.

    Returns
    -------
    tuple of (list of bytes, list of bytes or None)
        The keys, and the stored values. The value of a tombstone is None.

    Raises
    ------
    FormatError
        If a record has no key. The message names the offset of the record.
    """
    cdef RecordColumns source = <RecordColumns?>columns
    cdef Layout how
    cdef const Slot *slot
    cdef Py_ssize_t i
    cdef bytes row
    cdef list keys = [], rows = []
    row_layout(layout, &how)
    for i in range(source.length):
        if i + AHEAD < source.length:  # records often have another order than their bytes in memory
            prefetch_slot(&source.slots[i + AHEAD])
        slot = &source.slots[i]
        refuse_null_key(slot)
        keys.append(copy_bytes(slot.key, slot.key_size))
        if slot.value_size < 0:
            rows.append(None)
            continue
        row = new_bytes(row_size(slot, &how))
        write_row(address(row), slot, &how)
        rows.append(row)
    return keys, rows


def refuse_null_keys(columns):
    """Raise a FormatError if a record has no key. The message names the offset of the record."""
    cdef RecordColumns source = <RecordColumns?>columns
    cdef Py_ssize_t i
    for i in range(source.length):
        refuse_null_key(&source.slots[i])


def log_to_packed_rows(columns, layout, Py_ssize_t start, Py_ssize_t stop):
    """Return the rows of changelog records in packed form; :func:`log_to_rows` returns lists.

    In packed form, one buffer contains all keys or all values. The other parameters and the errors
    are those of :func:`log_to_rows`.

    Parameters
    ----------
    start, stop : int
        The range of the records to convert. `stop` is exclusive.

    Returns
    -------
    tuple of (PackedBytes, PackedBytes, list of bytes)
        The keys of the records with a value, their stored values, and the keys of the tombstones.
    """
    cdef RecordColumns source = <RecordColumns?>columns
    cdef Layout how
    cdef const Slot *slot
    cdef Py_ssize_t i, count = 0, key_bytes = 0, row_bytes = 0
    cdef Py_ssize_t without_key = -1
    cdef PackedBytes keys, rows
    cdef uint8_t *key_end
    cdef uint8_t *row_end
    cdef list deleted = []
    row_layout(layout, &how)
    start, stop = max(start, 0), min(stop, source.length)
    with nogil:
        for i in range(start, stop):
            if i + AHEAD < stop:
                prefetch_slot(&source.slots[i + AHEAD])
            slot = &source.slots[i]
            if slot.key_size < 0:
                without_key = i
                break
            if slot.value_size >= 0:
                count += 1
                key_bytes += slot.key_size
                row_bytes += row_size(slot, &how)
    if without_key >= 0:
        refuse_null_key(&source.slots[without_key])
    if count < stop - start:
        for i in range(start, stop):
            slot = &source.slots[i]
            if slot.value_size < 0:
                deleted.append(copy_bytes(slot.key, slot.key_size))
    keys, rows = packed(count, key_bytes), packed(count, row_bytes)
    key_end, row_end = keys.memory.data, rows.memory.data
    with nogil:
        count = 0
        for i in range(start, stop):
            slot = &source.slots[i]
            if slot.value_size < 0:
                continue
            memcpy(key_end, slot.key, slot.key_size)
            key_end += slot.key_size
            row_end = write_row(row_end, slot, &how)
            count += 1
            keys.memory.ends[count] = key_end - keys.memory.data
            rows.memory.ends[count] = row_end - rows.memory.data
    return keys, rows, deleted
