# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Decode an Arrow column of stored values to Arrow columns of their parts, without the GIL."""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from kstore_core.codec.arrow.gather cimport Gathered, View, gathered
from kstore_core.codec.arrow.input cimport (
    Column, Texts, Times, is_set, open_column, text_at, text_valid,
)
from kstore_core.codec.arrow.output cimport (
    ListsOut, TextsOut, TimesOut, allocate_lists, allocate_texts, allocate_times, end_text,
    free_lists, free_texts, free_times, lists_array, null_list, null_text, null_time, texts_array,
    times_array,
)
from kstore_core.codec.primitives.buffers cimport copy_bytes, put
from kstore_core.codec.primitives.faults cimport raise_fault
from kstore_core.codec.arrow.layouts cimport Layout, layout_of
from kstore_core.codec.primitives.utf8 cimport is_ascii, repaired_utf8
from kstore_core.engine.packed cimport PackedBytes
from kstore_core.codec.primitives.wire cimport (
    SOUND, TRAILING_BYTES, TRUNCATED_FIELD, Fault, Reader, left, load_i64, open_reader, read_count,
    read_header, read_size,
)


cdef extern from "Python.h":
    PyObject *Py_None
    PyObject **PySequence_Fast_ITEMS(PyObject *sequence)
    int PyBytes_CheckExact(PyObject *data)
    # Both functions read fields of an object that does not change, so they need no GIL.
    Py_ssize_t PyBytes_GET_SIZE(PyObject *data) nogil
    char *PyBytes_AS_STRING(PyObject *data) nogil


cdef enum Headers:
    PARSED                      # lists of keys and values
    AS_BYTES                    # encoded bytes, not checked
    LEFT_OUT                    # no headers in the result; not checked


cdef struct Job:
    Layout layout
    Headers wanted
    bint parsed                 # True for headers as lists, False for headers as bytes
    PyObject **items            # the rows as bytes objects and None; NULL for other rows
    const View *views           # the rows as views; NULL for other rows
    bint plain_keys             # all header keys are ASCII
    Texts rows
    int64_t values              # size of all values in bytes
    int64_t raw_headers         # size of all encoded headers in bytes
    int64_t headers             # number of headers in all rows
    int64_t keys                # size of all header keys in bytes
    int64_t header_values       # size of all header values in bytes
    int64_t row                 # index of the row that is being checked; at a fault, the bad row
    Reader reader


cdef inline Fault measure_headers(Job *job, Reader *reader) noexcept nogil:
    """Check the header bytes of one row, and add up the sizes of its headers."""
    cdef int32_t count = 0
    cdef int32_t i
    cdef const uint8_t *key = NULL, *value = NULL
    cdef Py_ssize_t key_size = 0, value_size = 0
    cdef Fault fault
    if reader.here == reader.end:
        return SOUND
    fault = read_count(reader, &count)
    if fault != SOUND:
        return fault
    for i in range(count):
        fault = read_header(reader, &key, &key_size, &value, &value_size)
        if fault != SOUND:
            return fault
        if is_ascii(key, key_size):
            job.keys += key_size
        else:
            job.plain_keys = False
            job.keys += repaired_utf8(key, key_size, NULL)
        if value_size > 0:
            job.header_values += value_size
    if reader.here != reader.end:
        reader.number = reader.end - reader.here
        return TRAILING_BYTES
    job.headers += count
    return SOUND


cdef inline bint is_null(const Job *job, int64_t row) noexcept nogil:
    if job.items is not NULL:
        return job.items[row] is Py_None
    if job.views is not NULL:
        return job.views[row].size < 0
    return not text_valid(&job.rows, row)


