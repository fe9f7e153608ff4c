# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic, cdivision=True
"""An index of versions by key and time, which finds the versions for whole Arrow columns.

For each row, the index finds the key in a hash table, and then bisects the versions of the key. An
index never changes after its creation.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
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

# A slot stores the number of a key plus 1 in 32 bits, which limits the number of versions.
cdef int64_t MOST_VERSIONS = 0xFFFFFFFE
cdef uint64_t UNLIMITED = 0xFFFFFFFFFFFFFFFFU
cdef object MAPPED = object()   # the first argument of an index whose arrays `mapped` sets


@cython.final
cdef class VersionIndex:
    """An index of versions by key and time.

    The arguments `keys`, `begins` and `ends` are Arrow columns with one row for each version, in
    any order. Keys must be binary, and must not be null. A version is valid from its begin,
    inclusive, to its end, exclusive. Both times are in ms. The begin must not be null. The end must
    be null if the version is still valid. The versions of a key must not overlap.

    `horizons` contains for each shard the start of the shard's history in ms. The first item
    belongs to shard 0. If a row's time is before the start of the history of its key's shard,
    `find` returns a version for the row only if the version is still valid. `find` returns no other
    version for such a row, because the store may have removed some of the versions that were valid
    at the time.
    """

    def __cinit__(self, keys, begins, ends, horizons):
        if keys is not MAPPED:
            self.build(keys, begins, ends, horizons)

    @staticmethod
    def mapped(buffer, shape):
        """Return an index whose arrays are in `buffer`, without a copy of them.

        `buffer` contains the bytes of :attr:`arrays` of another index one after the other, and must
        begin at a multiple of 8 bytes. `shape` is the :attr:`shape` of that index.
        """
        cdef VersionIndex index = VersionIndex.__new__(VersionIndex, MAPPED, None, None, None)
        PyObject_GetBuffer(buffer, &index.buffer, PyBUF_SIMPLE)
        index.borrowed = True
        n_keys, n_versions, n_bytes, shift = shape
        index.point_into_buffer(n_keys, n_versions, n_bytes, shift)
        return index

    cdef int point_into_buffer(
        self, int64_t n_keys, int64_t n_versions, int64_t n_bytes, int shift
    ) except -1:
        """Make the arrays of `self.runs` point into `self.buffer`."""
        cdef int64_t[5] sizes
        cdef uint8_t *at = <uint8_t *>self.buffer.buf
        cdef bint right = 0 < shift < 64 and min(n_keys, n_versions, n_bytes) >= 0
        if right:
            array_sizes(sizes, n_keys, n_versions, n_bytes, shift)
            right = sizes[0] + sizes[1] + sizes[2] + sizes[3] + sizes[4] == self.buffer.len
        if not right or <size_t>at % 8:
            raise ValueError(
                f"{self.buffer.len} bytes are not the arrays of an index with the shape "
                f"{(n_keys, n_versions, n_bytes, shift)}; pass the arrays and the shape of one index"
            )
        self.runs.n_keys, self.runs.n_versions, self.runs.n_bytes = n_keys, n_versions, n_bytes
        self.runs.shift = shift
        self.runs.slots = <uint64_t *>at
        self.runs.keys = <Key *>(at + sizes[0])
        self.runs.versions = <Version *>(at + sizes[0] + sizes[1])
        self.runs.begins = <int64_t *>(at + sizes[0] + sizes[1] + sizes[2])
        self.runs.bytes = at + sizes[0] + sizes[1] + sizes[2] + sizes[3]
        return 0

    cdef int build(self, keys, begins, ends, horizons) except -1:
        """Build the arrays of `self.runs` from Arrow columns."""
        cdef Column key_column = open_column(keys, "keys")
        cdef Column begin_column = open_column(begins, "begins")
        cdef Column end_column = open_column(ends, "ends")
        cdef Texts texts
        cdef Times from_times, to_times
        cdef int64_t *of_shards
        cdef int64_t shards = len(horizons)
        cdef int64_t i
        cdef Built built
        open_spans(
            key_column, begin_column, end_column, "version", &texts, &from_times, &to_times
        )
        if shards < 1:
            raise ValueError("horizons is empty; pass the start of the history of each shard")
        if texts.length > MOST_VERSIONS:
            raise OverflowError(
                f"{texts.length} versions are too many for one index, which can have at most "
                f"{MOST_VERSIONS} versions"
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
            raise ValueError(
                "the key or the start time of a version is null; pass versions without nulls"
            )
        return 0

    def __dealloc__(self):
        if self.borrowed:
            PyBuffer_Release(&self.buffer)
        else:
            free_runs(&self.runs)

    def __len__(self):
        return self.runs.n_versions

    @property
    def nbytes(self):
        """The size of the index in bytes."""
        return sum([len(array) for array in self.arrays])

    @property
    def shape(self):
        """The numbers of keys, versions and bytes of keys, and the `Runs.shift` of the table."""
        return self.runs.n_keys, self.runs.n_versions, self.runs.n_bytes, self.runs.shift

    @property
    def arrays(self):
        """The memory of each array of the index, which is valid as long as the index exists."""
        cdef int64_t[5] sizes
        array_sizes(
            sizes, self.runs.n_keys, self.runs.n_versions, self.runs.n_bytes, self.runs.shift
        )
        return [
            PyMemoryView_FromMemory(<char *>self.runs.slots, sizes[0], PyBUF_READ),
            PyMemoryView_FromMemory(<char *>self.runs.keys, sizes[1], PyBUF_READ),
            PyMemoryView_FromMemory(<char *>self.runs.versions, sizes[2], PyBUF_READ),
            PyMemoryView_FromMemory(<char *>self.runs.begins, sizes[3], PyBUF_READ),
            PyMemoryView_FromMemory(<char *>self.runs.bytes, sizes[4], PyBUF_READ),
        ]

    def find(self, keys, times, tolerance_ms=None):
        """Find the version of each row's key that is valid at the row's time.

        `keys` contains the key of each row, and `times` the time of each row, as ms or timestamps.
        `tolerance_ms` is the greatest age in ms, inclusive, that a version may have at the row's
        time. The age is the row's time minus the version's begin. There is no limit if
        `tolerance_ms` is None.

        Return three columns of int64 with one value for each row. The first column contains the
        position of the row's version in the columns from which the index was made. The second
        column contains the begin of the version, and the third column contains the end. All three
        values are null if no version was found, or if the row's key or time is null. The end is
        also null if the version is still valid.
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


