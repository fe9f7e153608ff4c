"""The reading of a changelog without the records of unfinished commits.

kstore writes a commit marker after the records of each commit. The reader buffers the records of a
commit until it reads this marker. If the marker is missing, the writer was killed before it had
sent all records of the commit, and the reader skips these records. A log that Kafka Streams wrote
has no markers, and the reader returns all its records.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from kstore_core.changelog.marks import Begin, Commit, is_commit, marks_in, parse
from kstore_core.changelog.protocol import Changelog
from kstore_core.codec import RecordColumns

__all__ = ["WholeCommits", "whole_end", "without_marks"]

BUFFERED_BYTES = 24 * 1024 * 1024
"""The largest size of the buffered keys, values and headers, in bytes. If a commit is larger, the
reader first reads the log up to the end of the commit, to find out which records are valid."""

_Span = tuple[int, int]


def without_marks(columns: RecordColumns) -> RecordColumns:
    """Return the records that are not commit markers."""
    mask = bytearray(b"\1") * len(columns)
    for index, _ in marks_in(columns):
        mask[index] = 0
    return columns.chosen(mask) if 0 in mask else columns


def whole_end(log: Changelog, contained: int) -> int:
    """Return the offset after the last finished commit of a log.

    Parameters
    ----------
    contained : int
        The last offset of the log that the store contains. The search begins after this offset.
    """
    whole = WholeCommits(log, contained + 1, contained + 1)
    for _ in whole:
        pass
    return whole.next_offset


class WholeCommits:
    """The records of a log from an offset on, without markers and without unfinished commits.

    An object can be iterated only once.

    Parameters
    ----------
    log : Changelog
    begin : int
        The first offset to read.
    whole_at : int
        The offset after the last commit that the store contains; 0 for an empty store.

    Attributes
    ----------
    next_offset : int
        The offset after the records that were yielded.
    commit : Commit or None
        The marker of the last commit whose records were yielded. None if no marker was read, or if
        records without a marker follow the last marker.
    left_out : int or None
        The first offset of the unfinished commit whose records were skipped; None if no records
        were skipped. The iteration sets this attribute at its end.
    """

    def __init__(self, log: Changelog, begin: int, whole_at: int) -> None:
        self.next_offset = begin
        self.commit: Commit | None = None
        self.left_out: int | None = None
        self._log = log
        self._whole_at = whole_at
        self._ended: bytes | None = None
        self._since: int | None = None  # the offset at which the open commit begins
        self._reach = 0  # the offset after the rows that the marks of the open commit count
        # True if the open commit begins right after the last finished commit. The store is then
        # complete without the open commit. If False, compaction may have removed rows that rows of
        # the open commit supersede.
        self._is_exact = True
        self._buffered: list[RecordColumns] = []
        # The void spans of the open commit, if the log was read ahead.
        self._voids: list[_Span] | None = None

    def __iter__(self) -> Iterator[RecordColumns]:
        for columns in self._log.read(self.next_offset):
            yield from self._whole_records(columns)
            self.next_offset = columns.next_offset
        if self._since is not None and self._yields_open_commit:
            yield from self._close(None)
        if self._since is not None:
            self.next_offset = self.left_out = self._since
        if self._ended is not None:
            mark = parse(self._ended)
            assert isinstance(mark, Commit)
            self.commit = mark

    @property
    def _yields_open_commit(self) -> bool:
        """True if the records of a commit are yielded although the marker at its end is missing."""
        if self._voids is not None:
            # `_read_ahead` returns this span if the commit is unfinished and must be skipped.
            return self._voids != [(self._since, sys.maxsize)]
        return not self._is_exact

    def _whole_records(self, columns: RecordColumns) -> Iterator[RecordColumns]:
        """Yield the records that are known to be valid after these columns were read."""
        marks = list(marks_in(columns))
        if not marks and self._since is None:
            self._ended = None
            yield columns
            return
        offsets = columns.offsets
        mask = bytearray(b"\1") * len(columns)
        opened = at = 0
        for index, mark_bytes in [*marks, (len(columns), None)]:
            if at < index:
                if self._since is None:
                    self._ended = None
                elif offsets[index - 1] >= self._reach:
                    yield from self._close(None)
                if self._voids:
                    for place in range(at, index):
                        mask[place] = not _is_in(self._voids, offsets[place])
            if mark_bytes is None:
                break
            mask[index], at = 0, index + 1
            if is_commit(mark_bytes):
                yield from self._close(mark_bytes)
                self._whole_at = offsets[index] + 1
                continue
            begin = _begin(mark_bytes)
            if self._since is None:
                opened = at
                self._since = offsets[index]
                self._is_exact = self._since == self._whole_at
            elif begin.without is not None and self._voids is None:
                void = (begin.without, offsets[index])
                self._buffered = [_outside(some, [void]) for some in self._buffered]
                for place in range(opened, index):
                    mask[place] = mask[place] and not _is_in([void], offsets[place])
            self._reach = offsets[index] + 1 + begin.rows
        if self._since is None or self._voids is not None:
            if any(mask):
                yield columns.chosen(mask)
            return
        yield from _up_to(columns, mask, opened)
        self._buffer(columns, mask, opened)
        if sum(some.payload_bytes for some in self._buffered) > BUFFERED_BYTES:
            self._voids = self._read_ahead(columns.next_offset)
            buffered, self._buffered = self._buffered, []
            for some in buffered:
                if len(given := _outside(some, self._voids)):
                    yield given

    def _buffer(self, columns: RecordColumns, mask: bytearray, opened: int) -> None:
        chosen = bytes(opened) + mask[opened:]
        if any(chosen):
            self._buffered.append(columns.chosen(chosen))

    def _close(self, mark_bytes: bytes | None) -> Iterator[RecordColumns]:
        """End the open commit, and yield its buffered records."""
        buffered, self._buffered = self._buffered, []
        self._since, self._voids, self._ended = None, None, mark_bytes
        yield from (some for some in buffered if len(some))

    def _read_ahead(self, offset: int) -> list[_Span]:
        """Read the log from an offset on, and return the spans of void records in the open commit.

        A record is void if a writer sent it for a commit that this writer did not finish.
        """
        assert self._since is not None
        voids: list[_Span] = []
        reach = self._reach
        for columns in self._log.read(offset):
            offsets, at = columns.offsets, 0
            for index, mark_bytes in [*marks_in(columns), (len(columns), None)]:
                if at < index and offsets[index - 1] >= reach:
                    return voids
                if mark_bytes is not None:
                    if is_commit(mark_bytes):
                        return voids
                    begin = _begin(mark_bytes)
                    if begin.without is not None:
                        voids.append((begin.without, offsets[index]))
                    at, reach = index + 1, offsets[index] + 1 + begin.rows
        return [(self._since, sys.maxsize)] if self._is_exact else voids


def _begin(mark_bytes: bytes) -> Begin:
    mark = parse(mark_bytes)
    assert isinstance(mark, Begin)
    return mark


def _is_in(spans: list[_Span], offset: int) -> bool:
    return any(first <= offset < end for first, end in spans)


def _outside(columns: RecordColumns, spans: list[_Span]) -> RecordColumns:
    return columns.chosen(bytes(not _is_in(spans, offset) for offset in columns.offsets))


def _up_to(columns: RecordColumns, mask: bytearray, end: int) -> Iterator[RecordColumns]:
    """Yield the chosen records before an index, in columns that end at the last chosen record."""
    chosen = columns.chosen(mask[:end] + bytes(len(columns) - end))
    if len(chosen):
        some = RecordColumns()
        some.extend(chosen, chosen.offsets[0])
        yield some
