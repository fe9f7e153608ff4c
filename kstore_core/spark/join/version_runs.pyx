# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: cdivision=True
"""A hash table of keys and their versions. The versions of a key are adjacent and sorted by time.

The table uses open addressing. The hash function is murmur2, which also determines a key's shard.
No function of this module needs the GIL or raises an exception.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memset

from kstore_core.codec.arrow.input cimport Texts, Times, is_set, text_at, text_valid
from kstore_core.codec.primitives.buffers cimport put
from kstore_core.codec.keys.murmur2 cimport murmur2_hash
from kstore_core.engine.prefetching cimport prefetch, prefetch_all

cdef enum:
    FEWEST_BITS = 6             # the smallest table has 2**FEWEST_BITS slots
    FEWEST_KEYS = 64            # the number of keys for which memory is allocated at first
    SHORT_RUN = 32              # the most versions of a key whose begins are all prefetched


cdef inline uint64_t first_slot(const Runs *runs, uint32_t hash) noexcept nogil:
    """Return the number of the slot at which the search for a hash begins.

    The number consists of the high bits of a product, because the hashes of one shard have similar
    low bits.
    """
    return (<uint64_t>hash * 0x9E3779B97F4A7C15U) >> runs.shift


cdef inline uint64_t last_slot(const Runs *runs) noexcept nogil:
    """Return the number of the last slot of the table, which is also the mask of slot numbers."""
    return (<uint64_t>1 << (64 - runs.shift)) - 1


cdef inline uint64_t filled(uint32_t hash, int64_t number) noexcept nogil:
    """Return the content of the slot of a key, from the key's hash and number."""
    return (<uint64_t>hash << 32) | <uint64_t>(number + 1)


cdef inline int64_t number_in(uint64_t slot) noexcept nogil:
    """Return the number of the key whose slot has this content."""
    return <int64_t>(<uint32_t>slot) - 1


cdef int64_t rounded_down(const Times *times, int64_t index) noexcept nogil:
    """Return the time at a position of a column in ms, rounded toward the past."""
    cdef int64_t time = times.data[index]
    cdef int64_t whole
    if times.divide == 1:
        return time * times.multiply
    whole = time // times.divide        # With cdivision, this rounds toward zero.
    return whole - 1 if time < 0 and whole * times.divide != time else whole


cdef const Key *key_of_hash(
    const Runs *runs, const uint8_t *data, Py_ssize_t size, uint32_t hash
) noexcept nogil:
    """Return the entry of the key with these bytes, or NULL if the table has no such key."""
    cdef uint64_t mask = last_slot(runs)
    cdef uint64_t at = first_slot(runs, hash)
    cdef uint64_t slot
    cdef const Key *key
    while True:
        slot = runs.slots[at]
        if not slot:
            return NULL
        if slot >> 32 == hash:
            key = &runs.keys[number_in(slot)]
            if key.size == size and memcmp(runs.bytes + key.at, data, size) == 0:
                return key
        at = (at + 1) & mask


cdef void fetch_ahead(const Runs **tables, const uint32_t *hashes, int count) noexcept nogil:
    """Prefetch the slots, keys and versions that the lookups of `count` hashes will read.

    The hash at the position `i` will be looked up in `tables[i]`.

    Each loop reads the memory that the previous loop prefetched. If the first slot for a hash
    contains another key, the function prefetches the memory of that key, which is harmless.
    """
    cdef int i
    cdef const Runs *runs
    cdef uint64_t slot
    cdef const Key *key
    for i in range(count):
        runs = tables[i]
        prefetch(&runs.slots[first_slot(runs, hashes[i])])
    for i in range(count):
        runs = tables[i]
        slot = runs.slots[first_slot(runs, hashes[i])]
        if slot:
            prefetch(&runs.keys[number_in(slot)])
    for i in range(count):
        runs = tables[i]
        slot = runs.slots[first_slot(runs, hashes[i])]
        if slot:
            key = &runs.keys[number_in(slot)]
            prefetch(runs.bytes + key.at)
            if (key + 1).first - key.first > SHORT_RUN:
                prefetch(&runs.begins[(key.first + (key + 1).first) >> 1])
            else:
                prefetch_all(&runs.begins[key.first], &runs.begins[(key + 1).first])


