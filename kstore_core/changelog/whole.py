"""The records of the whole commits of a changelog, from which a store may be restored.

Rows of an open commit are buffered until its mark is read. If the log has no mark for them, the
writer was killed before it had sent all of them, and they are skipped. A log without marks, as
Kafka Streams writes it, is passed on unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from kstore_core.changelog.marks import Begin, Commit, is_commit, marks_in, parse
from kstore_core.changelog.protocol import Changelog
from kstore_core.codec import RecordColumns

__all__ = ["WholeCommits", "whole_end", "without_marks"]

BUFFERED_BYTES = 24 * 1024 * 1024
"""The limit for buffered keys, values and headers. For a larger commit the log is read ahead
instead, to find its end."""

_Span = tuple[int, int]


def without_marks(columns: RecordColumns) -> RecordColumns:
    """Return the records without the marks among them."""
    mask = bytearray(b"\1") * len(columns)
    for index, _ in marks_in(columns):
        mask[index] = 0
    return columns.chosen(mask) if 0 in mask else columns


def whole_end(log: Changelog, contained: int) -> int:
    """The offset after the last whole commit, for a store that contains the offset `contained`."""
    whole = WholeCommits(log, contained + 1, contained + 1)
    for _ in whole:
        pass
    return whole.next_offset


class WholeCommits:
    """An iterator, to be used once, of a log's records from an offset on, without marks.

    Parameters
    ----------
    log : Changelog
    begin : int
        The offset to read from.
    whole_at : int
        The offset after the last commit that the store contains; 0 for an empty store.

    Attributes
    ----------
    next_offset : int
        The offset after the records yielded so far.
    commit : Commit or None
        The state of a store that has the yielded records. None if it is unknown: no mark was read,
        or records without marks follow the last one.
    left_out : int or None
        After the iteration: the first offset of an open commit whose records were skipped.
    """

    def __init__(self, log: Changelog, begin: int, whole_at: int) -> None:
        self.next_offset = begin
        self.commit: Commit | None = None
        self.left_out: int | None = None
        self._log = log
        self._whole_at = whole_at
        self._ended: bytes | None = None
        self._since: int | None = None  # the begin of the open commit
        self._reach = 0  # the offset after the rows that its marks count
        # True if the open commit begins right after the last whole one: without it the store is
        # whole. Else compaction may have removed rows that rows of the open commit supersede.
        self._is_exact = True
        self._buffered: list[RecordColumns] = []
        self._voids: list[_Span] | None = (
            None  # void spans of the open commit, if the log was read ahead
        )

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
        """True if rows of a commit that is still open at the log's end are yielded anyway."""
        if self._voids is not None:
            return self._voids != [
                (self._since, sys.maxsize)
            ]  # its end follows the records that were read
        return not self._is_exact

    def _whole_records(self, columns: RecordColumns) -> Iterator[RecordColumns]:
        """Yield the buffered records whose commit has ended, then the next whole ones."""
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
        """Yield the buffered records: their commit has ended, or records without marks follow."""
        buffered, self._buffered = self._buffered, []
        self._since, self._voids, self._ended = None, None, mark_bytes
        yield from (some for some in buffered if len(some))

    def _read_ahead(self, offset: int) -> list[_Span]:
        """Return the spans of the open commit that are void."""
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
    """Yield the chosen records before an index, with a ``next_offset`` that is not after it."""
    chosen = columns.chosen(mask[:end] + bytes(len(columns) - end))
    if len(chosen):
        some = RecordColumns()
        some.extend(chosen, chosen.offsets[0])
        yield some
