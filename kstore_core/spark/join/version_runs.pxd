# cython: language_level=3
"""A hash table of keys and their versions. The versions of a key are adjacent, oldest first."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from kstore_core.codec.arrow.input cimport Texts, Times


# An entry has only 32 bytes, so a lookup reads few cache lines.
cdef struct Key:
    int64_t at                  # the position of the key's bytes in Runs.bytes
    int64_t first               # the position of the key's first version; the key's versions end
                                # before the first version of the next key
    int64_t horizon             # the start of the history of the key's shard, in ms
    uint32_t size               # the number of the key's bytes
    uint32_t hash


cdef struct Version:
    int64_t begin               # the version is valid from this time in ms, inclusive
    int64_t end                 # the version is valid until this time in ms, exclusive; INT64_MAX
                                # if the version is still valid
    int64_t row                 # the version's position in the columns that made the index


cdef struct Runs:
    int64_t n_keys
    int64_t n_versions
    int64_t n_bytes             # the number of bytes of all keys
    int shift                   # the table has 2**(64 - shift) slots
    uint64_t *slots             # hash << 32 | number of the key + 1; a free slot is 0
    Key *keys                   # the keys by number, and an entry for the end of the last key
    Version *versions
    int64_t *begins             # the begins of all versions, so a bisection reads few cache lines
    uint8_t *bytes              # the bytes of all keys


cdef enum Built:
    WHOLE = 0
    NO_MEMORY
    NULL_VERSION                # the key or the begin of a version is null


cdef Built build_runs(
    Runs *runs, const Texts *keys, const Times *begins, const Times *ends,
    const int64_t *horizons, int64_t shards,
) noexcept nogil
cdef void free_runs(Runs *runs) noexcept nogil
cdef const Key *key_of_hash(
    const Runs *runs, const uint8_t *data, Py_ssize_t size, uint32_t hash
) noexcept nogil
cdef void fetch_ahead(const Runs **tables, const uint32_t *hashes, int count) noexcept nogil
cdef int64_t rounded_down(const Times *times, int64_t index) noexcept nogil


cdef inline int64_t first_after(const Runs *runs, const Key *key, int64_t time) noexcept nogil:
    """Return the position of the first version of a key that begins after `time`.

    If the key has no such version, return the position after the key's last version.
    """
    cdef int64_t low = key.first
    cdef int64_t high = (key + 1).first
    cdef int64_t middle
    while low < high:
        middle = (low + high) >> 1
        if runs.begins[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return low