cdef Built build_runs(
    Runs *runs, const Texts *keys, const Times *begins, const Times *ends,
    const int64_t *horizons, int64_t shards,
) noexcept nogil:
    """Add all versions to `runs`, which must be empty.

    The caller must call `free_runs` also if the result is an error.
    """
    cdef uint32_t *numbers = <uint32_t *>malloc(<size_t>keys.length * sizeof(uint32_t) + 1)
    cdef int64_t *places = NULL
    cdef Built built = NO_MEMORY
    if numbers is not NULL:
        built = number_keys(runs, keys, numbers)
    if built == WHOLE:
        places = <int64_t *>calloc(<size_t>runs.n_keys + 1, sizeof(int64_t))
        built = NO_MEMORY
        if places is not NULL and copy_keys(runs, keys, numbers, places, horizons, shards):
            built = place_versions(runs, begins, ends, numbers, places)
    free(places)
    free(numbers)
    return built


cdef Built number_keys(Runs *runs, const Texts *keys, uint32_t *numbers) noexcept nogil:
    """Add each key to the table, and write the number of each row's key to `numbers`.

    Keys are numbered in the order of their first rows. The field `first` of a key contains the
    position of the key's first row until `copy_keys` changes the field.
    """
    cdef int64_t row
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t last_size = -1
    cdef const uint8_t *data
    cdef const uint8_t *last = NULL
    cdef uint32_t hash
    cdef uint64_t slot
    runs.shift = 64 - FEWEST_BITS
    runs.slots = <uint64_t *>calloc(<size_t>1 << FEWEST_BITS, sizeof(uint64_t))
    runs.keys = <Key *>malloc(FEWEST_KEYS * sizeof(Key))
    if runs.slots is NULL or runs.keys is NULL:
        return NO_MEMORY
    for row in range(keys.length):
        if not text_valid(keys, row):
            return NULL_VERSION
        data = text_at(keys, row, &size)
        if size == last_size and memcmp(data, last, size) == 0:
            # This saves a search, because the versions of a key are usually adjacent in the column.
            numbers[row] = numbers[row - 1]
            continue
        last, last_size = data, size
        hash = murmur2_hash(data, size)
        slot = slot_of(runs, keys, data, size, hash)
        if runs.slots[slot]:
            numbers[row] = <uint32_t>number_in(runs.slots[slot])
            continue
        numbers[row] = <uint32_t>runs.n_keys
        runs.slots[slot] = filled(hash, runs.n_keys)
        runs.keys[runs.n_keys].first = row
        runs.keys[runs.n_keys].hash = hash
        runs.keys[runs.n_keys].size = <uint32_t>size
        runs.n_keys += 1
        runs.n_bytes += size
        if not make_room(runs):
            return NO_MEMORY
    return WHOLE


cdef uint64_t slot_of(
    const Runs *runs, const Texts *keys, const uint8_t *data, Py_ssize_t size, uint32_t hash
) noexcept nogil:
    """Return the number of a key's slot, or of a free slot if the table does not contain the key.

    Call this function only before `copy_keys`, because it reads the bytes of the keys from the
    column `keys`.
    """
    cdef uint64_t mask = last_slot(runs)
    cdef uint64_t at = first_slot(runs, hash)
    cdef uint64_t slot
    cdef Py_ssize_t other = 0
    cdef const uint8_t *there
    while True:
        slot = runs.slots[at]
        if not slot:
            return at
        if slot >> 32 == hash:
            there = text_at(keys, runs.keys[number_in(slot)].first, &other)
            if other == size and memcmp(there, data, size) == 0:
                return at
        at = (at + 1) & mask


