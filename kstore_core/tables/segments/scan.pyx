# cython: language_level=3
"""Scans that read several segments, one after another.

Writes after the creation of a scan do not change its result, although the scan opens a segment only
when it reaches the segment. Before a write changes a segment, every scan that has not reached the
segment opens an iterator over the segment.
"""

from threading import RLock
from weakref import ref

from kstore_core.engine.ordered cimport close_chunks
from kstore_core.tables.segments.segment cimport Segment
from kstore_core.tables.staging cimport StagedNamespace

__all__ = ["OpenScans", "SegmentScan"]


cdef Py_ssize_t TOGETHER = 8  # the maximum number of segments that a scan opens at once


cdef class OpenScans:
    """The open scans of a table that have not reached their last segment.

    Parameters
    ----------
    rows : StagedNamespace
        A namespace of the store. After the namespace is closed, the scans fail.
    """

    def __cinit__(self, StagedNamespace rows not None):
        self._rows = rows
        self._scans = {}
        self._turn = RLock()

    cdef int read_first(self, Segment segment) except -1:
        """Make each scan that has not reached ``segment`` open an iterator over it now."""
        cdef SegmentScan scan
        if self._scans:
            for alive in list(self._scans.values()):
                scan = alive()
                if scan is not None:
                    scan._read_early(segment)
        return 0


cdef class SegmentScan:
    """An iterator of chunks that reads several segments, one after another.

    The scan keeps few iterators open: over the segment that it is reading, and over segments that
    have changed since the scan was created.

    Parameters
    ----------
    others : OpenScans
        The open scans of the same table.
    segments : list of Segment
        The segments to read, in ascending order. The scan changes the list.
    lo, hi : bytes or None
        The range of keys to read in each segment: ``lo <= key < hi``.
    reverse : bool
        If True, read the segments and their rows in descending order.
    joined : bool
        If True, a chunk may contain rows of several segments.
    """

    def __cinit__(
        self, OpenScans others not None, list segments not None, bytes lo, bytes hi, bint reverse,
        bint joined=False,
    ):
        self._others = others
        self._lo = lo
        self._hi = hi
        self._reverse = reverse
        self._begun = {}
        if not reverse:
            segments.reverse()
        self._waiting = segments  # The scan reads this list from its end.
        if len(segments) > 1 and not (joined and self._begin_together()):
            others._scans[id(self)] = ref(self)
            self._known = True
        self._next_segment()

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            self._others._rows._check_open()
            if self._chunk is not None:
                chunk = self._chunk
                self._chunk = None
                return chunk
            if self._segment is not None:
                chunk = next(self._rest, None)
                if chunk is not None:
                    return chunk
                self._leave()
            if not self._waiting:
                raise StopIteration
            self._next_segment()

    # The iterator over a segment is opened either by the thread that reads the scan, or by a thread
    # that writes to the segment. Both threads take the lock before the open.

    cdef int _next_segment(self) except -1:
        """Open the next segment, which is the last one in the list ``_waiting``."""
        if not self._known:
            return self._come_to_next()
        with self._others._turn:
            self._come_to_next()
            if not self._waiting:  # Writes no longer need to notify this scan.
                self._others._scans.pop(id(self), None)
        return 0

    cdef int _come_to_next(self) except -1:
        cdef Segment segment
        if self._waiting:
            segment = <Segment>self._waiting[-1]
            begun = self._begun.pop(segment.id, None) if self._begun else None
            self._chunk, self._rest = self._begin(segment) if begun is None else begun
            if self._rest is not None:
                self._segment = segment
            self._waiting.pop()
        return 0

    cdef bint _begin_together(self) except -1:
        """Open iterators over all segments together. Return False if that is not possible."""
        cdef Segment segment
        cdef list ranges = [], begun, keys, values
        cdef StagedNamespace rows = None
        if len(self._waiting) > TOGETHER:
            return False
        for segment in reversed(self._waiting):
            segment._touch()
            if segment._part is None or segment._part._only is None:
                return False
            rows = segment._part._only
            ranges.append((segment._part._from(self._lo), segment._part._beyond(self._hi)))
        begun = rows._starts(ranges, self._reverse)
        if begun is None:
            return False
        for _, rest in begun:
            if rest is not None:
                break
        else:
            keys, values = [], []
            for chunk, _ in begun:
                if chunk is not None:
                    segment._part._append(<tuple>chunk, keys, values)
            if keys:
                self._chunk = keys, values
            self._waiting = []
            return True
        for segment, start in zip(reversed(self._waiting), begun):
            start = segment._part._bare(start)
            if start[1] is not None:
                segment.users += 1
            self._begun[segment.id] = start
        return True

    cdef tuple _begin(self, Segment segment):
        if segment.gone:  # The segment expired before this scan had the lock.
            return None, None
        segment._touch()
        return segment._start(self._lo, self._hi, self._reverse)

    cdef int _read_early(self, Segment segment) except -1:
        with self._others._turn:
            if segment in self._waiting and segment.id not in self._begun:
                self._begun[segment.id] = self._begin(segment)
        return 0

    cdef int _leave(self) except -1:
        """Release the segment that the scan is reading."""
        cdef Segment segment = self._segment
        if segment is not None:
            self._segment = None
            rest, self._rest = self._rest, None
            _close(segment, rest)
        return 0

    def close(self):
        """Close the scan and release all segments. A second close does nothing."""
        with self._others._turn:
            self._release()

    def __del__(self):
        if self._waiting is not None:
            # No other thread has a reference to this scan. A wait for the lock could deadlock.
            self._release()

    cdef int _release(self) except -1:
        cdef list waiting = self._waiting
        cdef dict begun = self._begun
        self._others._scans.pop(id(self), None)
        self._waiting = []
        self._begun = {}
        self._chunk = None
        if begun:
            for segment in waiting:
                _, rest = begun.get((<Segment>segment).id, (None, None))
                if rest is not None:
                    _close(<Segment>segment, rest)
        self._leave()
        return 0


cdef int _close(Segment segment, chunks) except -1:
    segment.users -= 1
    close_chunks(chunks)
    return 0
