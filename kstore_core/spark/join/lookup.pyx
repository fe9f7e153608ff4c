# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic, cdivision=True
"""A lookup of versions by key and time, which finds the versions for whole Arrow columns.

For each row, the lookup selects the index of the key's shard by the key's hash, finds the key in
the hash table of the index, and then bisects the versions of the key.
"""

cimport cython
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from kstore_core.codec.arrow.input cimport Column, Texts, Times, is_set, open_column, text_at, text_valid
from kstore_core.codec.arrow.output cimport TimesOut, allocate_times, free_times, null_time, times_array
from kstore_core.codec.keys.murmur2 cimport murmur2_hash
from kstore_core.engine.prefetching cimport prefetch
from kstore_core.spark.join.version_index cimport VersionIndex
from kstore_core.spark.join.version_runs cimport (
    Key, Runs, Version, fetch_ahead, first_after, key_of_hash, rounded_down,
)

__all__ = ["VersionLookup"]

cdef enum:
    BLOCK = 64                  # the number of rows whose keys are prefetched together

cdef uint64_t UNLIMITED = 0xFFFFFFFFFFFFFFFFU


@cython.final
cdef class VersionLookup:
    """A lookup of versions in one or several indexes.

    `indexes` contains objects of the class `VersionIndex`. The index at the position `i` has the
    versions of the shards `i`, `i + len(indexes)`, `i + 2 * len(indexes)` and so on. `shards` is
    the number of shards. It has no effect if there is only one index.

    The versions of the indexes are numbered one after the other: a version at the position `p` of
    the columns of index `i` has the position `p` plus the numbers of the versions of all earlier
    indexes.
    """

    def __cinit__(self, indexes, shards=1):
        cdef VersionIndex index
        cdef int64_t base = 0
        self.indexes = tuple(indexes)
        if not 1 <= len(self.indexes) <= shards:
            raise ValueError(
                f"{len(self.indexes)} indexes of {shards} shards were given; pass at least one "
                "index, and not more indexes than shards"
            )
        self.parts.count = len(self.indexes)
        self.parts.shards = shards
        self.parts.all = <Part *>malloc(<size_t>self.parts.count * sizeof(Part))
        if self.parts.all is NULL:
            raise MemoryError(f"no memory for a lookup in {self.parts.count} indexes")
        for number, each in enumerate(self.indexes):
            index = <VersionIndex?>each
            self.parts.all[<int64_t>number].runs = &index.runs
            self.parts.all[<int64_t>number].base = base
            base += index.runs.n_versions

    def __dealloc__(self):
        free(self.parts.all)

    def __len__(self):
        return sum([len(index) for index in self.indexes])

    @property
    def nbytes(self):
        """The size of the indexes in bytes."""
        return sum([index.nbytes for index in self.indexes])

    def find(self, keys, times, tolerance_ms=None):
        """Find the version of each row's key that is valid at the row's time.

        `keys` contains the key of each row, and `times` the time of each row, as ms or timestamps.
        `tolerance_ms` is the greatest age in ms, inclusive, that a version may have at the row's
        time. The age is the row's time minus the version's begin. There is no limit if
        `tolerance_ms` is None.

        If a row's time is before the start of the history of its key's shard, only a version that
        is still valid is found. The store may have removed some of the other versions that were
        valid at the time.

        Return three columns of int64 with one value for each row. The first column contains the
        position of the row's version. The second column contains the begin of the version, and the
        third column contains the end. All three values are null if no version was found, or if the
        row's key or time is null. The end is also null if the version is still valid.
        """
        cdef Column key_column = open_column(keys, "keys")
        cdef Column time_column = open_column(times, "times")
        cdef Texts texts
        cdef Times when
        cdef TimesOut rows, begins, ends
        cdef uint64_t tolerance = UNLIMITED
        memset(&texts, 0, sizeof(Texts))
        key_column.as_texts(&texts, "keys", False)
        time_column.as_times(&when, "times")
        if texts.length != when.length:
            raise ValueError(
                f"{texts.length} keys and {when.length} times were given; pass one key and one "
                "time for each row"
            )
        if tolerance_ms is not None:
            if tolerance_ms < 0:
                raise ValueError(f"tolerance_ms={tolerance_ms} is negative; pass 0 or more")
            tolerance = min(tolerance_ms, UNLIMITED)
        memset(&rows, 0, sizeof(TimesOut))
        memset(&begins, 0, sizeof(TimesOut))
        memset(&ends, 0, sizeof(TimesOut))
        try:
            allocate_times(&rows, texts.length)
            allocate_times(&begins, texts.length)
            allocate_times(&ends, texts.length)
            with nogil:
                search(&self.parts, &texts, &when, tolerance, &rows, &begins, &ends)
            return times_array(&rows), times_array(&begins), times_array(&ends)
        finally:
            free_times(&rows)
            free_times(&begins)
            free_times(&ends)


