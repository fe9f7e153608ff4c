# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: cdivision=True, embedsignature=True, embedsignature.format=clinic
"""Encode Arrow columns of values as an Arrow column of stored values, without the GIL."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from kstore_core.codec.arrow.input cimport (
    Column, HeaderLists, Texts, Times, is_set, offset_at, open_column, text_at, text_valid,
)
from kstore_core.codec.arrow.output cimport (
    TextsOut, allocate_texts, end_text, free_texts, null_text, texts_array,
)
from kstore_core.codec.primitives.buffers cimport put
from kstore_core.codec.primitives.halves cimport MANY, run_halves
from kstore_core.codec.arrow.layouts cimport Layout, layout_of
from kstore_core.codec.primitives.wire cimport store_i64, store_varint, varint_size

from kstore_core.errors import FormatError

cdef enum Trouble:
    NONE = 0
    NO_TIMESTAMP
    TIMESTAMP_TOO_LARGE
    NULL_HEADER
    NULL_KEY
    TOO_LONG


cdef struct Job:
    Layout layout
    Texts values
    Times times
    HeaderLists headers
    int32_t *header_sizes       # size of the encoded headers of each row in bytes


# The rows from `begin` to `end` (exclusive), which one thread encodes.
cdef struct Part:
    Job *job
    int64_t begin
    int64_t end
    int64_t total               # size of the rows in bytes
    int64_t row                 # index of the row that is being checked; at an error, the bad row
    Trouble trouble
    TextsOut out


cdef inline Trouble millis_at(const Times *times, int64_t row, int64_t *millis) noexcept nogil:
    cdef int64_t number = times.data[row]
    if times.divide != 1:
        millis[0] = number // times.divide
        if number % times.divide < 0:               # C rounds towards zero; times are rounded down
            millis[0] -= 1
    elif times.multiply != 1:
        millis[0] = number * times.multiply
        if millis[0] // times.multiply != number:
            return TIMESTAMP_TOO_LARGE
    else:
        millis[0] = number
    return NONE


cdef inline bint has_headers(const HeaderLists *lists, int64_t row) noexcept nogil:
    return not lists.absent and is_set(&lists.valid, row)


cdef Trouble measure_headers(const HeaderLists *lists, int64_t row, int64_t *size) noexcept nogil:
    cdef int64_t i
    cdef int64_t begin = offset_at(&lists.offsets, row)
    cdef int64_t end = offset_at(&lists.offsets, row + 1)
    cdef Py_ssize_t width = 0
    cdef int64_t total
    size[0] = 0
    if begin == end:
        return NONE
    total = varint_size(end - begin)
    for i in range(begin, end):
        if not is_set(&lists.entry_valid, i):
            return NULL_HEADER
        if not text_valid(&lists.keys, i):
            return NULL_KEY
        text_at(&lists.keys, i, &width)
        total += varint_size(width) + width
        if text_valid(&lists.values, i):
            text_at(&lists.values, i, &width)
            total += varint_size(width) + width
        else:
            total += 1
        if total > INT32_MAX:
            return TOO_LONG
    size[0] = total
    return NONE


cdef uint8_t *write_headers(const HeaderLists *lists, int64_t row, uint8_t *here) noexcept nogil:
    cdef int64_t i
    cdef int64_t begin = offset_at(&lists.offsets, row)
    cdef int64_t end = offset_at(&lists.offsets, row + 1)
    cdef Py_ssize_t size = 0
    cdef const uint8_t *data
    here = store_varint(here, end - begin)
    for i in range(begin, end):
        data = text_at(&lists.keys, i, &size)
        here = store_varint(here, size)
        here = put(here, data, size)
        if text_valid(&lists.values, i):
            data = text_at(&lists.values, i, &size)
            here = store_varint(here, size)
            here = put(here, data, size)
        else:
            here = store_varint(here, -1)
    return here


cdef void measure(void *argument) noexcept nogil:
    """Check every row of a part. Compute the size of its headers, and the total size."""
    cdef Part *part = <Part *>argument
    part.trouble = measured(part)


cdef Trouble measured(Part *part) noexcept nogil:
    cdef Job *job = part.job
    cdef int64_t row
    cdef int64_t size
    cdef int64_t millis
    cdef Py_ssize_t width = 0
    cdef Trouble trouble
    part.total = 0
    for row in range(part.begin, part.end):
        part.row = row
        if not text_valid(&job.values, row):
            continue
        text_at(&job.values, row, &width)
        if job.layout.timed:
            if not is_set(&job.times.valid, row):
                return NO_TIMESTAMP
            trouble = millis_at(&job.times, row, &millis)
            if trouble != NONE:
                return trouble
            width += 8
        if job.layout.headed:
            size = 0
            if has_headers(&job.headers, row):
                trouble = measure_headers(&job.headers, row, &size)
                if trouble != NONE:
                    return trouble
            job.header_sizes[row] = <int32_t>size
            width += varint_size(size) + size
        part.total += width
    return NONE


cdef void write(void *argument) noexcept nogil:
    """Write every row of a part."""
    cdef Part *part = <Part *>argument
    cdef const Job *job = part.job
    cdef TextsOut *out = &part.out
    cdef int64_t row
    cdef int64_t millis
    cdef Py_ssize_t size = 0
    cdef const uint8_t *data
    cdef uint8_t *here = out.data + out.written
    for row in range(part.begin, part.end):
        if not text_valid(&job.values, row):
            null_text(out, row)
            continue
        if job.layout.headed:
            here = store_varint(here, job.header_sizes[row])
            if job.header_sizes[row]:
                here = write_headers(&job.headers, row, here)
        if job.layout.timed:
            millis_at(&job.times, row, &millis)
            here = store_i64(here, millis)
        data = text_at(&job.values, row, &size)
        here = put(here, data, size)
        out.written = here - out.data
        end_text(out, row)


cdef object described(Trouble trouble, int64_t row):
    if trouble == NO_TIMESTAMP:
        return ValueError(f"row {row}: the value has no timestamp; pass -1 for an unknown timestamp")
    if trouble == TIMESTAMP_TOO_LARGE:
        return OverflowError(f"row {row}: the timestamp does not fit 64 bits of milliseconds")
    if trouble == NULL_HEADER:
        return FormatError(f"row {row}: a header is null; only the value of a header may be null")
    if trouble == NULL_KEY:
        return FormatError(f"row {row}: a header key is null; only a header value may be null")
    return FormatError(f"row {row}: the headers exceed 2**31 - 1 bytes, the limit of the format")


def encode_column(values, timestamps=None, headers=None, *, layout="value_timestamp_headers"):
    """Encode columns of values, timestamps and headers as a column of stored values.

    Parameters
    ----------
    values : Arrow array of binary, string, large_binary or large_string
        The values. A null value gives a null element.
    timestamps : Arrow array of int64 (milliseconds) or of timestamps, or None
        The timestamps of the values. Timestamps with a finer unit are rounded down to milliseconds.
        Must be None if `layout` is "aggregation_with_headers".
    headers : Arrow array of list<struct<key: string, value: binary>>, or None
        The headers of each value. A null list means no headers, and a null header value stays null.
        None if no value has headers. Must be None if `layout` is "value_and_timestamp".
    layout : {"value_timestamp_headers", "value_and_timestamp", "aggregation_with_headers"}
        The format of the stored values. A versioned store with headers also uses
        "aggregation_with_headers" for its values.

    Returns
    -------
    pyarrow.Array
        The stored values as large_binary if `values` has a large type, otherwise as binary.

    Raises
    ------
    TypeError
        If a column is not an Arrow array of one of the types above.
    ValueError
        If the columns differ in length, if `layout` has a timestamp and a value has none, or if
        `layout` cannot store the timestamps or headers that were passed.
    FormatError
        If a header or the key of a header is null, or if the headers of a value exceed 2**31 - 1
        bytes. The message names the row.
    OverflowError
        If a timestamp in milliseconds does not fit 64 bits. Also if the stored values exceed
        2**31 - 1 bytes in total and `values` does not have a large type.

    Notes
    -----
    A column can be any object with ``__arrow_c_array__``, such as a slice. The chunks of a chunked
    array are combined first.
    """
    cdef Job job
    cdef Part[2] parts
    cdef Part *second = NULL
    cdef int i
    cdef TextsOut out
    cdef bint wide
    cdef Column value_column
    cdef Column time_column
    cdef Column header_column
    layout_of(layout, &job.layout)
    if job.layout.timed != (timestamps is not None):
        raise ValueError(
            f"layout {layout!r} needs timestamps; pass them as timestamps=" if job.layout.timed
            else f"layout {layout!r} has no timestamps; do not pass timestamps="
        )
    if headers is not None and not job.layout.headed:
        raise ValueError(f"layout {layout!r} has no headers; do not pass headers=")
    value_column = open_column(values, "values")
    value_column.as_texts(&job.values, "values", True)
    wide = value_column.is_wide()
    if timestamps is not None:
        time_column = open_column(timestamps, "timestamps")
        time_column.as_times(&job.times, "timestamps")
        same_length("timestamps", job.times.length, job.values.length)
    job.headers.absent = True
    if headers is not None:
        header_column = open_column(headers, "headers")
        header_column.as_header_lists(&job.headers)
        same_length("headers", job.headers.length, job.values.length)
    job.header_sizes = NULL
    memset(&out, 0, sizeof(TextsOut))
    try:
        if job.layout.headed:
            job.header_sizes = <int32_t *>malloc(4 * job.values.length + 1)
            if job.header_sizes is NULL:
                raise MemoryError("cannot allocate memory for an Arrow column")
        memset(parts, 0, sizeof(parts))
        parts[0].job = parts[1].job = &job
        parts[0].end = parts[1].end = job.values.length
        if job.values.length >= MANY:
            second = parts + 1
            parts[0].end = second.begin = job.values.length // 16 * 8   # no byte of `valid` in both
        with nogil:
            run_halves(measure, parts, second)
        for i in range(2):
            if parts[i].trouble != NONE:
                raise described(parts[i].trouble, parts[i].row)
        allocate_texts(&out, job.values.length, parts[0].total + parts[1].total, wide)
        parts[0].out = parts[1].out = out
        parts[1].out.written = parts[0].total
        with nogil:
            run_halves(write, parts, second)
        out.nulls = parts[0].out.nulls + parts[1].out.nulls
        return texts_array(&out, False)
    finally:
        free(job.header_sizes)
        free_texts(&out)


cdef int same_length(str what, int64_t length, int64_t expected) except -1:
    if length != expected:
        raise ValueError(f"{what}: {length} rows, but there are {expected} values")
    return 0


def encode_header_lists(headers, int64_t count):
    """Encode a column of headers as a column of ``varint(H) headers[H]``.

    Parameters
    ----------
    headers : Arrow array of list<struct<key: string, value: binary>>
        The headers. A null list means no headers.
    count : int
        The number of elements that `headers` must have.

    Returns
    -------
    pyarrow.Array
        The encoded headers as binary.

    Raises
    ------
    TypeError, ValueError, FormatError, OverflowError
        If `encode_column` raises this error for `headers`.
    """
    import pyarrow

    offsets = pyarrow.py_buffer(bytes(4 * (count + 1)))  # every value is empty
    empty = pyarrow.Array.from_buffers(
        pyarrow.binary(), count, [None, offsets, pyarrow.py_buffer(b"")]
    )
    return encode_column(empty, None, headers, layout="aggregation_with_headers")
