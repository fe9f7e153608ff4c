# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic, cdivision=True
"""A function that finds, for Arrow columns of keys and spans of time, the overlapping versions."""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from kstore_core.codec.arrow.input cimport Column, Texts, Times, is_set, open_column, text_at, text_valid
from kstore_core.codec.arrow.output cimport TimesOut, allocate_times, free_times, null_time, times_array
from kstore_core.codec.keys.murmur2 cimport murmur2_hash
from kstore_core.spark.join.lookup cimport Part, Parts, VersionLookup, part_of
from kstore_core.spark.join.version_index cimport open_spans
from kstore_core.spark.join.version_runs cimport Key, Version, first_after, key_of_hash, rounded_down

__all__ = ["overlaps"]


# The result of `overlaps`. Before its columns are allocated, `add` only counts the pieces.
cdef struct Pieces:
    int64_t count
    TimesOut rows
    TimesOut versions
    TimesOut since              # the begin of the version of each piece
    TimesOut begins             # the begin of each piece
    TimesOut ends               # the end of each piece


def overlaps(
    VersionLookup lookup not None, keys, begins, ends,
    *, bint gaps=False, int64_t start=0, int64_t limit=0,
):
    """Cut the span of time of each row into pieces, one piece for each version of the row's key.

    Row i has the key `keys[i]` and the span from `begins[i]`, inclusive, to `ends[i]`, exclusive.
    Times are int64 in ms. If `ends[i]` is null, the span has no end. If `begins[i]` is null, the
    row has no span and no pieces. A null key has no versions. The function ignores the start of a
    shard's history.

    A piece is the part of the span during which the version is valid. If `gaps` is true, the result
    also has a piece, called a gap, for each part of a span during which the key has no version.

    The function reads rows from the position `start` on. If `limit` is not 0, the function stops
    after the row at which the number of pieces reaches `limit`.

    Return the position of the first row after the rows that were read, and five columns of int64
    with one value for each piece. The pieces are sorted by row and time. The columns contain:

    1. the position of the row,
    2. the position of the version, see :class:`VersionLookup`; null for a gap,
    3. the begin of the version; null for a gap,
    4. the begin of the piece,
    5. the end of the piece; null if the piece has no end.
    """
    cdef Column key_column = open_column(keys, "keys")
    cdef Column begin_column = open_column(begins, "begins")
    cdef Column end_column = open_column(ends, "ends")
    cdef Texts texts
    cdef Times from_times, to_times
    cdef Pieces pieces
    cdef int64_t next_row = start
    cdef int64_t i
    open_spans(
        key_column, begin_column, end_column, "row", &texts, &from_times, &to_times
    )
    if not 0 <= start <= texts.length:
        raise ValueError(
            f"start={start} is not a position of a row; pass a number from 0 to {texts.length}, the "
            "number of rows"
        )
    memset(&pieces, 0, sizeof(Pieces))
    try:
        with nogil:
            while next_row < texts.length and (limit < 1 or pieces.count < limit):
                cut(&lookup.parts, &texts, &from_times, &to_times, next_row, gaps, &pieces)
                next_row += 1
        allocate_times(&pieces.rows, pieces.count)
        allocate_times(&pieces.versions, pieces.count)
        allocate_times(&pieces.since, pieces.count)
        allocate_times(&pieces.begins, pieces.count)
        allocate_times(&pieces.ends, pieces.count)
        pieces.count = 0
        with nogil:
            for i in range(start, next_row):
                cut(&lookup.parts, &texts, &from_times, &to_times, i, gaps, &pieces)
        return (
            next_row,
            times_array(&pieces.rows),
            times_array(&pieces.versions),
            times_array(&pieces.since),
            times_array(&pieces.begins),
            times_array(&pieces.ends),
        )
    finally:
        free_times(&pieces.rows)
        free_times(&pieces.versions)
        free_times(&pieces.since)
        free_times(&pieces.begins)
        free_times(&pieces.ends)


cdef void cut(
    const Parts *parts, const Texts *keys, const Times *begins, const Times *ends, int64_t row,
    bint gaps, Pieces *pieces,
) noexcept nogil:
    """Cut the span of the row at the position `row`, and add its pieces to `pieces`."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t *data
    cdef const Part *part = NULL
    cdef const Key *key = NULL
    cdef const Version *version
    cdef uint32_t hash
    cdef int64_t at, here, end
    if not is_set(&begins.valid, row):
        return
    here = rounded_down(begins, row)
    end = rounded_down(ends, row) if is_set(&ends.valid, row) else INT64_MAX
    if text_valid(keys, row):
        data = text_at(keys, row, &size)
        hash = murmur2_hash(data, size)
        part = part_of(parts, hash)
        key = key_of_hash(part.runs, data, size, hash)
    if key is not NULL:
        for at in range(max(first_after(part.runs, key, here) - 1, key.first), (key + 1).first):
            version = &part.runs.versions[at]
            if version.end <= here:
                continue
            if version.begin >= end or here >= end:
                break
            if version.begin > here:
                if gaps:
                    add(pieces, row, NULL, NULL, here, version.begin)
                here = version.begin
            add(pieces, row, part, version, here, min(version.end, end))
            here = min(version.end, end)
    if gaps and here < end:
        add(pieces, row, NULL, NULL, here, end)


cdef inline void add(
    Pieces *pieces, int64_t row, const Part *part, const Version *version,
    int64_t begin, int64_t end,
) noexcept nogil:
    cdef int64_t at = pieces.count
    pieces.count += 1
    if pieces.rows.data is NULL:
        return
    pieces.rows.data[at] = row
    pieces.begins.data[at] = begin
    pieces.ends.data[at] = end
    if end == INT64_MAX:
        null_time(&pieces.ends, at)
    if version is NULL:
        null_time(&pieces.versions, at)
        null_time(&pieces.since, at)
    else:
        pieces.versions.data[at] = part.base + version.row
        pieces.since.data[at] = version.begin
