# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Conversions between changelog records and Arrow columns (docs/changelogs.md)."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from kstore_core.codec.arrow.input cimport (
    Column, Texts, Times, is_set, open_column, text_at, text_valid,
)
from kstore_core.codec.arrow.output cimport (
    TextsOut, TimesOut, allocate_texts, allocate_times, end_text, free_texts, free_times, null_text,
    texts_array, times_array,
)
from kstore_core.codec.primitives.buffers cimport put
from kstore_core.codec.primitives.integers cimport as_i64
from kstore_core.codec.arrow.layouts cimport Layout
from kstore_core.codec.log.rows cimport (
    AHEAD, prefetch_slot, refuse_null_key, row_layout, row_size, sized, write_row,
)
from kstore_core.codec.log.columns cimport RecordColumns, Slot
from kstore_core.codec.primitives.wire cimport Reader, open_reader, read_size

from kstore_core.codec.arrow.encoder import encode_header_lists


def arrow_to_log(keys, values, timestamps, headers=None, *, first_offset):
    """Make changelog records from Arrow columns of keys, values, timestamps and headers.

    Parameters
    ----------
    keys, values : Arrow array of binary
        The keys and values of the records. A null value is a tombstone.
    timestamps : Arrow array of int64 (milliseconds) or of timestamps in ms
        The timestamps of the records.
    headers : Arrow array of list<struct<key: string, value: binary>>, optional
        The headers of the records. If None, no record has headers.
    first_offset : int
        The offset of the first record. Each following record has the next offset.

    Returns
    -------
    RecordColumns
        The records. They share the bytes of the columns.

    Raises
    ------
    TypeError
        If a column is not an Arrow array of one of the types above.
    ValueError
        If the columns differ in length, if a timestamp is null, or if the unit of the timestamps is
        not milliseconds.
    FormatError
        If a header or the key of a header is null.
    """
    cdef RecordColumns columns = RecordColumns()
    cdef Texts key_texts, value_texts, header_texts
    cdef Times times
    cdef Slot slot
    cdef Reader reader
    cdef Py_ssize_t size = 0
    cdef int64_t i
    cdef int64_t offset = as_i64(first_offset, "first_offset")
    cdef Column key_column = open_column(keys, "keys")
    cdef Column value_column = open_column(values, "values")
    cdef Column time_column = open_column(timestamps, "timestamps")
    cdef Column header_column
    key_column.as_texts(&key_texts, "keys", True)
    value_column.as_texts(&value_texts, "values", True)
    time_column.as_times(&times, "timestamps")
    if not key_texts.length == value_texts.length == times.length:
        raise ValueError(
            f"the lengths differ: {key_texts.length} keys, {value_texts.length} values and "
            f"{times.length} timestamps"
        )
    if times.multiply != 1 or times.divide != 1:
        raise ValueError("timestamps: the unit must be milliseconds; cast the column first")
    columns.sources += (key_column, value_column)
    if headers is not None:
        header_column = open_column(encode_header_lists(headers, key_texts.length), "headers")
        header_column.as_texts(&header_texts, "headers", False)
        columns.sources.append(header_column)
    if key_texts.length:
        columns.check_next(offset)
        columns.make_room(key_texts.length)
    for i in range(key_texts.length):
        if not is_set(&times.valid, i):
            raise ValueError(f"row {i} has no timestamp")
        memset(&slot, 0, sizeof(Slot))
        slot.offset, slot.timestamp = offset + i, times.data[i]
        slot.key_size = slot.value_size = -1
        if text_valid(&key_texts, i):
            slot.key = text_at(&key_texts, i, &size)
            slot.key_size = sized(size, i)
        if text_valid(&value_texts, i):
            slot.value = text_at(&value_texts, i, &size)
            slot.value_size = sized(size, i)
        if headers is not None:
            slot.headers = text_at(&header_texts, i, &size)
            open_reader(&reader, slot.headers, size)
            read_size(&reader, 0, &size)
            slot.headers, slot.header_size = reader.here, <int32_t>size
        columns.push(&slot)
    return columns


def log_to_arrow(columns, layout):
    """Convert changelog records to Arrow columns of rows. `log_to_rows` returns lists instead.

    The parameters are those of `log_to_rows`.

    Returns
    -------
    tuple of pyarrow.Array
        The keys (binary), the stored values (binary, null for a tombstone) and the timestamps of
        the records (int64, milliseconds).

    Raises
    ------
    FormatError
        If a record has no key.
    OverflowError
        If all keys, or all stored values, exceed 2**31 - 1 bytes in total.
    """
    cdef RecordColumns source = <RecordColumns?>columns
    cdef Layout how
    cdef TextsOut keys, rows
    cdef TimesOut times
    cdef const Slot *slot
    cdef Py_ssize_t i
    cdef int64_t key_bytes = 0
    cdef int64_t row_bytes = 0
    row_layout(layout, &how)
    for i in range(source.length):
        slot = &source.slots[i]
        refuse_null_key(slot)
        key_bytes += slot.key_size
        if slot.value_size >= 0:
            row_bytes += row_size(slot, &how)
    memset(&keys, 0, sizeof(TextsOut))
    memset(&rows, 0, sizeof(TextsOut))
    memset(&times, 0, sizeof(TimesOut))
    try:
        allocate_texts(&keys, source.length, key_bytes, False)
        allocate_texts(&rows, source.length, row_bytes, False)
        allocate_times(&times, source.length)
        # This block keeps the GIL, so no other thread can append records meanwhile.
        write_columns(source, &how, &keys, &rows, &times)
        return texts_array(&keys, False), texts_array(&rows, False), times_array(&times)
    finally:
        free_texts(&keys)
        free_texts(&rows)
        free_times(&times)


cdef void write_columns(
    RecordColumns source, const Layout *layout, TextsOut *keys, TextsOut *rows, TimesOut *times
) noexcept nogil:
    cdef Py_ssize_t i
    cdef const Slot *slot
    for i in range(source.length):
        if i + AHEAD < source.length:
            prefetch_slot(&source.slots[i + AHEAD])
        slot = &source.slots[i]
        times.data[i] = slot.timestamp
        put(keys.data + keys.written, slot.key, slot.key_size)
        keys.written += slot.key_size
        end_text(keys, i)
        if slot.value_size < 0:
            null_text(rows, i)
            continue
        rows.written = write_row(rows.data + rows.written, slot, layout) - rows.data
        end_text(rows, i)
