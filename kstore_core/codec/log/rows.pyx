# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Rows of a store to records of its changelog and back (docs/changelogs.md), many at a time.

A record has the row's key and the value without timestamp and headers. The row's timestamp and
headers become those of the record.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.string cimport memset

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

from kstore_core.errors import FormatError


cdef int row_layout(object name, Layout *layout) except -1:
    layout.headed = layout.timed = False
    return 0 if name == "plain" else layout_of(name, layout)


# ---------------------------------------------------------------- rows to records

cdef Fault split_row(Reader *reader, const Layout *layout, Slot *slot) noexcept nogil:
    """Fill in value, timestamp and headers. Check the headers, which users of a record read."""
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
    """The changelog records of rows.

    Parameters
    ----------
    keys : sequence of bytes-like
        The keys of the rows; for windows and sessions they include the times.
    rows : sequence of bytes-like or None
        The stored values, in `layout`; None is a delete.
    layout : {"plain", "value_and_timestamp", "value_timestamp_headers", \
"aggregation_with_headers"}
    first_offset : int
        The offset of the first record; the others follow without gaps.
    timestamps : sequence of int, optional
        Milliseconds: the time of the version or of the input record. Needed for rows that store no
        timestamp.
    headers : sequence of headers or None, optional
        The headers of the input records; used only for deletes, if `layout` has headers.

    Returns
    -------
    RecordColumns

    Raises
    ------
    FormatError
        A row does not have this layout. The text names the row.
    ValueError
        The sequences differ in length, or a row has no timestamp.
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
            raise ValueError(f"{what}: {len(others)} of them, but there are {count} keys")
    if count:
        columns.check_next(offset)
        columns.make_room(count)
    for i in range(count):
        key, row = as_bytes(keys[i], "key"), as_bytes(rows[i], "row")
        if key is None:
            raise TypeError(f"row {i}: a changelog's record has a key, not None")
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
                raise ValueError(f"row {i} keeps no timestamp, and none is given")
            slot.timestamp = as_i64(timestamps[i], "timestamp")
        columns.sources.append(key)
        columns.sources.append(row)
        columns.push(&slot)
    return columns


cdef int32_t sized(Py_ssize_t size, Py_ssize_t index) except -1:
    if size > INT32_MAX:
        raise FormatError(f"row {index}: {size} bytes are over the log's 2**31 - 1")
    return <int32_t>size


cdef int add_headers(RecordColumns columns, Slot *slot, object headers) except -1:
    """Encode the headers of a delete."""
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
        raise FormatError(f"the record at offset {slot.offset} has no key; a changelog's has one")
    return 0


def log_to_rows(columns, layout):
    """The rows of changelog records.

    Parameters
    ----------
    columns : RecordColumns
    layout : {"plain", "value_and_timestamp", "value_timestamp_headers", \
"aggregation_with_headers"}

    Returns
    -------
    tuple of (list of bytes, list of bytes or None)
        Keys, and values in `layout`; None for a tombstone.

    Raises
    ------
    FormatError
        A record has no key; names its offset.
    """
    cdef RecordColumns source = <RecordColumns?>columns
    cdef Layout how
    cdef const Slot *slot
    cdef Py_ssize_t i
    cdef bytes row
    row_layout(layout, &how)
    keys = []
    rows = []
    for i in range(source.length):
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