# The last version of a row's key that begins at the row's time or before. If `place` is less than
# `key.first`, there is no such version.
cdef struct Candidate:
    const Part *part            # the index of the row's shard
    const Key *key              # NULL if the index does not contain the key
    int64_t place               # the position of the version in `Runs.versions`


cdef void search(
    const Parts *parts, const Texts *keys, const Times *times, uint64_t tolerance,
    TimesOut *rows, TimesOut *begins, TimesOut *ends,
) noexcept nogil:
    cdef int64_t start = 0
    cdef int64_t i
    cdef int count
    cdef uint32_t[BLOCK] hashes
    cdef const Runs *runs[BLOCK]
    cdef Candidate[BLOCK] found
    cdef Py_ssize_t size = 0
    cdef const uint8_t *data
    cdef const Version *version
    while start < keys.length:
        count = <int>min(keys.length - start, <int64_t>BLOCK)
        for i in range(count):
            hashes[i] = 0
            if text_valid(keys, start + i):
                data = text_at(keys, start + i, &size)
                hashes[i] = murmur2_hash(data, size)
            found[i].part = part_of(parts, hashes[i])
            runs[i] = found[i].part.runs
        fetch_ahead(runs, hashes, count)
        for i in range(count):
            found[i].key = NULL
            if text_valid(keys, start + i) and is_set(&times.valid, start + i):
                data = text_at(keys, start + i, &size)
                found[i].key = key_of_hash(runs[i], data, size, hashes[i])
            if found[i].key is not NULL:
                found[i].place = first_after(runs[i], found[i].key, rounded_down(times, start + i)) - 1
                prefetch(&runs[i].versions[found[i].place])
        for i in range(count):
            version = NULL
            if found[i].key is not NULL and found[i].place >= found[i].key.first:
                version = &runs[i].versions[found[i].place]
                if not answers(version, found[i].key, times, start + i, tolerance):
                    version = NULL
            put_version(found[i].part, version, start + i, rows, begins, ends)
        start += count


cdef inline void put_version(
    const Part *part, const Version *version, int64_t row,
    TimesOut *rows, TimesOut *begins, TimesOut *ends,
) noexcept nogil:
    """Write the position, begin and end of a row's version to the result.

    Write nulls if `version` is NULL.
    """
    if version is NULL:
        null_time(rows, row)
        null_time(begins, row)
        null_time(ends, row)
        return
    rows.data[row] = part.base + version.row
    begins.data[row] = version.begin
    ends.data[row] = version.end
    if version.end == INT64_MAX:
        null_time(ends, row)


cdef inline bint answers(
    const Version *version, const Key *key, const Times *times, int64_t row, uint64_t tolerance
) noexcept nogil:
    """Return True if the last version that begins before or at a row's time matches the row.

    The version must be valid at the row's time, and must not be older than the tolerance at that
    time. If the time is before the history of the key's shard, the version must also be valid now.
    """
    cdef int64_t time = rounded_down(times, row)
    cdef uint64_t age
    if time >= version.end or (time < key.horizon and version.end != INT64_MAX):
        return False
    age = <uint64_t>time - <uint64_t>version.begin
    if times.divide != 1 and times.data[row] % times.divide:
        age += 1                # round the age up to a whole ms
    return age <= tolerance
