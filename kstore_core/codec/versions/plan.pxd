# cython: language_level=3
"""The row of every version, if the versions of each key come in order of time.

The rows are those that one put after another leaves (docs/formats.md, Versioned rows).
No Python objects.
"""

from libc.stdint cimport int64_t, uint64_t


cdef enum:
    LATEST = -1                 # the segment of latest rows
    NO_VALUE = -1               # the source of a tombstone, which has no input row


# A version inside a segment row, or the one of a latest row.
cdef struct Entry:
    int64_t timestamp
    int64_t source              # the input row that holds the value


# A row to be written. Its entries are numbers `first` to `first + count - 1`, oldest first.
cdef struct Planned:
    int64_t segment
    int64_t key                 # an input row that has the key
    int64_t first
    int64_t count
    int64_t next_timestamp      # valid-to of the newest version; unused in a latest row
    bint latest


cdef struct Plan:
    Entry *entries
    int64_t entry_count
    Planned *rows
    int64_t row_count
    int64_t interval
    int64_t first_live
    bint open_row               # the last of `rows` is this key's newest segment row
    bint has_latest             # a version of this key is still valid
    Entry latest                # that version
    int64_t key


cdef inline int64_t segment_of(int64_t timestamp, int64_t interval) noexcept nogil:
    """Rounds towards zero, as Kafka does."""
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
    """This key's row in a segment, or NULL. In order of time only the last row can be it."""
    cdef Planned *row = plan.rows + plan.row_count - 1
    return row if plan.open_row and row.segment == segment else NULL


cdef inline void append(
    Plan *plan, int64_t segment, int64_t valid_from, int64_t valid_to, int64_t source
) noexcept nogil:
    """Store a version that ended at `valid_to` as the newest of its segment's row."""
    cdef Planned *row = row_in(plan, segment)
    cdef int64_t end
    if row is NULL:
        new_planned(plan, segment, valid_to)
        plan.open_row = True
    else:
        end = row.next_timestamp
        if is_degenerate(plan, row):                # its tombstone is valid for no time
            plan.entry_count = row.first
            row.count = 0
        if end < valid_from:                        # a gap: deleted in between
            add_entry(plan, end, NO_VALUE)
        row.next_timestamp = valid_to
    add_entry(plan, valid_from, source)


cdef inline void delete_nothing(Plan *plan, int64_t segment, int64_t timestamp) noexcept nogil:
    """Record a tombstone where no version is valid."""
    cdef Planned *row = row_in(plan, segment)
    if row is NULL:
        new_planned(plan, segment, timestamp)
        plan.open_row = True
        add_entry(plan, timestamp, NO_VALUE)
    else:
        append(plan, segment, row.next_timestamp, timestamp, NO_VALUE)


cdef inline void plan_put(Plan *plan, int64_t timestamp, int64_t source) noexcept nogil:
    """Plan a put (of an input row, or NO_VALUE to delete) later than all puts of its key so far."""
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
    """Plan the latest row of a key, if it has one. Ends the key."""
    if plan.has_latest:
        new_planned(plan, LATEST, 0).latest = True
        add_entry(plan, plan.latest.timestamp, plan.latest.source)
    plan.has_latest = False
    plan.open_row = False