cdef bint make_room(Runs *runs) noexcept nogil:
    """Make room for another key in the table and in the array of keys.

    At least half of the table's slots remain free. Return False if there is not enough memory.
    """
    cdef int64_t count = runs.n_keys
    cdef void *grown
    cdef uint64_t mask, at
    cdef int64_t number
    if count + 1 >= FEWEST_KEYS and (count + 1) & count == 0:       # a power of two
        grown = realloc(runs.keys, 2 * <size_t>(count + 1) * sizeof(Key))
        if grown is NULL:
            return False
        runs.keys = <Key *>grown
    if 2 * <uint64_t>count <= last_slot(runs):
        return True
    runs.shift -= 1
    free(runs.slots)
    mask = last_slot(runs)
    runs.slots = <uint64_t *>calloc(mask + 1, sizeof(uint64_t))
    if runs.slots is NULL:
        return False
    for number in range(count):
        at = first_slot(runs, runs.keys[number].hash)
        while runs.slots[at]:
            at = (at + 1) & mask
        runs.slots[at] = filled(runs.keys[number].hash, number)
    return True


cdef bint copy_keys(
    Runs *runs, const Texts *keys, const uint32_t *numbers, int64_t *places,
    const int64_t *horizons, int64_t shards,
) noexcept nogil:
    """Copy the bytes of the keys, and compute the position of each key's first version.

    Write this position to `places` and to the field `first` of the key. Return False if there is
    not enough memory.
    """
    cdef int64_t row, number
    cdef Py_ssize_t size = 0
    cdef const uint8_t *data
    cdef Key *key
    cdef int64_t written = 0
    runs.bytes = <uint8_t *>malloc(<size_t>runs.n_bytes + 1)
    if runs.bytes is NULL:
        return False
    for row in range(keys.length):
        places[numbers[row] + 1] += 1
    for number in range(runs.n_keys):
        places[number + 1] += places[number]
        key = &runs.keys[number]
        data = text_at(keys, key.first, &size)
        put(runs.bytes + written, data, size)
        key.at = written
        key.first = places[number]
        key.horizon = horizons[(key.hash & 0x7FFFFFFF) % <uint64_t>shards]
        written += size
    memset(&runs.keys[runs.n_keys], 0, sizeof(Key))
    runs.keys[runs.n_keys].first = keys.length
    return True


cdef Built place_versions(
    Runs *runs, const Times *begins, const Times *ends, const uint32_t *numbers, int64_t *places
) noexcept nogil:
    """Copy each version to the versions of its key, and sort the versions of each key by time."""
    cdef int64_t row, number, at, first, last
    cdef Version *version
    runs.n_versions = begins.length
    runs.versions = <Version *>malloc(<size_t>begins.length * sizeof(Version) + 1)
    runs.begins = <int64_t *>malloc(<size_t>begins.length * sizeof(int64_t) + 1)
    if runs.versions is NULL or runs.begins is NULL:
        return NO_MEMORY
    for row in range(begins.length):
        if not is_set(&begins.valid, row):
            return NULL_VERSION
        at = places[numbers[row]]
        places[numbers[row]] = at + 1
        version = &runs.versions[at]
        version.row = row
        version.begin = rounded_down(begins, row)
        version.end = rounded_down(ends, row) if is_set(&ends.valid, row) else INT64_MAX
    for number in range(runs.n_keys):
        first = runs.keys[number].first
        last = runs.keys[number + 1].first
        for at in range(first + 1, last):
            if runs.versions[at].begin < runs.versions[at - 1].begin:
                qsort(&runs.versions[first], <size_t>(last - first), sizeof(Version), by_begin)
                break
    for at in range(runs.n_versions):
        runs.begins[at] = runs.versions[at].begin
    return WHOLE


cdef int by_begin(const void *left, const void *right) noexcept nogil:
    cdef const Version *one = <const Version *>left
    cdef const Version *other = <const Version *>right
    if one.begin != other.begin:
        return 1 if one.begin > other.begin else -1
    return (one.row > other.row) - (one.row < other.row)


cdef void free_runs(Runs *runs) noexcept nogil:
    free(runs.slots)
    free(runs.keys)
    free(runs.versions)
    free(runs.begins)
    free(runs.bytes)
    memset(runs, 0, sizeof(Runs))
