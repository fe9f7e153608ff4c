# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: cdivision=True
"""A function that finds the bytes of rows at arbitrary positions of Arrow columns."""

cimport cython
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset, strcmp

from kstore_core.codec.arrow.gather cimport View
from kstore_core.codec.arrow.input cimport Column, Texts, Times, is_set, open_column, text_at, text_valid
from kstore_core.engine.prefetching cimport prefetch, prefetch_all

cdef enum:
    AHEAD = 16                  # the number of rows by which memory is prefetched
    MOST_COPIED = 64 * 1024 * 1024


# A column, and the position of its first row among the rows of all columns.
cdef struct Source:
    Texts texts
    int64_t first


@cython.final
cdef class Gathered:

    def __dealloc__(self):
        free(self.views)
        free(self.copied)

    cdef int copy(self) except -1:
        """Copy the rows into adjacent memory, unless they are large.

        The rows are far apart, so each first read of a row takes long. A decoder reads them twice.
        """
        cdef int64_t row
        for row in range(self.length):
            self.size += max(self.views[row].size, 0)
        if self.size > MOST_COPIED:
            return 0
        self.copied = <uint8_t *>malloc(<size_t>self.size + 1)
        if self.copied is NULL:
            raise MemoryError(f"no memory for {self.size} bytes of rows")
        with nogil:
            copy_rows(self.views, self.length, self.copied)
        return 0


cdef Gathered gathered(columns, positions):
    """Return views of the rows at `positions` of the concatenated `columns`.

    `columns` contains Arrow columns of binary, and `positions` is a column of int64. A null
    position gives a null row. Raise an IndexError if the columns have no row at a position.
    """
    cdef Gathered rows = Gathered.__new__(Gathered)
    cdef Column column
    cdef Column position_column = open_column(positions, "positions")
    cdef Times places
    cdef Source *sources
    cdef int64_t total = 0
    cdef int64_t bad
    cdef int count = len(columns)
    cdef int i
    position_column.as_times(&places, "positions")
    if strcmp(position_column.schema.format, b"l") != 0:
        raise TypeError("positions: the column must be int64, and it contains timestamps")
    rows.columns = [open_column(each, "rows") for each in columns]
    rows.length = places.length
    rows.views = <View *>malloc(<size_t>places.length * sizeof(View) + 1)
    sources = <Source *>malloc(<size_t>count * sizeof(Source) + 1)
    try:
        if rows.views is NULL or sources is NULL:
            raise MemoryError(f"no memory for the views of {places.length} rows")
        memset(sources, 0, <size_t>count * sizeof(Source))
        for i in range(count):
            column = rows.columns[i]
            column.as_texts(&sources[i].texts, "rows", False)
            sources[i].first = total
            total += sources[i].texts.length
        with nogil:
            bad = find(rows.views, &places, sources, count, total)
        if bad >= 0:
            raise IndexError(
                f"row {bad} has the position {places.data[bad]}, but the columns have only the "
                f"positions from 0 to {total}, exclusive"
            )
    finally:
        free(sources)
    rows.copy()
    return rows


cdef int64_t find(
    View *views, const Times *places, const Source *sources, int count, int64_t total
) noexcept nogil:
    """Set `views` to the rows at `places`. Return the first row with a wrong position, or -1."""
    cdef const Source *source
    cdef int64_t row, place
    for row in range(places.length):
        if row + AHEAD < places.length:
            place = places.data[row + AHEAD]
            if is_set(&places.valid, row + AHEAD) and 0 <= place < total:
                source = source_of(sources, count, place)
                prefetch_offset(&source.texts, place - source.first)
        views[row].data = NULL
        views[row].size = -1
        if not is_set(&places.valid, row):
            continue
        place = places.data[row]
        if not 0 <= place < total:
            return row
        source = source_of(sources, count, place)
        if text_valid(&source.texts, place - source.first):
            views[row].data = text_at(&source.texts, place - source.first, &views[row].size)
    return -1


cdef void copy_rows(View *views, int64_t length, uint8_t *out) noexcept nogil:
    cdef int64_t row
    for row in range(length):
        if row + AHEAD < length and views[row + AHEAD].size > 0:
            prefetch_all(views[row + AHEAD].data, views[row + AHEAD].data + views[row + AHEAD].size)
        if views[row].size > 0:
            memcpy(out, views[row].data, <size_t>views[row].size)
            views[row].data = out
            out += views[row].size


cdef inline const Source *source_of(const Source *sources, int count, int64_t place) noexcept nogil:
    """Return the column that contains the row at a position."""
    cdef int low = 0
    cdef int high = count
    cdef int middle
    while high - low > 1:
        middle = (low + high) >> 1
        if sources[middle].first <= place:
            low = middle
        else:
            high = middle
    return &sources[low]


cdef inline void prefetch_offset(const Texts *texts, int64_t index) noexcept nogil:
    if texts.offsets.wide is NULL:
        prefetch(&texts.offsets.narrow[index])
    else:
        prefetch(&texts.offsets.wide[index])
