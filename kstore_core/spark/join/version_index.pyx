# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic, cdivision=True
"""An index of versions by key and time, which never changes after its creation."""

cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from kstore_core.codec.arrow.input cimport Column, Texts, Times, open_column
from kstore_core.spark.join.version_runs cimport (
    NO_MEMORY, WHOLE, Built, Key, Version, build_runs, free_runs,
)

__all__ = ["VersionIndex"]

# A slot stores the number of a key plus 1 in 32 bits, which limits the number of versions.
cdef int64_t MOST_VERSIONS = 0xFFFFFFFE
cdef int LEAST_SHIFT = 30                   # the table then has four slots for each version
cdef object MAPPED = object()   # the first argument of an index whose arrays `mapped` sets


@cython.final
cdef class VersionIndex:
    """An index of versions by key and time, with which a :class:`VersionLookup` finds versions.

    The arguments `keys`, `begins` and `ends` are Arrow columns with one row for each version, in
    any order. Keys must be binary, and must not be null. A version is valid from its begin,
    inclusive, to its end, exclusive. Both times are in ms. The begin must not be null. The end must
    be null if the version is still valid. The versions of a key must not overlap.

    `horizons` contains for each shard the start of the shard's history in ms. The first item
    belongs to shard 0.
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
        cdef bint right = (
            LEAST_SHIFT <= shift < 64
            and min(n_keys, n_versions, n_bytes) >= 0
            and max(n_keys, n_versions, n_bytes) <= self.buffer.len
        )
        if right:  # The sizes of the arrays do not overflow.
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


cdef void array_sizes(
    int64_t *sizes, int64_t n_keys, int64_t n_versions, int64_t n_bytes, int shift
) noexcept nogil:
    """Write the number of bytes of each array of `Runs` to `sizes`."""
    sizes[0] = (<int64_t>1 << (64 - shift)) * <int64_t>sizeof(uint64_t)
    sizes[1] = (n_keys + 1) * <int64_t>sizeof(Key)
    sizes[2] = n_versions * <int64_t>sizeof(Version)
    sizes[3] = n_versions * <int64_t>sizeof(int64_t)
    sizes[4] = n_bytes


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
