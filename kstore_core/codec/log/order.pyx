# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: cdivision=True, embedsignature=True, embedsignature.format=clinic
"""Functions that sort, filter and split the records of a changelog for a restore."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcmp, memmove, memset

from kstore_core.codec.primitives.halves cimport MANY, run_halves
from kstore_core.codec.primitives.integers cimport as_i64
from kstore_core.codec.log.rows cimport refuse_null_key
from kstore_core.codec.log.columns cimport RecordColumns, Slot
from kstore_core.engine.prefetching cimport prefetch

cdef enum:
    AHEAD = 16      # records whose keys are prefetched before they are compared


# A record to sort. `prefix` contains the 8 bytes of its key after the prefix common to all keys.
cdef struct Place:
    uint64_t prefix
    const Slot *slot


# The places from `begin` to `end` (exclusive), which one thread prepares, and later reads.
cdef struct Part:
    Place *places
    Py_ssize_t begin
    Py_ssize_t end
    const Slot *slots           # of all records, in the order of the log
    Py_ssize_t skipped          # size of the prefix that all keys have in common
    bint timed                  # take the last record of each key and time, not only of each key
    Slot *latest                # room for the result
    Py_ssize_t count            # records in the result
    Py_ssize_t payload          # size of their keys, values and headers in bytes


cdef uint64_t prefix_of(const Slot *slot, Py_ssize_t skipped) noexcept nogil:
    cdef uint64_t prefix = 0
    cdef Py_ssize_t i
    for i in range(skipped, skipped + 8):
        prefix = (prefix << 8) | (slot.key[i] if i < slot.key_size else 0)
    return prefix


cdef Py_ssize_t common_prefix(RecordColumns columns) noexcept nogil:
    """Return the size of the prefix that all keys have in common."""
    cdef const Slot *first = columns.slots
    cdef const Slot *slot
    cdef Py_ssize_t common = first.key_size
    cdef Py_ssize_t i
    cdef Py_ssize_t j
    for i in range(1, columns.length):
        slot = columns.slots + i
        j = 0
        while j < common and j < slot.key_size and slot.key[j] == first.key[j]:
            j += 1
        common = j
    return common


cdef inline int compare_keys(const Place *a, const Place *b) noexcept nogil:
    cdef int order
    if a.prefix != b.prefix:
        return -1 if a.prefix < b.prefix else 1
    cdef int shorter = min(a.slot.key_size, b.slot.key_size)
    order = memcmp(a.slot.key, b.slot.key, shorter) if shorter else 0
    return order if order else a.slot.key_size - b.slot.key_size


cdef inline int in_arrival(const Place *a, const Place *b) noexcept nogil:
    return (a.slot > b.slot) - (a.slot < b.slot)


cdef int by_key(const void *a, const void *b) noexcept nogil:
    cdef int order = compare_keys(<const Place *>a, <const Place *>b)
    return order if order else in_arrival(<const Place *>a, <const Place *>b)


cdef int by_key_and_time(const void *a, const void *b) noexcept nogil:
    cdef const Place *one = <const Place *>a
    cdef const Place *other = <const Place *>b
    cdef int order = compare_keys(one, other)
    if not order:
        order = (one.slot.timestamp > other.slot.timestamp) - (
            one.slot.timestamp < other.slot.timestamp
        )
    return order if order else in_arrival(one, other)


cdef Place *sort_prefixes(Place *places, Place *spare, Py_ssize_t count) noexcept nogil:
    """Sort places (records to sort) by their prefix. Places with equal prefixes keep their order.

    This is a radix sort, which begins with the last byte. Return the array that contains the
    result: `places` or `spare`.
    """
    cdef Py_ssize_t[8][257] starts
    cdef Py_ssize_t *start
    cdef Place *swap
    cdef Py_ssize_t i
    cdef int byte
    cdef int digit
    memset(starts, 0, sizeof(starts))
    for i in range(count):
        for byte in range(8):
            starts[byte][1 + ((places[i].prefix >> (8 * byte)) & 0xFF)] += 1
    for byte in range(8):
        start = starts[byte]
        if start[1 + ((places[0].prefix >> (8 * byte)) & 0xFF)] == count:
            continue                                # This byte is equal in all places.
        for digit in range(256):
            start[digit + 1] += start[digit]
        for i in range(count):
            digit = (places[i].prefix >> (8 * byte)) & 0xFF
            spare[start[digit]] = places[i]
            start[digit] += 1
        swap = places
        places = spare
        spare = swap
    return places


cdef void sort_group(Place *places, Py_ssize_t count, bint timed) noexcept nogil:
    """Sort places with equal prefixes. The records of a key often arrive in the order of time."""
    cdef Py_ssize_t i
    for i in range(1, count):
        if (by_key_and_time if timed else by_key)(places + i - 1, places + i) > 0:
            qsort(places, count, sizeof(Place), by_key_and_time if timed else by_key)
            return


cdef void set_places(void *argument) noexcept nogil:
    """Set the places of a part, in the order of the log."""
    cdef Part *part = <Part *>argument
    cdef Py_ssize_t i
    for i in range(part.begin, part.end):
        part.places[i].slot = part.slots + i
        part.places[i].prefix = prefix_of(part.places[i].slot, part.skipped)


cdef void take_latest(void *argument) noexcept nogil:
    """Take the last record of each key, or of each key and time. The part is sorted by prefix."""
    cdef Part *part = <Part *>argument
    cdef Place *places = part.places
    cdef const Slot *slot
    cdef Py_ssize_t begin = part.begin
    cdef Py_ssize_t end = begin
    cdef Py_ssize_t i
    while begin < part.end:
        while end < part.end and places[end].prefix == places[begin].prefix:
            # The slots and keys of neighbours are far from each other in memory.
            prefetch(places[min(end + 2 * AHEAD, part.end - 1)].slot)
            prefetch(places[min(end + AHEAD, part.end - 1)].slot.key)
            end += 1
        sort_group(places + begin, end - begin, part.timed)
        for i in range(begin, end):
            slot = places[i].slot
            if (
                i + 1 == end
                or compare_keys(places + i, places + i + 1)
                or (part.timed and slot.timestamp != places[i + 1].slot.timestamp)
            ):
                part.latest[part.count] = slot[0]
                part.count += 1
                part.payload += slot.key_size + max(slot.value_size, 0) + slot.header_size
        begin = end


cdef Py_ssize_t middle_of(const Place *places, Py_ssize_t count) noexcept nogil:
    """Return an index near the middle that does not divide places with equal prefixes."""
    cdef Py_ssize_t middle = count // 2
    while middle < count and places[middle].prefix == places[middle - 1].prefix:
        middle += 1
    return middle


def latest_records(columns, *, by_timestamp=False):
    """Return the last record of each key, sorted by key.

    Parameters
    ----------
    columns : RecordColumns
        The records.
    by_timestamp : bool
        If True, return the last record of each pair of key and timestamp, sorted by key and then by
        timestamp.

    Returns
    -------
    RecordColumns
        The records, which share the bytes of `columns`. Their offsets are not in order.

    Raises
    ------
    FormatError
        If a record has no key. The message names the offset of the record.
    """
    cdef RecordColumns source = <RecordColumns?>columns
    cdef RecordColumns latest = part_of(source)
    cdef Part[2] parts
    cdef Part *second = NULL
    cdef Py_ssize_t i
    cdef Place *memory
    if not source.length:
        return latest
    for i in range(source.length):
        refuse_null_key(&source.slots[i])
    latest.make_room(source.length)
    memory = <Place *>malloc(2 * source.length * sizeof(Place))
    if memory is NULL:
        raise MemoryError(f"cannot allocate memory to sort {source.length} records")
    memset(parts, 0, sizeof(parts))
    parts[0].places, parts[0].slots, parts[0].end = memory, source.slots, source.length
    parts[0].latest, parts[0].timed = latest.slots, by_timestamp
    with nogil:
        parts[0].skipped = common_prefix(source)
        parts[1] = parts[0]
        if source.length >= MANY:
            second = parts + 1
            parts[0].end = second.begin = source.length // 2
        run_halves(set_places, parts, second)
        parts[0].places = sort_prefixes(memory, memory + source.length, source.length)
        parts[1].places = parts[0].places
        if second is not NULL:
            parts[0].end = second.begin = middle_of(second.places, source.length)
            second.latest += second.begin
        run_halves(take_latest, parts, second)
        memmove(latest.slots + parts[0].count, parts[1].latest, parts[1].count * sizeof(Slot))
    free(memory)
    latest.length = parts[0].count + parts[1].count
    latest.payload = parts[0].payload + parts[1].payload
    return latest


def records_in_time(columns, stream_time, retention_ms):
    """Return the records that were not too late when they arrived.

    When a record arrives, stream time is the greatest of `stream_time` and the timestamps of all
    records up to and including this record. The record is too late if its timestamp is less than
    stream time minus `retention_ms`.

    Parameters
    ----------
    columns : RecordColumns
        The records.
    stream_time : int
        Stream time before the first record (ms).
    retention_ms : int
        The retention (ms).

    Returns
    -------
    tuple of (RecordColumns, int)
        The records that were not too late, and stream time after the last record of `columns`. The
        records share the bytes of `columns`.
    """
    cdef RecordColumns source = <RecordColumns?>columns
    cdef RecordColumns in_time = part_of(source)
    cdef int64_t observed = as_i64(stream_time, "stream_time")
    cdef int64_t retention = as_i64(retention_ms, "retention_ms")
    cdef Py_ssize_t i
    in_time.make_room(source.length)
    for i in range(source.length):
        observed = max(observed, source.slots[i].timestamp)
        if source.slots[i].timestamp >= observed - retention:
            in_time.push(&source.slots[i])
    return in_time, observed


def split_by_key(columns, count, seed):
    """Split records by a hash of their keys. All records of a key are in the same part.

    Parameters
    ----------
    columns : RecordColumns
        The records.
    count : int
        The number of parts, at least 1.
    seed : int
        The seed of the hash. To split a part of an earlier result again, pass another seed.

    Returns
    -------
    list of RecordColumns
        The parts. The records in a part keep their order, and share the bytes of `columns`.

    Raises
    ------
    FormatError
        If a record has no key. The message names the offset of the record.
    """
    cdef RecordColumns source = <RecordColumns?>columns
    cdef Py_ssize_t parts_count = count
    cdef uint64_t seeded = 0xCBF29CE484222325ULL ^ (
        <uint64_t>as_i64(seed, "seed") * 0x9E3779B97F4A7C15ULL
    )
    cdef Py_ssize_t i
    cdef RecordColumns chosen
    if parts_count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    cdef list parts = [part_of(source) for _ in range(parts_count)]
    for i in range(source.length):
        refuse_null_key(&source.slots[i])
        chosen = <RecordColumns>parts[hash_of(&source.slots[i], seeded) % <uint64_t>parts_count]
        chosen.make_room(1)
        chosen.push(&source.slots[i])
    return parts


cdef uint64_t hash_of(const Slot *slot, uint64_t hashed) noexcept nogil:
    """Return the FNV-1a hash of a key with its high bits mixed in.

    The hash must not be murmur2. Kafka chooses the partition of a key by murmur2, so the murmur2
    hashes of the keys in one partition are not evenly distributed.
    """
    cdef Py_ssize_t i
    for i in range(slot.key_size):
        hashed = (hashed ^ slot.key[i]) * 0x100000001B3ULL
    hashed ^= hashed >> 32
    return (hashed * 0x9E3779B97F4A7C15ULL) >> 16


cdef RecordColumns part_of(RecordColumns source):
    """Return empty columns to which records of `source` can be added."""
    cdef RecordColumns part = RecordColumns()
    part.sources = source.sources.copy()
    part.end, part.stop = source.end, source.stop
    return part
