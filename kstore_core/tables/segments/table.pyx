# cython: language_level=3, cdivision=True
"""The table of a window or session store, whose rows are divided into segments of time.

The time in the key of a row determines the row's segment. A segment expires as a whole. Other
modules store the segments: each segment in a separate database, or all segments in one table with
key prefixes. A scan returns rows in the order of ``(segment, key)`` or in the reverse order.

The table accepts late records. The typed store checks with its clock whether a record is late
before it writes the record.
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
    # How often a put may stage the key: a row, the removal of an older row, and both segment ids.
    MOST_TIMES_STAGED = 4
    SEGMENT_BYTES = 8

cdef long long FIRST = LLONG_MIN, LAST = LLONG_MAX


cdef class SegmentedTable:
    """The table of the rows of all segments of a store.

    Parameters
    ----------
    home : Segments
        The storage of the segments: a `ChildSegments` or a `PrefixedSegments`.
    time_of : callable
        A function that takes the key of a row and returns the row's time in ms: the start of a
        window or the end of a session.
    interval_ms : int
        The width of a segment in ms.

    Attributes
    ----------
    rows : StagedNamespace
        A namespace of the store. After the namespace is closed, scans of the table fail.
    key_overhead : int
        The number of bytes that the storage adds to each key of the table.
    dropped : int
        The number of segments that have expired since the store was opened.
    """

    def __cinit__(self, home, time_of not None, long long interval_ms):
        self.rows = home.rows
        self._home = home
        self.key_overhead = home.key_overhead
        self._time_of = time_of
        self._interval = interval_ms
        self._segments = {segment.id: segment for segment in home.segments()}
        self._ids = sorted(self._segments)
        self._recent = [None] * (RECENT + 1)  # The index of a segment is the last bits of its id.
        self._first_live = FIRST
        self._scans = OpenScans(self.rows)
        self._turn = RLock()

    points = None

    def __repr__(self):
        return f"<SegmentedTable of {len(self._ids)} segments>"

    @property
    def segments(self):
        """The ids of the segments that have not expired, in ascending order."""
        return tuple(self._ids)

    # The segment of a row.

    cdef Segment _of(self, bytes key):
        """Return the segment of the time in ``key``, or None if the segment does not exist."""
        return self._numbered(self._id_of(key))

    cdef Segment _known(self, long long number):
        """Return the segment with this id, which may not be open, or None if it does not exist."""
        cdef Segment segment = <Segment>self._recent[number & RECENT]
        if segment is None or segment.id != number:
            segment = <Segment>self._segments.get(number)
            if segment is not None:
                self._recent[number & RECENT] = segment
        return segment

    cdef Segment _numbered(self, long long number):
        """Open the segment with this id and return it, or None if the segment does not exist."""
        cdef Segment segment = self._known(number)
        if segment is None or segment._get is None:
            self.rows._check_open()
        if segment is not None:
            segment._touch()
        return segment

    cdef Segment _to_write(self, long long number):
        """Return the segment with this id for a write, or None if the segment has expired."""
        if number < self._first_live:
            return None
        cdef Segment segment = self._known(number)
        if segment is None:
            if number < 0:
                raise ValueError(
                    f"the key of a row has a negative time, in segment {number}; the time must be at least 0"
                )
            segment = self._home.segment(number)
        segment._touch()
        self._scans.read_first(segment)
        return segment

    cdef long long _id_of(self, bytes key) except? -1:
        if key is None:
            raise TypeError("a key must be bytes, not None")
        cdef long long time = self._time_of(key)
        return time / self._interval

    cdef int _adopt(self, Segment segment) except -1:
        """Add a segment to the list of segments if the list does not contain it."""
        if segment.id not in self._segments:
            self._segments[segment.id] = segment
            insort(self._ids, segment.id)
        return 0

    def segment_of(self, bytes key):
        """Return the id of the segment for the time in ``key``. The segment may not exist."""
        return self._id_of(key)

    cdef list _within(self, long long lo, long long hi):
        """Return the segments with ``lo <= id <= hi`` in ascending order."""
        cdef list ids = self._ids
        cdef Py_ssize_t first = 0, behind = len(ids)
        if behind and <long long>ids[0] < lo:
            first = bisect_left(ids, lo)
        if behind and <long long>ids[behind - 1] > hi:
            behind = bisect_right(ids, hi)
        return [self._segments[number] for number in ids[first:behind]]

    # Reads.

    cpdef object get(self, bytes key):
        """Return the value of ``key``, or None if the key is missing."""
        cdef Segment segment = self._of(key)
        return None if segment is None else segment._look_up(key)

    cdef bytes find(self, long long number, bytes key):
        """Return the value of ``key`` in the segment with this id, or None."""
        cdef Segment segment = self._numbered(number)
        return None if segment is None else segment._look_up(key)

    def get_many(self, list keys not None):
        """Return the values of ``keys`` in the order of ``keys``; None for a missing key."""
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
            if segment.gone:  # The segment expired during the loop above.
                continue
            rows = segment._call("get_many", ([keys[index] for index in indices],))
            for index, value in zip(indices, rows):
                values[index] = value
        return values

    def scan(self, bounds):
        """Return an iterator of chunks of rows in the order of ``(segment, key)``.

        Each chunk contains rows of one segment. Later writes do not change the result. The scan
        opens a segment when it reaches the segment, or earlier if the segment is about to change.
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
        """Return a scan of the rows with ``lo <= key < hi`` in each of some segments.

        Parameters
        ----------
        segment_lo, segment_hi : int
            The ids of the first and the last segment, both inclusive.
        joined : bool
            If True, a chunk may contain rows of several segments.
        """
        self.rows._check_open()
        cdef list segments = self._within(segment_lo, segment_hi)
        return SegmentScan(self._scans, segments, lo, hi, reverse, joined)

    def first(self, lo=None, hi=None, *, bint reverse=False):
        """Return the first row that a scan would yield, or None if there is no row."""
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
        """Return the approximate number of rows."""
        self.rows._check_open()
        return self._home.approximate_count()

    # Writes. A write to an expired segment is ignored. Writes and expiry take the lock. Only a put
    # to an open segment takes no lock while no scan is open and staging has room, because no other
    # thread can run before the row is staged.

    cpdef object put_one(self, bytes key, bytes value):
        """Write the value of ``key``, or delete the row if ``value`` is None."""
        self.put_at(self._id_of(key), key, value)

    cdef int put_at(self, long long number, bytes key, bytes value) except -1:
        """Write a row to the segment with the id ``number``, to which ``key`` must belong."""
        cdef Segment segment
        cdef Py_ssize_t most = MOST_TIMES_STAGED * (len(key) + SEGMENT_BYTES)
        if value is not None:
            most += len(value)
        self.rows._check_writable()
        if number >= self._first_live and not self._scans._scans:
            segment = self._known(number)
            if (
                segment is not None
                and segment._get is not None
                and self.rows._staging._has_room(most)
            ):
                segment._touch()
                segment._set(key, value)
                return 0
        with self._turn:
            self.rows._staging.spill_for(most)  # Listeners may put rows, so that segments expire.
            segment = self._to_write(number)
            if segment is not None:
                segment._set(key, value)
                self._adopt(segment)
        return 0

    def write(self, writes):
        """Write rows in the given order. If a row is refused, no row is written."""
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
        """Delete the rows with ``lo <= key < hi`` from every segment; None means no limit."""
        cdef Segment segment
        self.rows._check_writable()
        with self._turn:
            for segment in self._within(FIRST, LAST):
                segment._touch()
                self._scans.read_first(segment)
                segment._call("delete_range", (lo, hi))

    def load(self, chunks):
        """Load rows without staging them, and return their number.

        The rows must be in ascending order of ``(segment, key)``.

        Raises
        ------
        ValueError
            The rows are not in this order.
        """
        cdef Segment segment
        cdef long long last = -1
        cdef Py_ssize_t count = 0
        self.rows._check_writable()
        with self._turn:
            for number, run in groupby(self._runs(chunks), itemgetter(0)):
                if number < last:
                    raise ValueError(
                        f"a row of segment {number} comes after a row of segment {last}; rows must "
                        "be loaded in ascending order of their segments"
                    )
                last = number
                segment = self._to_write(number)
                if segment is not None:
                    self._adopt(segment)
                    count += segment.load(map(itemgetter(1, 2), run))
        return count

    def _runs(self, chunks):
        """Yield ``(segment id, keys, values)``. A chunk with rows of several segments is split."""
        cdef Py_ssize_t begin = 0, end
        for keys, values in chunks:
            begin = 0
            for number, same in groupby([self._id_of(key) for key in keys]):
                end = begin + sum(1 for _ in same)
                yield number, keys[begin:end], values[begin:end]
                begin = end

    # Expiry.

    def expire(self, long long first_live):
        """Remove the segments before ``first_live`` from the table.

        The next commit drops the removed segments. If no commit follows, the next open of the store
        finds these segments again. Scans that are already open continue to read these segments.
        """
        with self._turn:
            if first_live > self._first_live:
                self._expire(first_live)

    cdef int _expire(self, long long first_live) except -1:
        cdef Segment segment
        cdef long long before = self._first_live
        cdef list gone = self._within(FIRST, first_live - 1)
        self._first_live = first_live  # From now on, writes to these segments are ignored.
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
