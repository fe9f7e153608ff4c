# cython: language_level=3, cdivision=True
"""A table in segments of time, each of which expires as a whole: rows of window and session stores.

A row lies in the segment of the time in its key. Other modules store the segments: each in a
database of its own, or all in one under key prefixes. Scans go in the order of ``(segment, key)``
or in its exact reverse.

The table does not refuse late records: the typed store asks the store's clock before it writes.
"""

from libc.limits cimport LLONG_MAX, LLONG_MIN

from bisect import bisect_left, bisect_right, insort
from itertools import groupby
from operator import itemgetter
from threading import RLock

from kstore_core.tables.segments.scan cimport OpenScans, SegmentScan
from kstore_core.tables.segments.segment cimport Segment
from kstore_core.tables.staging cimport StagedNamespace

__all__ = ["SegmentedTable"]

cdef enum:
    RECENT = 15
    MOST_TIMES_STAGED = 4   # copies of the key: a row, the removal of an older one, and their ids
    SEGMENT_BYTES = 8

cdef long long FIRST = LLONG_MIN, LAST = LLONG_MAX


cdef class SegmentedTable:
    """A table over the segments of a store.

    Parameters
    ----------
    home : Segments
        The storage of the segments.
    time_of : callable
        The time of a row (ms) by its key; of windows their start, of sessions their end.
    interval_ms : int
        Width of a segment.

    Attributes
    ----------
    rows : StagedNamespace
        The namespace whose close ends scans.
    key_overhead : int
        The bytes by which a stored key is longer.
    dropped : int
        Segments that have expired since the store was opened.
    """

    def __cinit__(self, home, time_of not None, long long interval_ms):
        self.rows = home.rows
        self._home = home
        self.key_overhead = home.key_overhead
        self._time_of = time_of
        self._interval = interval_ms
        self._segments = {segment.id: segment for segment in home.segments()}
        self._ids = sorted(self._segments)
        self._recent = [None] * (RECENT + 1)  # by the last bits of their ids
        self._first_live = FIRST
        self._scans = OpenScans(self.rows)
        self._turn = RLock()

    points = None

    def __repr__(self):
        return f"<SegmentedTable of {len(self._ids)} segments>"

    @property
    def segments(self):
        """The ids of the live segments, ascending."""
        return tuple(self._ids)

    # The segment of a row.

    cdef Segment _of(self, bytes key):
        """The segment of the time in ``key``, or None if it does not exist."""
        return self._numbered(self._id_of(key))

    cdef Segment _numbered(self, long long number):
        """The segment of this id, or None if it does not exist."""
        cdef Segment segment = <Segment>self._recent[number & RECENT]
        if segment is None or segment.id != number:
            segment = <Segment>self._segments.get(number)
            if segment is None or segment._get is None:
                self.rows._check_open()
            if segment is None:
                return None
            segment._touch()
            if number >= self._first_live:  # another thread may have made it expire meanwhile
                self._recent[number & RECENT] = segment
            return segment
        segment._touch()
        return segment

    cdef Segment _to_write(self, long long number):
        """The segment to which a row is written, or None if it has expired."""
        if number < self._first_live:
            return None
        cdef Segment segment = <Segment>self._segments.get(number)
        if segment is None:
            if number < 0:
                raise ValueError(f"the times of segment {number} are negative, but must be >= 0")
            segment = self._home.segment(number)
        segment._touch()
        self._scans.read_first(segment)
        return segment

    cdef long long _id_of(self, bytes key) except? -1:
        if key is None:
            raise TypeError("a key is bytes, not None")
        cdef long long time = self._time_of(key)
        return time / self._interval

    cdef int _adopt(self, Segment segment) except -1:
        """Add a segment that has been written to."""
        if segment.id not in self._segments:
            self._segments[segment.id] = segment
            insort(self._ids, segment.id)
        return 0

    def segment_of(self, bytes key):
        """The id of the segment of the time in ``key``, which need not exist."""
        return self._id_of(key)

    cdef list _within(self, long long lo, long long hi):
        """The segments with ``lo <= id <= hi``, ascending."""
        cdef list ids = self._ids
        cdef Py_ssize_t first = 0, behind = len(ids)
        if behind and <long long>ids[0] < lo:
            first = bisect_left(ids, lo)
        if behind and <long long>ids[behind - 1] > hi:
            behind = bisect_right(ids, hi)
        return [self._segments[number] for number in ids[first:behind]]

    # Reads.

    cpdef object get(self, bytes key):
        """The value of ``key``, or None."""
        cdef Segment segment = self._of(key)
        return None if segment is None else segment._look_up(key)

    cdef bytes find(self, long long number, bytes key):
        """The value of ``key`` in the segment of this id, or None."""
        cdef Segment segment = self._numbered(number)
        return None if segment is None else segment._look_up(key)

    def get_many(self, list keys not None):
        """The values of ``keys``, in their order; None for a missing key."""
        cdef dict found = {}
        cdef Segment segment
        cdef Py_ssize_t index
        cdef list values = [None] * len(keys)
        self.rows._check_open()
        for index in range(len(keys)):
            segment = self._of(keys[index])
            if segment is not None:
                found.setdefault(segment, []).append(index)
        for segment, indices in found.items():
            if segment.gone:  # while the next ones were opened
                continue
            rows = segment._call("get_many", ([keys[index] for index in indices],))
            for index, value in zip(indices, rows):
                values[index] = value
        return values

    def scan(self, bounds):
        """Chunks of rows in the order of ``(segment, key)``, each of one segment, as of this call.

        A segment is opened when the scan reaches it, or before a write to it.
        """
        lo, hi = bounds.segment_lo, bounds.segment_hi
        return self.between(
            bounds.lo, bounds.hi, bounds.reverse,
            FIRST if lo is None else <long long>lo, LAST if hi is None else <long long>hi,
            False,
        )

    cdef SegmentScan between(
        self, bytes lo, bytes hi, bint reverse, long long segment_lo, long long segment_hi,
        bint joined,
    ):
        """A scan of ``lo <= key < hi`` within each segment from one to another."""
        self.rows._check_open()
        cdef list segments = self._within(segment_lo, segment_hi)
        return SegmentScan(self._scans, segments, lo, hi, reverse, joined)

    def first(self, lo=None, hi=None, *, bint reverse=False):
        """The first row of a scan, or None if it is empty."""
        cdef Segment segment
        self.rows._check_open()
        cdef list segments = self._within(FIRST, LAST)
        if reverse:
            segments.reverse()
        for segment in segments:
            if segment.gone:
                continue
            segment._touch()
            row = segment._call("first", (lo, hi), {"reverse": reverse})
            if row is not None:
                return row
        return None

    def approximate_count(self):
        """The approximate number of rows."""
        self.rows._check_open()
        return self._home.approximate_count()

    # Writes. A write to an expired segment is dropped. Writes and expiry hold the lock, except a
    # put to an open segment: no other thread runs before it is staged, unless a scan must be
    # notified or rows must be spilled for it.

    cpdef object put_one(self, bytes key, bytes value):
        """Set ``key``; None deletes."""
        self.put_at(self._id_of(key), key, value)

    cdef int put_at(self, long long number, bytes key, bytes value) except -1:
        """Set ``key`` in the segment of this id, which is that of the time in ``key``."""
        cdef Segment segment
        cdef Py_ssize_t most = MOST_TIMES_STAGED * (len(key) + SEGMENT_BYTES)
        if value is not None:
            most += len(value)
        self.rows._check_writable()
        if number >= self._first_live and not self._scans._scans:
            segment = <Segment>self._segments.get(number)
            if (
                segment is not None
                and segment._get is not None
                and self.rows._staging._has_room(most)
            ):
                segment._touch()
                segment._set(key, value)
                return 0
        with self._turn:
            segment = self._to_write(number)
            if segment is not None:
                segment._set(key, value)
                self._adopt(segment)
        return 0

    def write(self, writes):
        """Write rows, in their order: all of them, or none if one is refused."""
        cdef dict groups = {}
        cdef Segment segment
        self.rows._check_writable()
        with self._turn:
            for write in writes:
                segment = self._to_write(self._id_of(write[0]))
                if segment is not None:
                    groups.setdefault(segment, []).append(write)
            self._home.write(groups)
            for segment in groups:
                self._adopt(segment)

    def delete_range(self, bytes lo not None, bytes hi):
        """Delete ``lo <= key < hi`` from every segment; ``hi`` None reaches to the end."""
        cdef Segment segment
        self.rows._check_writable()
        with self._turn:
            for segment in self._within(FIRST, LAST):
                segment._touch()
                self._scans.read_first(segment)
                segment._call("delete_range", (lo, hi))

    def load(self, chunks):
        """Bulk load rows that ascend by ``(segment, key)`` without staging them, and return how many.

        Raises
        ------
        ValueError
            The rows do not ascend.
        """
        cdef Segment segment
        cdef long long last = -1
        cdef Py_ssize_t count = 0
        self.rows._check_writable()
        with self._turn:
            for number, run in groupby(self._runs(chunks), itemgetter(0)):
                if number < last:
                    raise ValueError(
                        f"rows must ascend by segment; {number} comes after {last}"
                    )
                last = number
                segment = self._to_write(number)
                if segment is not None:
                    self._adopt(segment)
                    count += segment.load(map(itemgetter(1, 2), run))
        return count

    def _runs(self, chunks):
        """Chunks split where the segment changes, each with its segment's id in front."""
        cdef Py_ssize_t begin = 0, end
        for keys, values in chunks:
            begin = 0
            for number, same in groupby([self._id_of(key) for key in keys]):
                end = begin + sum(1 for _ in same)
                yield number, keys[begin:end], values[begin:end]
                begin = end

    # Expiry.

    def expire(self, long long first_live):
        """Remove the segments before ``first_live``.

        The next commit drops them; without a commit they are there again after the next open. Open
        scans go on reading them.
        """
        with self._turn:
            if first_live > self._first_live:
                self._expire(first_live)

    cdef int _expire(self, long long first_live) except -1:
        cdef Segment segment
        cdef long long before = self._first_live
        cdef list gone = self._within(FIRST, first_live - 1)
        self._first_live = first_live  # nothing more is put there
        try:
            for segment in gone:
                self._scans.read_first(segment)
        except BaseException:
            self._first_live = before
            raise
        if not gone:
            return 0
        self._recent = [None] * (RECENT + 1)
        del self._ids[: len(gone)]
        for segment in gone:
            segment.gone = True
            del self._segments[segment.id]
        self.dropped += len(gone)
        self._home.expire(first_live)
        return 0