cdef void array_sizes(
    int64_t *sizes, int64_t n_keys, int64_t n_versions, int64_t n_bytes, int shift
) noexcept nogil:
    """Write the number of bytes of each array of `Runs` to `sizes`."""
    sizes[0] = (<int64_t>1 << (64 - shift)) * <int64_t>sizeof(uint64_t)
    sizes[1] = (n_keys + 1) * <int64_t>sizeof(Key)
    sizes[2] = n_versions * <int64_t>sizeof(Version)
    sizes[3] = n_versions * <int64_t>sizeof(int64_t)
    sizes[4] = n_bytes


# The last version of a row's key that begins at the row's time or before. If `place` is less than
# `key.first`, there is no such version.
cdef struct Candidate:
    const Key *key              # NULL if the index does not contain the key
    int64_t place               # the position of the version in `Runs.versions`


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
    """Write the position, begin and end of a row's version to the result.

    Write nulls if `version` is NULL.
    """
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


cdef int open_spans(
    Column keys, Column begins, Column ends, str each, Texts *texts, Times *since, Times *until
) except -1:
    """Open columns of keys and spans of time. `each` names their unit in errors, such as `row`."""
    memset(texts, 0, sizeof(Texts))
    keys.as_texts(texts, "keys", False)
    begins.as_times(since, "begins")
    ends.as_times(until, "ends")
    if not texts.length == since.length == until.length:
        raise ValueError(
            f"{texts.length} keys, {since.length} start times and {until.length} end times were "
            f"given; pass one key, one start time and one end time for each {each}"
        )
    return 0
