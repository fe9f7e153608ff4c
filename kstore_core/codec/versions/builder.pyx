# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: cdivision=True, embedsignature=True, embedsignature.format=clinic
"""A function that builds all rows of a versioned store from Arrow columns of its versions."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memset

from kstore_core.codec.arrow.input cimport (
    Column, Texts, Times, is_set, open_column, text_at, text_valid,
)
from kstore_core.codec.arrow.output cimport (
    TextsOut, allocate_texts, end_text, free_texts, texts_array,
)
from kstore_core.codec.primitives.buffers cimport put
from kstore_core.codec.primitives.integers cimport as_i64
from kstore_core.codec.versions.row_layout cimport ENTRY_BYTES, HEAD_BYTES, TOMBSTONE
from kstore_core.codec.versions.plan cimport NO_VALUE, Entry, Plan, Planned, plan_latest, plan_put
from kstore_core.codec.primitives.wire cimport store_i32, store_i64

cdef enum Trouble:
    NONE = 0
    NULL_FIELD
    NOT_ASCENDING
    NEGATIVE_SEGMENT
    TOO_LONG


cdef struct Job:
    Texts keys
    Times times
    Texts values
    Plan plan
    int64_t *order              # the indexes of the planned rows, sorted by the keys of the rows
    int64_t *spare              # scratch memory for the sort, with the size of `order`
    int64_t key_bytes
    int64_t row_bytes
    int64_t row                 # the input row at which an error was found


cdef int compare(const Texts *texts, int64_t i, int64_t j) noexcept nogil:
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t other_size = 0
    cdef const uint8_t *data = text_at(texts, i, &size)
    cdef const uint8_t *other = text_at(texts, j, &other_size)
    cdef Py_ssize_t common = size if size < other_size else other_size
    cdef int order = memcmp(data, other, common) if common else 0
    if order:
        return order
    return (size > other_size) - (size < other_size)


cdef Trouble plan_all(Job *job) noexcept nogil:
    """Check the input columns, and plan the rows to write."""
    cdef int64_t i
    cdef int64_t source
    cdef int order
    cdef Py_ssize_t size = 0
    for i in range(job.keys.length):
        job.row = i
        if not text_valid(&job.keys, i) or not is_set(&job.times.valid, i):
            return NULL_FIELD
        order = -1 if i == 0 else compare(&job.keys, i - 1, i)
        if order > 0 or (order == 0 and job.times.data[i - 1] >= job.times.data[i]):
            return NOT_ASCENDING
        if order < 0:
            plan_latest(&job.plan)
            job.plan.key = i
        source = NO_VALUE
        if text_valid(&job.values, i):
            source = i
            text_at(&job.values, i, &size)
            if size > INT32_MAX:
                return TOO_LONG
        plan_put(&job.plan, job.times.data[i], source)
    plan_latest(&job.plan)
    return NONE


cdef Trouble measure(Job *job) noexcept nogil:
    """Add up the sizes of the keys and values of the planned rows."""
    cdef int64_t i
    cdef int64_t j
    cdef Py_ssize_t size = 0
    cdef const Planned *row
    for i in range(job.plan.row_count):
        row = job.plan.rows + i
        if row.segment < 0 and not row.latest:
            job.row = row.key
            return NEGATIVE_SEGMENT
        text_at(&job.keys, row.key, &size)
        job.key_bytes += 8 + size
        job.row_bytes += 8 if row.latest else HEAD_BYTES + row.count * ENTRY_BYTES
        for j in range(row.first, row.first + row.count):
            if job.plan.entries[j].source != NO_VALUE:
                text_at(&job.values, job.plan.entries[j].source, &size)
                job.row_bytes += size
    return NONE


cdef void sort_rows(Job *job) noexcept nogil:
    """Sort the rows by segment with a radix sort. Rows of one segment stay sorted by key."""
    cdef int64_t[257] starts
    cdef int64_t count = job.plan.row_count
    cdef int64_t *swap
    cdef int64_t i
    cdef int shift
    cdef int bucket
    for i in range(count):
        job.order[i] = i
    for shift in range(0, 64, 8):
        memset(starts, 0, sizeof(starts))
        for i in range(count):
            starts[1 + digit(job, job.order[i], shift)] += 1
        if count == 0 or starts[1 + digit(job, job.order[0], shift)] == count:
            continue                                # This byte is equal in all rows.
        for bucket in range(256):
            starts[bucket + 1] += starts[bucket]
        for i in range(count):
            bucket = digit(job, job.order[i], shift)
            job.spare[starts[bucket]] = job.order[i]
            starts[bucket] += 1
        swap = job.order
        job.order = job.spare
        job.spare = swap


cdef inline int digit(const Job *job, int64_t row, int shift) noexcept nogil:
    return <int>((<uint64_t>job.plan.rows[row].segment >> shift) & 0xFF)


cdef void write(const Job *job, TextsOut *keys, TextsOut *rows) noexcept nogil:
    cdef int64_t i
    cdef const Planned *row
    cdef Py_ssize_t size = 0
    cdef const uint8_t *data
    cdef uint8_t *here
    for i in range(job.plan.row_count):
        row = job.plan.rows + job.order[i]
        data = text_at(&job.keys, row.key, &size)
        put(store_i64(keys.data + keys.written, row.segment), data, size)
        keys.written += 8 + size
        end_text(keys, i)
        here = write_row(job, row, rows.data + rows.written)
        rows.written = here - rows.data
        end_text(rows, i)


cdef uint8_t *write_row(const Job *job, const Planned *row, uint8_t *here) noexcept nogil:
    cdef const Entry *entries = job.plan.entries + row.first
    cdef int64_t j
    cdef Py_ssize_t size = 0
    cdef const uint8_t *data
    if row.latest:
        data = text_at(&job.values, entries[0].source, &size)
        return put(store_i64(here, entries[0].timestamp), data, size)
    here = store_i64(here, row.next_timestamp)
    here = store_i64(here, entries[0].timestamp)
    for j in range(row.count - 1, -1, -1):          # the newest entry first
        here = store_i64(here, entries[j].timestamp)
        size = TOMBSTONE
        if entries[j].source != NO_VALUE:
            text_at(&job.values, entries[j].source, &size)
        here = store_i32(here, <int32_t>size)
    for j in range(row.count):                      # the oldest value first
        if entries[j].source != NO_VALUE:
            data = text_at(&job.values, entries[j].source, &size)
            here = put(here, data, size)
    return here


cdef object described(const Job *job, Trouble trouble):
    if trouble == NULL_FIELD:
        return ValueError(f"row {job.row}: a key or a timestamp is null; only a value may be null")
    if trouble == NOT_ASCENDING:
        return ValueError(
            f"row {job.row} is not greater than the row before it; rows must be sorted by key and "
            "then by timestamp, and must not repeat"
        )
    if trouble == NEGATIVE_SEGMENT:
        return ValueError(
            f"row {job.row}: a version of this key ends so long before 1970 that its segment would "
            "have a negative number; only the segment of the latest versions may have a negative number"
        )
    return ValueError(f"row {job.row}: the value is longer than 2**31 - 1 bytes")


def build_version_rows(keys, timestamps, values, *, segment_interval_ms, first_live_segment):
    """Return all rows that a versioned store contains after a sequence of puts.

    The rows are equal, byte for byte, to the rows of a store after the same puts in order of time.

    - The last version of a key is in its latest row, unless that version is a delete.
    - Every earlier version is in the segment that contains the end of its validity.
    - A delete between two versions of a segment row is a tombstone in that row.
    - A delete of a key without a valid version becomes a degenerate row, unless the segment already
      has a row for the key. A degenerate row contains only a tombstone.
    - Versions in expired segments are left out.

    Parameters
    ----------
    keys : Arrow array of binary, string, large_binary or large_string
        The key of each put. The keys must be sorted by their bytes.
    timestamps : Arrow array of int64 milliseconds, or of timestamps in milliseconds
        The time of each put. The times of one key must be strictly ascending.
    values : Arrow array of binary, string, large_binary or large_string
        The value of each put. Null means a delete.
    segment_interval_ms : int
        The width of a segment (ms), at least 1.
    first_live_segment : int
        The lowest number of a segment that has not expired.

    Returns
    -------
    row_keys : pyarrow.Array
        The keys of the rows, ``segment:i64 key``, sorted by their bytes; latest rows come last. The
        type is large_binary if `keys` has a large type, otherwise binary.
    row_values : pyarrow.Array
        The values of the rows. The type is large_binary if `values` has a large type, otherwise
        binary.

    Raises
    ------
    TypeError
        If a column is not an Arrow array of one of the types above.
    ValueError
        If the columns differ in length or are not sorted, if a key or a timestamp is null, if a
        value exceeds 2**31 - 1 bytes, or if a version that has not expired belongs to a segment
        with a negative number. The message names the row.
    OverflowError
        If the keys of the rows exceed 2**31 - 1 bytes in total and `keys` does not have a large
        type. Also if the values of the rows exceed this size and `values` does not have a large
        type.
    """
    cdef Job job
    cdef TextsOut row_keys
    cdef TextsOut row_values
    cdef Trouble trouble
    cdef Column key_column = open_column(keys, "keys")
    cdef Column time_column = open_column(timestamps, "timestamps")
    cdef Column value_column = open_column(values, "values")
    memset(&job, 0, sizeof(Job))
    memset(&row_keys, 0, sizeof(TextsOut))
    memset(&row_values, 0, sizeof(TextsOut))
    key_column.as_texts(&job.keys, "keys", True)
    time_column.as_times(&job.times, "timestamps")
    value_column.as_texts(&job.values, "values", True)
    if job.times.multiply != 1 or job.times.divide != 1:
        raise TypeError("timestamps: the unit must be milliseconds; cast the column first")
    if not job.keys.length == job.times.length == job.values.length:
        raise ValueError(
            f"the lengths differ: {job.keys.length} keys, {job.times.length} timestamps and "
            f"{job.values.length} values"
        )
    job.plan.interval = as_i64(segment_interval_ms, "segment_interval_ms")
    job.plan.first_live = as_i64(first_live_segment, "first_live_segment")
    if job.plan.interval < 1:
        raise ValueError(f"segment_interval_ms: {segment_interval_ms} is less than 1")
    try:
        # A put adds at most one segment row and two entries. A key adds a latest row and its entry.
        job.plan.rows = <Planned *>room(2 * job.keys.length, sizeof(Planned))
        job.plan.entries = <Entry *>room(3 * job.keys.length, sizeof(Entry))
        with nogil:
            trouble = plan_all(&job)
            if trouble == NONE:
                trouble = measure(&job)
        if trouble != NONE:
            raise described(&job, trouble)
        job.order = <int64_t *>room(job.plan.row_count, 8)
        job.spare = <int64_t *>room(job.plan.row_count, 8)
        allocate_texts(&row_keys, job.plan.row_count, job.key_bytes, key_column.is_wide())
        allocate_texts(&row_values, job.plan.row_count, job.row_bytes, value_column.is_wide())
        with nogil:
            sort_rows(&job)
            write(&job, &row_keys, &row_values)
        return texts_array(&row_keys, False), texts_array(&row_values, False)
    finally:
        free(job.plan.rows)
        free(job.plan.entries)
        free(job.order)
        free(job.spare)
        free_texts(&row_keys)
        free_texts(&row_values)


cdef void *room(int64_t count, size_t width) except NULL:
    cdef void *memory = malloc((<size_t>count + 1) * width)
    if memory is NULL:
        raise MemoryError(f"cannot allocate memory for {count} rows of a versioned store")
    return memory
