# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
"""Functions that check a segment row, read a value from it, and write a new row."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t

from kstore_core.codec.primitives.buffers cimport (
    View, address, close_view, copy_bytes, new_bytes, open_view, put,
)
from kstore_core.codec.primitives.faults cimport describe
from kstore_core.codec.versions.row_layout cimport (
    ENTRY_BYTES, HEAD_BYTES, TOMBSTONE, Row, entry_at, entry_size, open_row, value_bytes,
)
from kstore_core.codec.primitives.wire cimport SOUND, Fault, store_i32, store_i64

from kstore_core.errors import FormatError


cdef int open_checked(object source, View *view, Row *row) except -1:
    """Open a view of a row and check the row. If the row is malformed, the view is closed."""
    cdef Fault fault
    open_view(source, view)
    fault = open_row(row, view.data, view.size)
    if fault != SOUND:
        reason = describe(fault, row.number, view.size - row.at)
        close_view(view)
        raise FormatError(f"segment row: {reason} (at byte {row.at})", offset=row.at)
    return 0


cdef int open_version(object value, int64_t timestamp, View *view, Version *version) except -1:
    version.timestamp = timestamp
    version.value = NULL
    version.size = TOMBSTONE
    view.held = False
    if value is not None:
        open_view(value, view)
        version.value = view.data
        version.size = view.size
        if view.size > INT32_MAX:
            close_view(view)
            raise FormatError(
                f"segment row: a value of {version.size} bytes exceeds the limit of 2**31 - 1"
            )
    return 0


cdef bytes spliced(
    const Row *row, Py_ssize_t begin, Py_ssize_t end,
    const Version *added, int count, int64_t next_timestamp, int64_t min_timestamp,
):
    """Return a row with the versions `begin` to `end - 1` replaced by `added`, newest first.

    If `row` is NULL, the result contains only `added`.
    """
    cdef Py_ssize_t total = 0 if row is NULL else row.count
    cdef Py_ssize_t newer = 0 if row is NULL else value_bytes(row, 0, begin)
    cdef Py_ssize_t older = 0 if row is NULL else value_bytes(row, end, total)
    cdef Py_ssize_t versions = total - (end - begin) + count
    cdef Py_ssize_t size = HEAD_BYTES + versions * ENTRY_BYTES + newer + older
    cdef uint8_t *here
    cdef bytes result
    cdef int i
    for i in range(count):
        if added[i].size > 0:
            size += added[i].size
    result = new_bytes(size)
    here = store_i64(address(result), next_timestamp)
    here = store_i64(here, min_timestamp)
    if begin > 0:
        here = put(here, entry_at(row, 0), begin * ENTRY_BYTES)
    for i in range(count):
        here = store_i64(here, added[i].timestamp)
        here = store_i32(here, <int32_t>added[i].size)
    if end < total:
        here = put(here, entry_at(row, end), (total - end) * ENTRY_BYTES)
    if older > 0:
        here = put(here, entry_at(row, total), older)
    for i in range(count - 1, -1, -1):
        if added[i].size > 0:
            here = put(here, added[i].value, added[i].size)
    if newer > 0:
        put(here, row.data + row.size - newer, newer)
    return result


cdef object value_of(const Row *row, Py_ssize_t index, Py_ssize_t newer):
    """Return the value of a version. `newer` is the size in bytes of all newer values."""
    cdef int32_t size = entry_size(row, index)
    if size < 0:
        return None
    return copy_bytes(row.data + row.size - newer - size, size)


cdef object misplaced(str what, int64_t timestamp, const Row *row):
    return ValueError(
        f"{what}: the timestamp {timestamp} is not valid; the row has {row.count} versions from "
        f"{row.min_timestamp} (inclusive) to {row.next_timestamp} (exclusive)"
    )