cdef inline Fault open_row(
    const Job *job, int64_t row, Reader *reader, Py_ssize_t *headers
) noexcept nogil:
    """Open `reader` at the header bytes of a row, and set `headers` to their size in bytes."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t *data
    cdef Fault fault
    if job.items is not NULL:
        data = <const uint8_t *>PyBytes_AS_STRING(job.items[row])
        size = PyBytes_GET_SIZE(job.items[row])
    elif job.views is not NULL:
        data = job.views[row].data
        size = job.views[row].size
    else:
        data = text_at(&job.rows, row, &size)
    open_reader(reader, data, size)
    headers[0] = 0
    if job.layout.headed:
        fault = read_size(reader, 0, headers)
        if fault != SOUND:
            return fault
    if job.layout.timed and left(reader) - headers[0] < 8:
        reader.here += headers[0]
        reader.number = 8
        return TRUNCATED_FIELD
    return SOUND


cdef Fault measure(Job *job) noexcept nogil:
    """Check every row, and add up the sizes of the values and the headers."""
    cdef int64_t row
    cdef Py_ssize_t size = 0
    cdef Reader inner
    cdef Fault fault
    for row in range(job.rows.length):
        if is_null(job, row):
            continue
        job.row = row
        fault = open_row(job, row, &job.reader, &size)
        if fault != SOUND:
            return fault
        job.raw_headers += size
        if job.parsed and size:
            inner = job.reader
            inner.end = inner.here + size
            fault = measure_headers(job, &inner)
            if fault != SOUND:
                inner.start = job.reader.start
                job.reader = inner
                return fault
        job.values += left(&job.reader) - size - (8 if job.layout.timed else 0)
    return SOUND


cdef void write_headers(const Job *job, Reader *reader, ListsOut *out) noexcept nogil:
    """Append the headers of one row, which `measure` has checked."""
    cdef int32_t count = 0
    cdef int32_t i
    cdef const uint8_t *key = NULL, *value = NULL
    cdef Py_ssize_t key_size = 0, value_size = 0
    cdef int64_t at = out.total
    if reader.here == reader.end:
        return
    read_count(reader, &count)
    for i in range(count):
        read_header(reader, &key, &key_size, &value, &value_size)
        if job.plain_keys:
            put(out.keys.data + out.keys.written, key, key_size)
            out.keys.written += key_size
        else:
            out.keys.written += repaired_utf8(key, key_size, out.keys.data + out.keys.written)
        end_text(&out.keys, at)
        if value_size >= 0:
            put(out.values.data + out.values.written, value, value_size)
            out.values.written += value_size
            end_text(&out.values, at)
        else:
            null_text(&out.values, at)
        at += 1
    out.total = at


cdef void write(
    const Job *job, TextsOut *values, TimesOut *times, TextsOut *raw, ListsOut *lists
) noexcept nogil:
    cdef int64_t row
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t rest
    cdef Reader reader
    cdef Reader inner
    for row in range(job.rows.length):
        if is_null(job, row):
            null_text(values, row)
            if job.layout.timed:
                null_time(times, row)
            if job.layout.headed and job.wanted != LEFT_OUT:
                if job.parsed:
                    null_list(lists, row)
                else:
                    null_text(raw, row)
            continue
        open_row(job, row, &reader, &size)
        if job.layout.headed:
            if job.parsed:
                inner = reader
                inner.end = inner.here + size
                write_headers(job, &inner, lists)
                lists.offsets[row + 1] = <int32_t>lists.total
            elif job.wanted == AS_BYTES:
                put(raw.data + raw.written, reader.here, size)
                raw.written += size
                end_text(raw, row)
            reader.here += size
        if job.layout.timed:
            times.data[row] = load_i64(reader.here)
            reader.here += 8
        rest = left(&reader)
        put(values.data + values.written, reader.here, rest)
        values.written += rest
        end_text(values, row)


cdef tuple decoded(object column, const Layout *layout, str name, Headers wanted, bint listed):
    cdef Job job
    cdef TextsOut values
    cdef TimesOut times
    cdef TextsOut raw
    cdef ListsOut lists
    cdef Fault fault
    cdef bint wide = False
    cdef object rows
    memset(&job, 0, sizeof(Job))
    job.layout = layout[0]
    rows = open_rows(column, listed, &job, &wide)
    job.wanted = wanted
    job.parsed = wanted == PARSED and job.layout.headed
    job.plain_keys = True
    memset(&values, 0, sizeof(TextsOut))
    memset(&times, 0, sizeof(TimesOut))
    memset(&raw, 0, sizeof(TextsOut))
    memset(&lists, 0, sizeof(ListsOut))
    try:
        with nogil:
            fault = measure(&job)
        if fault != SOUND:
            raise_fault(fault, &job.reader, f"row {job.row}: {name}")
        allocate_texts(&values, job.rows.length, job.values, wide)
        if job.layout.timed:
            allocate_times(&times, job.rows.length)
        if job.parsed:
            allocate_lists(&lists, job.rows.length, job.headers, job.keys, job.header_values)
        elif job.layout.headed and wanted == AS_BYTES:
            allocate_texts(&raw, job.rows.length, job.raw_headers, wide)
        with nogil:
            write(&job, &values, &times, &raw, &lists)
        value_array = texts_array(&values, False)
        time_array = times_array(&times) if job.layout.timed else None
        header_array = None
        if job.layout.headed and wanted != LEFT_OUT:
            header_array = lists_array(&lists) if job.parsed else texts_array(&raw, False)
        return value_array, time_array, header_array
    finally:
        free_texts(&values)
        free_times(&times)
        free_texts(&raw)
        free_lists(&lists)


cdef object open_rows(object column, bint listed, Job *job, bint *wide):
    """Fill in the rows of a job. Return the object that owns the rows."""
    cdef Column opened
    cdef tuple items
    cdef int64_t i
    cdef PackedBytes packed
    if type(column) is Gathered:
        job.rows.length = (<Gathered>column).length
        job.views = (<Gathered>column).views
        return column
    if type(column) is PackedBytes:
        packed = <PackedBytes>column
        job.rows.length = len(packed)
        if job.rows.length:
            job.rows.offsets.wide = packed.memory.ends + packed.start
            job.rows.data = packed.memory.data
        return packed
    if not listed:
        opened = open_column(column, "rows")
        opened.as_texts(&job.rows, "rows", False)
        wide[0] = opened.is_wide()
        return opened
    items = tuple(<list>column)     # another thread may change the list while the GIL is released
    job.items = PySequence_Fast_ITEMS(<PyObject *>items)
    job.rows.length = len(items)
    for i in range(job.rows.length):
        if job.items[i] is not Py_None and not PyBytes_CheckExact(job.items[i]):
            raise TypeError(
                f"rows: item {i} of the list must be bytes or None, not {type(items[i]).__name__}"
            )
    return items


def binary_column(rows not None):
    """Return bytes and None as an Arrow column of binary, with null for None.

    Parameters
    ----------
    rows : list of bytes and None, or PackedBytes

    Raises
    ------
    TypeError
        If an item is neither bytes nor None.
    OverflowError
        If the items together have more than 2**31 - 1 bytes.
    """
    return decode_rows(rows, None)[0]


def bytes_list(column):
    """Return an Arrow column of binary or string as a list of bytes, with None for null."""
    cdef Column opened = open_column(column, "column")
    cdef Texts texts
    cdef int64_t i
    cdef Py_ssize_t size = 0
    cdef const uint8_t *data
    cdef list found
    opened.as_texts(&texts, "column", True)
    found = [None] * texts.length
    for i in range(texts.length):
        if text_valid(&texts, i):
            data = text_at(&texts, i, &size)
            found[i] = copy_bytes(data, size)
    return found


def milliseconds(column, str name not None):
    """Return an Arrow column of int64 or of timestamps as a list of milliseconds.

    Raises
    ------
    TypeError
        If the column has another type, or a null.
    """
    cdef Column opened = open_column(column, name)
    cdef Times times
    cdef int64_t i, time
    cdef list found = []
    opened.as_times(&times, name)
    for i in range(times.length):
        if not is_set(&times.valid, i):
            raise TypeError(f"{name}: row {i} has no time")
        time = times.data[i]
        if times.divide > 1:
            time = time // times.divide     # Python's division rounds down.
        found.append(time * <object>times.multiply if times.multiply > 1 else time)
    return found


def decode_rows(rows, str layout, *, bint headers=True):
    """Decode stored values to columns of values, timestamps and headers.

    The result and the errors are those of `decode_column`.

    Parameters
    ----------
    rows : list of bytes and None, or PackedBytes
        The stored values. None gives a null in every column of the result.
    layout : str or None
        A layout of `decode_column`, or None if a stored value is only the value.
    headers : bool
        If False, the headers are omitted and not checked.
    """
    cdef Layout parts
    memset(&parts, 0, sizeof(Layout))
    if layout is not None:
        layout_of(layout, &parts)
    return decoded(rows, &parts, layout or "rows", PARSED if headers else LEFT_OUT, True)


def decode_gathered(columns, positions, str layout, *, bint headers=True, max_bytes=None):
    """Decode the stored values at some positions of columns.

    The result and the errors are those of `decode_column`, but the values are always binary.

    Parameters
    ----------
    columns : sequence of Arrow arrays of binary or large_binary
        The stored values. The positions of each array follow those of the array before it.
    positions : Arrow array of int64
        The positions to decode, in any order. A null position gives a null in every column of the
        result.
    layout : str or None
        A layout of `decode_column`, or None if a stored value is only the value.
    headers : bool
        If False, the headers are omitted and not checked.
    max_bytes : int, optional
        The greatest size of the stored values at the positions in bytes. No limit if None.

    Raises
    ------
    IndexError
        If the columns have no stored value at a position.
    OverflowError
        If the stored values exceed `max_bytes`, or if the decoded values exceed 2 GiB.
    """
    cdef Gathered rows = gathered(columns, positions)
    if max_bytes is not None and rows.size > max_bytes:
        raise OverflowError(
            f"the stored values at {rows.length} positions have {rows.size} bytes, and the limit "
            f"is {max_bytes} bytes; pass fewer positions"
        )
    return decode_rows(rows, layout, headers=headers)


def decode_column(column, *, layout="value_timestamp_headers"):
    """Decode a column of stored values to columns of values, timestamps and headers.

    Parameters
    ----------
    column : Arrow array of binary or large_binary
        The stored values. A null element gives a null in every column of the result.
    layout : {"value_timestamp_headers", "value_and_timestamp", "aggregation_with_headers"}
        The format of the stored values.

    Returns
    -------
    values : pyarrow.Array
        The values as large_binary if `column` is large_binary, otherwise as binary.
    timestamps : pyarrow.Int64Array or None
        The timestamps in milliseconds. None if `layout` has no timestamp.
    headers : pyarrow.ListArray or None
        The headers as list<element: struct<key: string, value: binary>>. The list of an element
        without headers is empty. Header keys that are not UTF-8 are decoded like
        ``bytes.decode(errors="replace")``. None if `layout` has no headers.

    Raises
    ------
    TypeError
        If `column` is not an Arrow array of one of the types above.
    FormatError
        If a stored value or its headers are malformed. The message names the index of the element
        and the offset in its bytes.
    OverflowError
        If there are more than 2**31 - 1 headers, or if their keys or their values exceed
        2**31 - 1 bytes in total.
    """
    cdef Layout parts
    layout_of(layout, &parts)
    return decoded(column, &parts, layout, PARSED, False)


def split_column(column, *, layout="value_timestamp_headers"):
    """Decode a column of stored values, but return the headers as unchecked bytes.

    Returns
    -------
    values, timestamps
        The columns that `decode_column` returns.
    headers : pyarrow.Array or None
        The encoded headers of each element, which `decode_headers` can decode. They are
        large_binary if `column` is large_binary, otherwise binary. None if `layout` has no headers.
    """
    cdef Layout parts
    layout_of(layout, &parts)
    return decoded(column, &parts, layout, AS_BYTES, False)
