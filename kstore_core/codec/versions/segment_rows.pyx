# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions that read and change segment rows of a versioned store (docs/formats.md, KIP-889).

A segment row contains the versions of one key whose validity ended in one segment. A function that
changes a row returns a new row. Every function checks the whole row, and raises `FormatError` if
the row is malformed. A version with the value None is a tombstone, which means that the key was
deleted. Timestamps are milliseconds since the epoch and must fit 64 bits.
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
    """Return a row with one version.

    Parameters
    ----------
    value : bytes-like or None
        The value of the version, or None for a tombstone.
    valid_from, valid_to : int
        The start (inclusive) and the end (exclusive) of the version's validity. They may be equal
        only for a tombstone; the result is then a degenerate row.

    Raises
    ------
    ValueError
        If `valid_to` is less than `valid_from`, or if they are equal and `value` is not None.
    """
    cdef View view
    cdef Version version
    cdef int64_t begin = as_i64(valid_from, "valid_from")
    cdef int64_t end = as_i64(valid_to, "valid_to")
    if begin > end or (begin == end and value is not None):
        raise ValueError(f"new_row: valid_to is {end}, but must be greater than valid_from, which is {begin}")
    open_version(value, begin, &view, &version)
    try:
        return spliced(NULL, 0, 0, &version, 1, end, begin)
    finally:
        close_view(&view)


def degenerate_row(timestamp):
    """Return a row that contains only a tombstone, which is valid for no time.

    Such a row represents a delete of a key that had no valid version. The row has 28 bytes.
    """
    return new_row(None, timestamp, timestamp)


# ---------------------------------------------------------------- looking at a row

cdef Row checked_head(object row) except *:
    """Check a row and return its fields. Do not use the field `data`, whose view is closed."""
    cdef View view
    cdef Row layout
    open_checked(row, &view, &layout)
    close_view(&view)
    return layout


def next_timestamp(row):
    """Return the end (exclusive) of the newest version's validity."""
    return checked_head(row).next_timestamp


def min_timestamp(row):
    """Return the start (inclusive) of the oldest version's validity."""
    return checked_head(row).min_timestamp


def is_degenerate(row):
    """Return True if the row contains a single tombstone that is valid for no time."""
    return checked_head(row).degenerate


def entries(row):
    """Return all versions of a row, newest first, including tombstones.

    Returns
    -------
    list of (int, int, bytes or None)
        The start (inclusive) and the end (exclusive) of each version's validity, and its value. The
        value of a tombstone is None.
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
    """Return the version of a row that is valid at a time.

    Parameters
    ----------
    row : bytes-like
        The segment row.
    timestamp : int
        The time. It must be from `min_timestamp` (inclusive) to `next_timestamp` (exclusive).

    Returns
    -------
    tuple of (int, int, int, bytes or None)
        The index of the version (0 is the newest), the start and the end of its validity, and its
        value. The value of a tombstone is None.

    Raises
    ------
    ValueError
        If no version of the row is valid at `timestamp`. A degenerate row has no such version.
    FormatError
        If the row is malformed.
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
    """Return the versions that are valid at any time from `from_ts` to `to_ts`, both inclusive.

    Returns
    -------
    list of (int, int, bytes)
        The start (inclusive) and the end (exclusive) of each version's validity, and its value,
        newest first. Tombstones are left out.
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
    """Return a row with an added newest version.

    The function removes versions that begin at or after `valid_from`, because they come from an
    interrupted write. If the newest version ends before `valid_from`, a tombstone fills the gap.

    Parameters
    ----------
    row : bytes-like
        The segment row.
    valid_from, valid_to : int
        The start (inclusive) and the end (exclusive) of the new version's validity.
    value : bytes-like or None
        The value of the new version, or None for a tombstone.

    Raises
    ------
    ValueError
        If `valid_to` is not greater than `valid_from`.
    FormatError
        If the row is malformed.
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
        raise ValueError(
            f"insert_as_latest: valid_to is {end}, but must be greater than valid_from, which is {begin}"
        )
    open_checked(row, &view, &layout)
    try:
        open_version(value, begin, &value_view, &added[0])
        try:
            if begin > layout.next_timestamp:           # A tombstone fills the gap.
                added[1].timestamp = layout.next_timestamp
                added[1].value = NULL
                added[1].size = TOMBSTONE
                count = 2
                dropped = layout.count if layout.degenerate else 0
            elif layout.degenerate or begin <= layout.min_timestamp:
                dropped = layout.count                     # drop all versions of the row
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
    """Return a row with one more version, valid from `timestamp` until `min_timestamp(row)`.

    Raises
    ------
    ValueError
        If `timestamp` is not less than `min_timestamp(row)`.
    FormatError
        If the row is malformed.
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
    """Return a row with one more version at `index`. The newest version has the index 0.

    Raises
    ------
    IndexError
        If `index` is negative or greater than the number of versions.
    ValueError
        If `timestamp` is not between the times of the next older and the next newer version, both
        exclusive, or if the row is degenerate.
    FormatError
        If the row is malformed.
    """
    return placed(row, timestamp, value, index, 0, "insert")


def update(row, timestamp, value, index):
    """Return a row with another time and value at `index`. The newest version has the index 0.

    Raises
    ------
    IndexError
        If there is no version at `index`.
    ValueError
        If `timestamp` is not between the times of the next older and the next newer version, both
        exclusive, or if the row is degenerate.
    FormatError
        If the row is malformed.
    """
    return placed(row, timestamp, value, index, 1, "update")


cdef bytes placed(object row, object timestamp, object value, object index, int replaced, str what):
    """Insert a version at `index`, or replace the version at `index` if `replaced` is 1."""
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
            raise IndexError(f"{what}: there is no index {begin} in a row of {layout.count} versions")
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
