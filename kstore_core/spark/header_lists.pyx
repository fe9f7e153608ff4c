# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Rows chosen of a column of headers: three copies a row, however many headers it has."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from kstore_core.codec.arrow_in cimport (
    Column,
    HeaderLists,
    Texts,
    Times,
    is_set,
    offset_at,
    open_column,
    text_valid,
)
from kstore_core.codec.arrow_out cimport (
    ListsOut,
    TextsOut,
    allocate_lists,
    clear_bit,
    free_lists,
    lists_array,
    null_list,
)
from kstore_core.codec.buffers cimport put

__all__ = ["take_headers"]


cdef struct Sizes:
    int64_t headers
    int64_t key_bytes
    int64_t value_bytes


def take_headers(headers, rows):
    """The header lists of some rows, as ``headers.take(rows)`` gives them.

    Parameters
    ----------
    headers : Arrow array of list<struct<key: string, value: binary>>
    rows : Arrow array of int64
        Which; null gives null.

    Returns
    -------
    pyarrow.ListArray

    Raises
    ------
    IndexError
        There is no such row.
    OverflowError
        More comes together than a column holds; take fewer rows at a time.
    """
    cdef Column header_column = open_column(headers, "headers")
    cdef Column row_column = open_column(rows, "rows")
    cdef HeaderLists lists
    cdef Times chosen
    cdef ListsOut out
    cdef Sizes sizes
    cdef int64_t wrong
    memset(&lists, 0, sizeof(HeaderLists))
    memset(&out, 0, sizeof(ListsOut))
    memset(&sizes, 0, sizeof(Sizes))
    header_column.as_header_lists(&lists)
    row_column.as_times(&chosen, "rows")
    try:
        with nogil:
            wrong = measure(&lists, &chosen, &sizes)
        if wrong >= 0:
            raise IndexError(f"row {chosen.data[wrong]} of {lists.length} lists of headers")
        allocate_lists(&out, chosen.length, sizes.headers, sizes.key_bytes, sizes.value_bytes)
        with nogil:
            gather(&lists, &chosen, &out)
        return lists_array(&out)
    finally:
        free_lists(&out)


cdef int64_t measure(const HeaderLists *lists, const Times *rows, Sizes *sizes) noexcept nogil:
    """Add up what comes out; returns the first of `rows` that is none, or -1."""
    cdef int64_t i, row, begin, end
    for i in range(rows.length):
        if not is_set(&rows.valid, i):
            continue
        row = rows.data[i]
        if row < 0 or row >= lists.length:
            return i
        if lists.absent or not is_set(&lists.valid, row):
            continue
        begin = offset_at(&lists.offsets, row)
        end = offset_at(&lists.offsets, row + 1)
        if begin == end:
            continue
        sizes.headers += end - begin
        sizes.key_bytes += offset_at(&lists.keys.offsets, end)
        sizes.key_bytes -= offset_at(&lists.keys.offsets, begin)
        if not lists.values.all_null:
            sizes.value_bytes += offset_at(&lists.values.offsets, end)
            sizes.value_bytes -= offset_at(&lists.values.offsets, begin)
    return -1


cdef void gather(const HeaderLists *lists, const Times *rows, ListsOut *out) noexcept nogil:
    cdef int64_t i, row, begin, end
    for i in range(rows.length):
        if not is_set(&rows.valid, i) or lists.absent or not is_set(&lists.valid, rows.data[i]):
            null_list(out, i)
            continue
        row = rows.data[i]
        begin = offset_at(&lists.offsets, row)
        end = offset_at(&lists.offsets, row + 1)
        copy_texts(&lists.keys, begin, end, &out.keys, out.total)
        copy_texts(&lists.values, begin, end, &out.values, out.total)
        out.total += end - begin
        out.offsets[i + 1] = <int32_t>out.total


cdef inline void copy_texts(
    const Texts *texts, int64_t begin, int64_t end, TextsOut *out, int64_t at
) noexcept nogil:
    """Copy a run of texts, whose bytes lie behind one another, to the places from `at` on."""
    cdef int32_t *offsets = <int32_t *>out.offsets
    cdef int64_t from_byte, size, i
    if begin == end:
        return
    if texts.all_null:
        for i in range(at, at + end - begin):
            clear_bit(out.valid, i)
            offsets[i + 1] = <int32_t>out.written
        out.nulls += end - begin
        return
    from_byte = offset_at(&texts.offsets, begin)
    for i in range(begin, end):
        offsets[at + i - begin + 1] = <int32_t>(
            out.written + offset_at(&texts.offsets, i + 1) - from_byte
        )
        if not text_valid(texts, i):
            clear_bit(out.valid, at + i - begin)
            out.nulls += 1
    size = offsets[at + end - begin] - out.written
    put(out.data + out.written, texts.data + from_byte, <Py_ssize_t>size)
    out.written += size
