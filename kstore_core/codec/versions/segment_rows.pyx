# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Segment rows of a versioned store (KIP-889; docs/formats.md, Versioned rows).

A row holds the versions of one key whose validity ended in one segment. Every function takes the
bytes of a row and returns new bytes. A row is checked from end to end before it is used; a
malformed row raises `FormatError`. A value of None is a tombstone: the key was deleted then.
Timestamps are milliseconds since the epoch, 64 bits.
"""

from libc.stdint cimport int64_t

from kstore_core.codec.primitives.buffers cimport View, close_view
from kstore_core.codec.primitives.integers cimport as_i64
from kstore_core.codec.versions.row_layout cimport (
    TOMBSTONE, Row, entry_size, entry_time, index_at, valid_to_of, value_bytes,
)
from kstore_core.codec.versions.row_writer cimport (
    Version, misplaced, open_checked, open_version, spliced, value_of,
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

cdef Row checked_head(object row) except *:
    """The fixed fields of a checked row. Its `data` is not valid: the view is closed."""
    cdef View view
    cdef Row layout
    open_checked(row, &view, &layout)
    close_view(&view)
    return layout


def next_timestamp(row):
    """Valid-to (exclusive) of the newest version."""
    return checked_head(row).next_timestamp


def min_timestamp(row):
    """Valid-from of the oldest version."""
    return checked_head(row).min_timestamp


def is_degenerate(row):
    """Return True if the row is one tombstone that is valid for no time."""
    return checked_head(row).degenerate


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
    """A row with one more version at its newer end.

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
                dropped = layout.count                     # all versions of the row
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
    """A row with one more version at its older end, valid until the oldest version so far.

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
    """A row with one more version in front of the one at `index` (0 is the newest).

    Raises
    ------
    IndexError
        If `index` is negative or greater than the number of versions.
    ValueError
        If `timestamp` is not strictly between those of the next older and the next newer version,
        or the row is degenerate: a tombstone that is valid for no time.
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
        If `timestamp` is not strictly between those of the next older and the next newer version,
        or the row is degenerate: a tombstone that is valid for no time.
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
