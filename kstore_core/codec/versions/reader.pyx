# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""A function that reads the versions in Arrow columns of the rows of a versioned store."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from kstore_core.codec.arrow.input cimport Column, Texts, open_column, text_at, text_valid
from kstore_core.codec.arrow.output cimport (
    TextsOut, TimesOut, allocate_texts, allocate_times, end_text, free_texts, free_times, null_text,
    null_time, texts_array, times_array,
)
from kstore_core.codec.primitives.buffers cimport put
from kstore_core.codec.primitives.faults cimport describe
from kstore_core.codec.versions.row_layout cimport (
    Row, entry_at, entry_size, entry_time, open_row, valid_to_of,
)
from kstore_core.codec.primitives.wire cimport SOUND, TRUNCATED_FIELD, Fault, load_i64

from kstore_core.errors import FormatError

cdef enum:
    PREFIX_BYTES = 8            # size of the segment id before a key and the time before a value
    LATEST = -1                 # the segment id of latest rows


cdef struct Job:
    Texts keys
    Texts rows
    bint tombstones
    int64_t versions            # number of versions in the output
    int64_t key_bytes           # size of all keys in the output
    int64_t value_bytes         # size of all values in the output
    int64_t row                 # the index of the faulty row
    bint in_key                 # True if the fault is in the key, False if it is in the value
    int64_t at                  # the position of the fault in the key or value
    int64_t number              # the faulty number
    int64_t left                # the number of bytes after the fault


cdef Fault fault_at(
    Job *job, bint in_key, int64_t at, int64_t number, int64_t left, Fault fault
) noexcept nogil:
    job.in_key, job.at, job.number, job.left = in_key, at, number, left
    return fault


cdef Fault measure(Job *job) noexcept nogil:
    """Check every row, and add up the sizes of the output."""
    cdef int64_t i
    cdef Py_ssize_t j, key_size = 0, size = 0
    cdef const uint8_t *key, *data
    cdef Row row
    cdef Fault fault
    for i in range(job.rows.length):
        job.row = i
        if not text_valid(&job.keys, i) or not text_valid(&job.rows, i):
            return fault_at(job, not text_valid(&job.keys, i), 0, PREFIX_BYTES, 0, TRUNCATED_FIELD)
        key = text_at(&job.keys, i, &key_size)
        data = text_at(&job.rows, i, &size)
        if key_size < PREFIX_BYTES:
            return fault_at(job, True, 0, PREFIX_BYTES, key_size, TRUNCATED_FIELD)
        key_size -= PREFIX_BYTES
        if load_i64(key) == LATEST:
            if size < PREFIX_BYTES:
                return fault_at(job, False, 0, PREFIX_BYTES, size, TRUNCATED_FIELD)
            job.versions += 1
            job.key_bytes += key_size
            job.value_bytes += size - PREFIX_BYTES
            continue
        fault = open_row(&row, data, size)
        if fault != SOUND:
            return fault_at(job, False, row.at, row.number, size - row.at, fault)
        for j in range(row.count):
            size = entry_size(&row, j)
            if size >= 0:
                job.value_bytes += size
            elif not job.tombstones:
                continue
            job.versions += 1
            job.key_bytes += key_size
    return SOUND


cdef void write(
    const Job *job, TextsOut *keys, TextsOut *values, TimesOut *times, TimesOut *valid_to
) noexcept nogil:
    cdef int64_t i
    cdef int64_t at = 0
    cdef Py_ssize_t j, key_size = 0, size = 0
    cdef const uint8_t *key, *data
    cdef Row row
    memset(&row, 0, sizeof(Row))
    for i in range(job.rows.length):
        key = text_at(&job.keys, i, &key_size)
        data = text_at(&job.rows, i, &size)
        key_size -= PREFIX_BYTES
        if load_i64(key) == LATEST:
            times.data[at] = load_i64(data)
            null_time(valid_to, at)
            write_value(values, at, data + PREFIX_BYTES, size - PREFIX_BYTES)
            write_value(keys, at, key + PREFIX_BYTES, key_size)
            at += 1
            continue
        open_row(&row, data, size)
        data = entry_at(&row, row.count)            # The oldest value is first.
        for j in range(row.count - 1, -1, -1):
            size = entry_size(&row, j)
            if size < 0 and not job.tombstones:
                continue
            times.data[at] = entry_time(&row, j)
            valid_to.data[at] = valid_to_of(&row, j)
            write_value(keys, at, key + PREFIX_BYTES, key_size)
            if size < 0:
                null_text(values, at)
            else:
                write_value(values, at, data, size)
                data += size
            at += 1


