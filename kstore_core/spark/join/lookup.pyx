# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic, cdivision=True
"""An index of versions by key and time, which looks up whole Arrow columns.

The lookup of a row probes a hash table for the key, and bisects the versions of the key. An index
never changes.
"""

cimport cython
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from kstore_core.codec.arrow.input cimport Column, Texts, Times, is_set, open_column, text_at, text_valid
from kstore_core.codec.arrow.output cimport TimesOut, allocate_times, free_times, null_time, times_array
from kstore_core.codec.keys.murmur2 cimport murmur2_hash
from kstore_core.engine.prefetching cimport prefetch
from kstore_core.spark.join.version_runs cimport (
    NO_MEMORY, WHOLE, Built, Key, Runs, Version, build_runs, fetch_ahead, first_after, free_runs,
    key_of_hash, rounded_down,
)

__all__ = ["VersionIndex"]

cdef enum:
    BLOCK = 64                  # the number of rows whose keys are prefetched together

cdef int64_t MOST_VERSIONS = 0xFFFFFFFE     # a slot stores a key's number, plus one, in 32 bits
cdef uint64_t UNLIMITED = 0xFFFFFFFFFFFFFFFFU


@cython.final
cdef class VersionIndex:
    """An index of versions by key and time.

    The arguments `keys`, `begins` and `ends` are columns with one row for each version, in any
    order. Keys are binary and must not be null. A version is valid from its begin, inclusive, to
    its end, exclusive, both in ms. The end is null for a version that is still valid. The versions
    of a key must not overlap.

    `horizons` contains the start of the history of each shard in ms, by the number of the shard.
    For a time before that start, a lookup finds only a version that is still valid, because
    other versions may have expired.
    """

    def __cinit__(self, keys, begins, ends, horizons):
        cdef Column key_column = open_column(keys, "keys")
        cdef Column begin_column = open_column(begins, "begins")
        cdef Column end_column = open_column(ends, "ends")
        cdef Texts texts
        cdef Times from_times, to_times
        cdef int64_t *of_shards
        cdef int64_t shards = len(horizons)
        cdef int64_t i
        cdef Built built
        memset(&texts, 0, sizeof(Texts))
        key_column.as_texts(&texts, "keys", False)
        begin_column.as_times(&from_times, "begins")
        end_column.as_times(&to_times, "ends")
        if not texts.length == from_times.length == to_times.length:
            raise ValueError(
                f"{texts.length} keys, {from_times.length} begins and {to_times.length} ends were "
                "given; pass one key, one begin and one end for each version"
            )
        if shards < 1:
            raise ValueError("horizons is empty; pass one horizon for each shard")
        if texts.length > MOST_VERSIONS:
            raise OverflowError(
                f"{texts.length} versions are too many; an index has at most {MOST_VERSIONS}"
            )
        of_shards = <int64_t *>malloc(<size_t>shards * sizeof(int64_t))
        if of_shards is NULL:
            raise MemoryError(f"no memory for {shards} horizons")
        try:
            for i in range(shards):
                of_shards[i] = horizons[i]
            with nogil:
                built = build_runs(&self.runs, &texts, &from_times, &to_times, of_shards, shards)
        finally:
            free(of_shards)
        if built == NO_MEMORY:
            raise MemoryError(f"no memory for an index of {texts.length} versions")
        if built != WHOLE:
            raise ValueError("the key or the begin of a version is null; pass versions without nulls")

    def __dealloc__(self):
        free_runs(&self.runs)

    def __len__(self):
        return self.runs.n_versions

    @property
    def nbytes(self):
        """The size of the index in bytes."""
        return (
            (<int64_t>1 << (64 - self.runs.shift)) * <int64_t>sizeof(uint64_t)
            + (self.runs.n_keys + 1) * <int64_t>sizeof(Key)
            + self.runs.n_versions * <int64_t>(sizeof(Version) + sizeof(int64_t))
            + self.runs.n_bytes
        )

    def find(self, keys, times, tolerance_ms=None):
        """Find the version of each row's key that is valid at the row's time.

        The column `times` contains ms or timestamps. `tolerance_ms` is the greatest age in ms of a
        version at that time, inclusive; there is no limit if it is None.

        Return three columns of int64: the position of each version in the columns of the index,
        its begin, and its end. The three values are null for a row without a version, and for a
        row whose key or time is null. The end is also null for a version that is still valid.
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
                search(&self.runs, &texts, &when, tolerance, &rows, &begins, &ends)
            return times_array(&rows), times_array(&begins), times_array(&ends)
        finally:
            free_times(&rows)
            free_times(&begins)
            free_times(&ends)


# The last version of a row's key that begins at the row's time or before. There is no such version
# if `place` is less than the first place of the key.
cdef struct Candidate:
    const Key *key              # NULL if the index does not contain the key
    int64_t place


cdef void search(
    const Runs *runs, const Texts *keys, const Times *times, uint64_t tolerance,
    TimesOut *rows, TimesOut *begins, TimesOut *ends,
) noexcept nogil:
    cdef int64_t start = 0
    cdef int64_t i
    cdef int count
    cdef uint32_t[BLOCK] hashes
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
        fetch_ahead(runs, hashes, count)
        for i in range(count):
            found[i].key = NULL
            if text_valid(keys, start + i) and is_set(&times.valid, start + i):
                data = text_at(keys, start + i, &size)
                found[i].key = key_of_hash(runs, data, size, hashes[i])
            if found[i].key is not NULL:
                found[i].place = first_after(runs, found[i].key, rounded_down(times, start + i)) - 1
                prefetch(&runs.versions[found[i].place])
        for i in range(count):
            version = NULL
            if found[i].key is not NULL and found[i].place >= found[i].key.first:
                version = &runs.versions[found[i].place]
                if not answers(version, found[i].key, times, start + i, tolerance):
                    version = NULL
            put_version(version, start + i, rows, begins, ends)
        start += count


cdef inline void put_version(
    const Version *version, int64_t row, TimesOut *rows, TimesOut *begins, TimesOut *ends
) noexcept nogil:
    """Write the position, begin and end of a row's version, or nulls if there is none."""
    if version is NULL:
        null_time(rows, row)
        null_time(begins, row)
        null_time(ends, row)
        return
    rows.data[row] = version.row
    begins.data[row] = version.begin
    ends.data[row] = version.end
    if version.end == INT64_MAX:
        null_time(ends, row)


cdef inline bint answers(
    const Version *version, const Key *key, const Times *times, int64_t row, uint64_t tolerance
) noexcept nogil:
    """Return True if a row matches a version.

    The version must be valid at the row's time, and must not be older than the tolerance. If the
    time is before the history of the key's shard, the version must be still valid.
    """
    cdef int64_t time = rounded_down(times, row)
    cdef uint64_t age
    if time >= version.end or (time < key.horizon and version.end != INT64_MAX):
        return False
    age = <uint64_t>time - <uint64_t>version.begin
    if times.divide != 1 and times.data[row] % times.divide:
        age += 1                # rounds up to a whole ms
    return age <= tolerance
