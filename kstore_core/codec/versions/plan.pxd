# cython: language_level=3
"""Functions that plan the rows of a versioned store from puts that are sorted by key and time.

The planned rows are equal to the rows of a store after these puts (docs/formats.md, Versioned
rows). The functions use no Python objects.
"""

from libc.stdint cimport int64_t, uint64_t


cdef enum:
    LATEST = -1                 # the segment number of latest rows
    NO_VALUE = -1               # the source of a tombstone, which has no value


# A version in a segment row, or the single version of a latest row.
cdef struct Entry:
    int64_t timestamp
    int64_t source              # the index of the input row with the value


# A row to write. Its entries in the plan are `first` to `first + count - 1`, oldest first.
cdef struct Planned:
    int64_t segment
    int64_t key                 # the index of an input row with the key
    int64_t first
    int64_t count
    int64_t next_timestamp      # the end of the newest version's validity; not used in a latest row
    bint latest


cdef struct Plan:
    Entry *entries
    int64_t entry_count
    Planned *rows
    int64_t row_count
    int64_t interval
    int64_t first_live
    bint open_row               # True if the last of `rows` is a segment row of the current key
    bint has_latest             # True if the last version of the current key is not a delete
    Entry latest                # the last version of the current key
    int64_t key


cdef inline int64_t segment_of(int64_t timestamp, int64_t interval) noexcept nogil:
    """Return the segment of a time. The division rounds towards zero, as in Kafka Streams."""
    if timestamp >= 0:
        return timestamp // interval
    return -<int64_t>((0 - <uint64_t>timestamp) // <uint64_t>interval)


cdef inline bint is_degenerate(const Plan *plan, const Planned *row) noexcept nogil:
    return plan.entries[row.first].timestamp == row.next_timestamp


cdef inline void add_entry(Plan *plan, int64_t timestamp, int64_t source) noexcept nogil:
    plan.entries[plan.entry_count].timestamp = timestamp
    plan.entries[plan.entry_count].source = source
    plan.entry_count += 1
    plan.rows[plan.row_count - 1].count += 1


cdef inline Planned *new_planned(
    Plan *plan, int64_t segment, int64_t next_timestamp
) noexcept nogil:
    cdef Planned *row = plan.rows + plan.row_count
    row.segment = segment
    row.key = plan.key
    row.first = plan.entry_count
    row.count = 0
    row.next_timestamp = next_timestamp
    row.latest = False
    plan.row_count += 1
    return row


cdef inline Planned *row_in(Plan *plan, int64_t segment) noexcept nogil:
    """Return the current key's row in a segment, or NULL if there is none.

    Only the last row is checked, because the puts of a key are sorted by time.
    """
    cdef Planned *row = plan.rows + plan.row_count - 1
    return row if plan.open_row and row.segment == segment else NULL


cdef inline void append(
    Plan *plan, int64_t segment, int64_t valid_from, int64_t valid_to, int64_t source
) noexcept nogil:
    """Add a version, which is valid until `valid_to`, as the newest version of a segment's row."""
    cdef Planned *row = row_in(plan, segment)
    cdef int64_t end
    if row is NULL:
        new_planned(plan, segment, valid_to)
        plan.open_row = True
    else:
        end = row.next_timestamp
        if is_degenerate(plan, row):                # Its tombstone is valid for no time.
            plan.entry_count = row.first
            row.count = 0
        if end < valid_from:                        # The key was deleted between the two versions.
            add_entry(plan, end, NO_VALUE)
        row.next_timestamp = valid_to
    add_entry(plan, valid_from, source)


cdef inline void delete_nothing(Plan *plan, int64_t segment, int64_t timestamp) noexcept nogil:
    """Add the tombstone for a delete of a key that has no valid version."""
    cdef Planned *row = row_in(plan, segment)
    if row is NULL:
        new_planned(plan, segment, timestamp)
        plan.open_row = True
        add_entry(plan, timestamp, NO_VALUE)
    else:
        append(plan, segment, row.next_timestamp, timestamp, NO_VALUE)


cdef inline void plan_put(Plan *plan, int64_t timestamp, int64_t source) noexcept nogil:
    """Plan a put that is later than all earlier puts of the current key.

    `source` is the index of the input row with the value, or NO_VALUE for a delete.
    """
    cdef int64_t segment = segment_of(timestamp, plan.interval)
    if segment >= plan.first_live:
        if plan.has_latest:
            append(plan, segment, plan.latest.timestamp, timestamp, plan.latest.source)
        elif source == NO_VALUE:
            delete_nothing(plan, segment, timestamp)
    plan.has_latest = source != NO_VALUE
    plan.latest.timestamp = timestamp
    plan.latest.source = source


cdef inline void plan_latest(Plan *plan) noexcept nogil:
    """Plan the latest row of the current key, if there is one. No put of the key may follow."""
    if plan.has_latest:
        new_planned(plan, LATEST, 0).latest = True
        add_entry(plan, plan.latest.timestamp, plan.latest.source)
    plan.has_latest = False
    plan.open_row = False