cdef inline void write_value(
    TextsOut *out, int64_t at, const uint8_t *data, Py_ssize_t size
) noexcept nogil:
    put(out.data + out.written, data, size)
    out.written += size
    end_text(out, at)


def explode_versions(row_keys, row_values, *, bint tombstones=False):
    """Split the rows of a versioned store into one record for each version.

    Parameters
    ----------
    row_keys : Arrow array of binary or large_binary
        The keys of the rows, ``segment:i64 key``. Latest rows are in segment -1.
    row_values : Arrow array of binary or large_binary
        The value of each row: ``validFrom:i64 value`` in segment -1, a segment row in any other
        segment.
    tombstones : bool, default False
        If True, also return the tombstones in segment rows, as records with a null value.

    Returns
    -------
    keys : pyarrow.Array
        The key of each version, without its segment. The type is that of `row_keys`.
    values : pyarrow.Array
        The value of each version. The type is that of `row_values`.
    timestamps : pyarrow.Int64Array
        The time (ms) from which each version is valid, inclusive.
    valid_to : pyarrow.Int64Array
        The time (ms) until which each version is valid, exclusive. Null for a latest version.

    The records have the order of the rows. The versions of one row are sorted from the oldest to
    the newest.

    Raises
    ------
    TypeError
        If a column is not an Arrow array of one of the types above.
    ValueError
        If the columns differ in length.
    FormatError
        If a row is null or malformed. The message names the row.
    """
    cdef Job job
    cdef TextsOut keys
    cdef TextsOut values
    cdef TimesOut times
    cdef TimesOut valid_to
    cdef Fault fault
    cdef Column key_column = open_column(row_keys, "row keys")
    cdef Column row_column = open_column(row_values, "row values")
    memset(&job, 0, sizeof(Job))
    key_column.as_texts(&job.keys, "row keys", False)
    row_column.as_texts(&job.rows, "row values", False)
    if job.keys.length != job.rows.length:
        raise ValueError(
            f"row values: {job.rows.length} rows, but there are {job.keys.length} row keys"
        )
    job.tombstones = tombstones
    memset(&keys, 0, sizeof(TextsOut))
    memset(&values, 0, sizeof(TextsOut))
    memset(&times, 0, sizeof(TimesOut))
    memset(&valid_to, 0, sizeof(TimesOut))
    try:
        with nogil:
            fault = measure(&job)
        if fault != SOUND:
            part = "key" if job.in_key else "value"
            reason = describe(fault, job.number, job.left)
            raise FormatError(
                f"row {job.row}: {part} of a versioned store: {reason} (at byte {job.at})",
                offset=job.at,
            )
        allocate_texts(&keys, job.versions, job.key_bytes, key_column.is_wide())
        allocate_texts(&values, job.versions, job.value_bytes, row_column.is_wide())
        allocate_times(&times, job.versions)
        allocate_times(&valid_to, job.versions)
        with nogil:
            write(&job, &keys, &values, &times, &valid_to)
        return (
            texts_array(&keys, False),
            texts_array(&values, False),
            times_array(&times),
            times_array(&valid_to),
        )
    finally:
        free_texts(&keys)
        free_texts(&values)
        free_times(&times)
        free_times(&valid_to)
