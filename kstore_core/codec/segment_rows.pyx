# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Segment rows of a versioned store (KIP-889; docs/formats.md, Versioned rows).

A row holds the versions of one key whose validity ended in one segment. Every function takes the
bytes of a row and gives new ones; a row is checked from end to end before it is used, and one that
does not add up is a `FormatError`. A value of None is a tombstone: the key was deleted at that time.
Timestamps are milliseconds since the epoch, 64 bits.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t

from kstore_core.codec.buffers cimport (
    View,
    address,
    close_view,
    copy_bytes,
    new_bytes,
    open_view,
    put,
)
from kstore_core.codec.faults cimport describe
from kstore_core.codec.integers cimport as_i64
from kstore_core.codec.row_layout cimport (
    ENTRY_BYTES,
    HEAD_BYTES,
    TOMBSTONE,
    Row,
    entry_at,
    entry_size,
    entry_time,
    open_row,
    valid_to_of,
    value_bytes,
)
from kstore_core.codec.wire cimport SOUND, Fault, store_i32, store_i64

from kstore_core.errors import FormatError


cdef struct Version:
    int64_t timestamp
    const uint8_t *value
    Py_ssize_t size             # TOMBSTONE for none


# ---------------------------------------------------------------- shared steps

cdef int open_checked(object source, View *view, Row *row) except -1:
    """Borrow the bytes of a row and check them; when this fails nothing is borrowed."""
    cdef Fault fault
    open_view(source, view)
    fault = open_row(row, view.data, view.size)
    if fault != SOUND:
        reason = describe(fault, row.number, view.size - row.at)
        close_view(view)
        raise FormatError(f"segment row: {reason} (at byte {row.at})", offset=row.at)
    return 0


cdef int open_version(object value, int64_t timestamp, View *view, Version *version) except -1:
    version.timestamp = timestamp
    version.value = NULL
    version.size = TOMBSTONE
    view.held = False
    if value is not None:
        open_view(value, view)
        version.value = view.data
        version.size = view.size
        if view.size > INT32_MAX:
            close_view(view)
            raise FormatError(
                f"segment row: a value of {version.size} bytes is over the format's 2**31 - 1"
            )
    return 0


cdef bytes spliced(
    const Row *row, Py_ssize_t begin, Py_ssize_t end,
    const Version *added, int count, int64_t next_timestamp, int64_t min_timestamp,
):
    """A row whose versions begin to end - 1 are replaced by `added`, newest first. One allocation.

    `row` may be NULL for a row from nothing.
    """
    cdef Py_ssize_t total = 0 if row is NULL else row.count
    cdef Py_ssize_t newer = 0 if row is NULL else value_bytes(row, 0, begin)
    cdef Py_ssize_t older = 0 if row is NULL else value_bytes(row, end, total)
    cdef Py_ssize_t size = HEAD_BYTES + (total - (end - begin) + count) * ENTRY_BYTES + newer + older
    cdef uint8_t *here
    cdef bytes result
    cdef int i
    for i in range(count):
        if added[i].size > 0:
            size += added[i].size
    result = new_bytes(size)
    here = store_i64(address(result), next_timestamp)
    here = store_i64(here, min_timestamp)
    if begin > 0:
        here = put(here, entry_at(row, 0), begin * ENTRY_BYTES)
    for i in range(count):
        here = store_i64(here, added[i].timestamp)
        here = store_i32(here, <int32_t>added[i].size)
    if end < total:
        here = put(here, entry_at(row, end), (total - end) * ENTRY_BYTES)
    if older > 0:
        here = put(here, entry_at(row, total), older)
    for i in range(count - 1, -1, -1):
        if added[i].size > 0:
            here = put(here, added[i].value, added[i].size)
    if newer > 0:
        put(here, row.data + row.size - newer, newer)
    return result


cdef object value_of(const Row *row, Py_ssize_t index, Py_ssize_t newer):
    """The value of a version; `newer` is how many bytes those before it have."""
    cdef int32_t size = entry_size(row, index)
    if size < 0:
        return None
    return copy_bytes(row.data + row.size - newer - size, size)


