# cython: language_level=3
"""The positions of the fields in a segment row (docs/formats.md, Versioned rows).

    next:i64 min:i64 { timestamp:i64 size:i32 } x n, newest first, then the values, oldest first
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore_core.codec.primitives.wire cimport (
    ROW_ENDS_IN_ENTRIES, ROW_OUT_OF_ORDER, ROW_SIZE_MISMATCH, ROW_TOO_SHORT, SOUND, Fault, load_i32,
    load_i64,
)


cdef enum:
    HEAD_BYTES = 16             # the size of next and min
    ENTRY_BYTES = 12            # the size of a timestamp and a value size
    TOMBSTONE = -1              # the value size of an entry that has no value


cdef struct Row:
    const uint8_t *data
    Py_ssize_t size
    Py_ssize_t count            # number of versions, including tombstones; at least 1
    int64_t next_timestamp      # the end of the newest version's validity
    int64_t min_timestamp       # the start of the oldest version's validity
    bint degenerate             # True if the row is a single tombstone that is valid for no time
    int64_t number              # at a fault: the faulty number
    Py_ssize_t at               # at a fault: its position


cdef inline const uint8_t *entry_at(const Row *row, Py_ssize_t index) noexcept nogil:
    return row.data + HEAD_BYTES + index * ENTRY_BYTES


cdef inline int64_t entry_time(const Row *row, Py_ssize_t index) noexcept nogil:
    """Return the time from which a version is valid."""
    return load_i64(entry_at(row, index))


cdef inline int32_t entry_size(const Row *row, Py_ssize_t index) noexcept nogil:
    """Return the size of a version's value. The size of a tombstone is negative."""
    return load_i32(entry_at(row, index) + 8)


cdef inline int64_t valid_to_of(const Row *row, Py_ssize_t index) noexcept nogil:
    return row.next_timestamp if index == 0 else entry_time(row, index - 1)


cdef inline Py_ssize_t value_bytes(const Row *row, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Return the total size in bytes of the values of the versions `begin` to `end - 1`."""
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t i
    cdef int32_t size
    for i in range(begin, end):
        size = entry_size(row, i)
        if size > 0:
            total += size
    return total


cdef inline Fault open_row(Row *row, const uint8_t *data, Py_ssize_t size) noexcept nogil:
    """Check a whole row, and count its versions."""
    cdef Py_ssize_t position = HEAD_BYTES
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t count = 0
    cdef int64_t time
    cdef int64_t newer
    cdef int32_t value_size
    row.data = data
    row.size = size
    row.at = 0
    row.number = size
    if size < HEAD_BYTES + ENTRY_BYTES:
        return ROW_TOO_SHORT
    row.next_timestamp = newer = load_i64(data)
    row.min_timestamp = load_i64(data + 8)
    while True:
        row.at = position
        if size - position < ENTRY_BYTES:
            row.number = row.min_timestamp
            return ROW_ENDS_IN_ENTRIES
        time = load_i64(data + position)
        value_size = load_i32(data + position + 8)
        if time >= newer and not (
            count == 0 and value_size < 0 and time == newer == row.min_timestamp
        ):
            row.number = time
            return ROW_OUT_OF_ORDER
        if value_size > 0:
            total += value_size
        position += ENTRY_BYTES
        count += 1
        newer = time
        if time == row.min_timestamp:
            break
    row.at = position
    row.number = total
    if total != size - position:
        return ROW_SIZE_MISMATCH
    row.count = count
    row.degenerate = row.next_timestamp == row.min_timestamp
    return SOUND


cdef inline Py_ssize_t index_at(const Row *row, int64_t timestamp) noexcept nogil:
    """Return the index of the newest version that begins at or before `timestamp`."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = row.count
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if entry_time(row, middle) > timestamp:
            low = middle + 1
        else:
            high = middle
    return low