cdef Py_ssize_t index_at(const Row *row, int64_t timestamp) noexcept nogil:
    """The first version, newest first, that is valid from `timestamp` or before it."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = row.count
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if entry_time(row, middle) > timestamp:
            low = middle + 1
        else:
            high = middle
    return low


cdef object misplaced(str what, int64_t timestamp, const Row *row):
    return ValueError(
        f"{what}: {timestamp} is out of place in a row of {row.count} versions from "
        f"{row.min_timestamp} (inclusive) to {row.next_timestamp} (exclusive)"
    )


# ---------------------------------------------------------------- new rows

def new_row(value, valid_from, valid_to):
    """A row of one version, valid from `valid_from` (inclusive) to `valid_to` (exclusive).

    Parameters
    ----------
    value : bytes-like or None
    valid_from, valid_to : int
        Equal for a tombstone only, which gives `degenerate_row`.

    Raises
    ------
    ValueError
        If the version would end before it starts, or be a value valid for no time.
    """
    cdef View view
    cdef Version version
    cdef int64_t begin = as_i64(valid_from, "valid_from")
    cdef int64_t end = as_i64(valid_to, "valid_to")
    if begin > end or (begin == end and value is not None):
        raise ValueError(f"new_row: a version from {begin} to {end} is valid at no time")
    open_version(value, begin, &view, &version)
    try:
        return spliced(NULL, 0, 0, &version, 1, end, begin)
    finally:
        close_view(&view)


def degenerate_row(timestamp):
    """The row of a delete with nothing before it: one tombstone, valid for no time. 28 bytes."""
    return new_row(None, timestamp, timestamp)


# ---------------------------------------------------------------- looking at a row

def next_timestamp(row):
    """Valid-to (exclusive) of the newest version."""
    cdef View view
    cdef Row layout
    open_checked(row, &view, &layout)
    close_view(&view)
    return layout.next_timestamp


def min_timestamp(row):
    """Valid-from of the oldest version."""
    cdef View view
    cdef Row layout
    open_checked(row, &view, &layout)
    close_view(&view)
    return layout.min_timestamp


def is_degenerate(row):
    """Whether the row is one tombstone that is valid for no time."""
    cdef View view
    cdef Row layout
    open_checked(row, &view, &layout)
    close_view(&view)
    return layout.degenerate


def entries(row):
    """All versions, newest first, tombstones included.

    Returns
    -------
    list of (int, int, bytes or None)
        Valid-from (inclusive), valid-to (exclusive), value or None for a tombstone.
    """
    cdef View view
    cdef Row layout
    cdef Py_ssize_t i
    cdef Py_ssize_t newer = 0
    open_checked(row, &view, &layout)
    try:
        versions = []
        for i in range(layout.count):
            value = value_of(&layout, i, newer)
            newer += max(entry_size(&layout, i), 0)
            versions.append((entry_time(&layout, i), valid_to_of(&layout, i), value))
        return versions
    finally:
        close_view(&view)


def find(row, timestamp):
    """The version that is valid at a time.

    Parameters
    ----------
    row : bytes-like
    timestamp : int
        From the row's minimum (inclusive) to its next timestamp (exclusive).

    Returns
    -------
    tuple of (int, int, int, bytes or None)
        Index (0 is the newest), valid-from, valid-to, value or None for a tombstone.

    Raises
    ------
    ValueError
        If `timestamp` is outside the row; a degenerate row has no inside.
    FormatError
        If the row is corrupt.
    """
    cdef View view
    cdef Row layout
    cdef Py_ssize_t index
    cdef int64_t at = as_i64(timestamp, "timestamp")
    open_checked(row, &view, &layout)
    try:
        if not layout.min_timestamp <= at < layout.next_timestamp:
            raise misplaced("find", at, &layout)
        index = index_at(&layout, at)
        return (
            index,
            entry_time(&layout, index),
            valid_to_of(&layout, index),
            value_of(&layout, index, value_bytes(&layout, 0, index)),
        )
    finally:
        close_view(&view)


def find_all(row, from_ts, to_ts):
    """The versions valid at some time from `from_ts` to `to_ts`, both inclusive.

    Returns
    -------
    list of (int, int, bytes)
        Valid-from, valid-to, value; newest first, without tombstones.
    """
    cdef View view
    cdef Row layout
    cdef Py_ssize_t i
    cdef Py_ssize_t newer
    cdef int64_t low = as_i64(from_ts, "from_ts")
    cdef int64_t high = as_i64(to_ts, "to_ts")
    cdef int64_t valid_to
    open_checked(row, &view, &layout)
    try:
        versions = []
        i = index_at(&layout, high)
        newer = value_bytes(&layout, 0, i)
        while i < layout.count:
            valid_to = valid_to_of(&layout, i)
            if valid_to <= low:
                break
            value = value_of(&layout, i, newer)
            if value is not None:
                versions.append((entry_time(&layout, i), valid_to, value))
                newer += entry_size(&layout, i)
            i += 1
        return versions
    finally:
        close_view(&view)


# ---------------------------------------------------------------- changing a row

def insert_as_latest(row, valid_from, valid_to, value):
    """A row with one version more at its newer end.

    Versions from `valid_from` on are dropped first, which repairs a write that was interrupted. A
    gap between the row's end and `valid_from` becomes a tombstone.

    Parameters
    ----------
    row : bytes-like
    valid_from, valid_to : int
        Inclusive and exclusive; `valid_to` is the new end of the row.
    value : bytes-like or None

    Raises
    ------
    ValueError
        If `valid_to` is not after `valid_from`.
    FormatError
        If the row is corrupt.
    """
    cdef View view
    cdef View value_view
    cdef Row layout
    cdef Version[2] added
    cdef Py_ssize_t dropped
    cdef int64_t begin = as_i64(valid_from, "valid_from")
    cdef int64_t end = as_i64(valid_to, "valid_to")
    cdef int count = 1
    if begin >= end:
        raise ValueError(f"insert_as_latest: a version from {begin} to {end} is valid at no time")
    open_checked(row, &view, &layout)
    try:
        open_version(value, begin, &value_view, &added[0])
        try:
            if begin > layout.next_timestamp:           # a gap
                added[1].timestamp = layout.next_timestamp
                added[1].value = NULL
                added[1].size = TOMBSTONE
                count = 2
                dropped = layout.count if layout.degenerate else 0
            elif layout.degenerate or begin <= layout.min_timestamp:
                dropped = layout.count                     # nothing of the row stays
            else:
                dropped = index_at(&layout, begin - 1)
            return spliced(
                &layout, 0, dropped, added, count, end,
                layout.min_timestamp if dropped < layout.count else added[count - 1].timestamp,
            )
        finally:
            close_view(&value_view)
    finally:
        close_view(&view)


def insert_as_earliest(row, timestamp, value):
    """A row with one version more at its older end, valid up to what was the oldest.

    Raises
    ------
    ValueError
        If `timestamp` is not before the row's minimum.
    FormatError
        If the row is corrupt.
    """
    cdef View view
    cdef View value_view
    cdef Row layout
    cdef Version added
    cdef Py_ssize_t begin
    cdef int64_t at = as_i64(timestamp, "timestamp")
    open_checked(row, &view, &layout)
    try:
        if at >= layout.min_timestamp:
            raise misplaced("insert_as_earliest", at, &layout)
        begin = 0 if layout.degenerate else layout.count
        open_version(value, at, &value_view, &added)
        try:
            return spliced(&layout, begin, layout.count, &added, 1, layout.next_timestamp, at)
        finally:
            close_view(&value_view)
    finally:
        close_view(&view)


def insert(row, timestamp, value, index):
    """A row with one version more in front of the one at `index` (0 is the newest).

    Raises
    ------
    IndexError
        If there is no such place.
    ValueError
        If `timestamp` is not between those of its new neighbours, or the row is degenerate.
    FormatError
        If the row is corrupt.
    """
    return placed(row, timestamp, value, index, 0, "insert")


def update(row, timestamp, value, index):
    """A row whose version at `index` (0 is the newest) is replaced, timestamp and value.

    Raises
    ------
    IndexError
        If there is no such version.
    ValueError
        If `timestamp` is not between those of its neighbours, or the row is degenerate.
    FormatError
        If the row is corrupt.
    """
    return placed(row, timestamp, value, index, 1, "update")


cdef bytes placed(object row, object timestamp, object value, object index, int replaced, str what):
    """Put a version at `index`, in front of or instead of the one there."""
    cdef View view
    cdef View value_view
    cdef Row layout
    cdef Version added
    cdef int64_t at = as_i64(timestamp, "timestamp")
    cdef Py_ssize_t begin = as_i64(index, "index")
    cdef Py_ssize_t end = begin + replaced
    open_checked(row, &view, &layout)
    try:
        if not 0 <= begin <= layout.count - replaced:
            raise IndexError(f"{what}: index {begin} in a row of {layout.count} versions")
        if (
            layout.degenerate
            or at >= valid_to_of(&layout, begin)
            or (end < layout.count and at <= entry_time(&layout, end))
        ):
            raise misplaced(what, at, &layout)
        open_version(value, at, &value_view, &added)
        try:
            return spliced(
                &layout, begin, end, &added, 1, layout.next_timestamp,
                at if end == layout.count else layout.min_timestamp,
            )
        finally:
            close_view(&value_view)
    finally:
        close_view(&view)


def truncate_to(row, timestamp):
    """A row without what lies at `timestamp` and after it; degenerate when nothing is left.

    Raises
    ------
    ValueError
        If `timestamp` is after the row's end.
    FormatError
        If the row is corrupt.
    """
    cdef View view
    cdef Row layout
    cdef Version tombstone
    cdef int64_t at = as_i64(timestamp, "timestamp")
    open_checked(row, &view, &layout)
    try:
        if at > layout.next_timestamp:
            raise misplaced("truncate_to", at, &layout)
        if at <= layout.min_timestamp:
            tombstone.timestamp, tombstone.value, tombstone.size = at, NULL, TOMBSTONE
            return spliced(NULL, 0, 0, &tombstone, 1, at, at)
        return spliced(
            &layout, 0, index_at(&layout, at - 1), NULL, 0, at, layout.min_timestamp
        )
    finally:
        close_view(&view)
