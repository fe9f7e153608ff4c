"""The records of a changelog up to the end of a commit: what a store may be restored from.

Rows whose commit has not ended yet are held back until its mark comes. Where none comes, the writer
was killed before it had sent them all, and they are left out. A log without marks, as Kafka Streams
writes it, is given as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from kstore_core.changelog.marks import Begin, Commit, is_commit, marks_in, parse
from kstore_core.changelog.protocol import Changelog
from kstore_core.codec import RecordColumns

__all__ = ["WholeCommits", "whole_end", "without_marks"]

HELD_BYTES = 24 * 1024 * 1024
"""Keys, values and headers that wait in memory for the end of their commit. Of a larger commit the
log is read ahead instead, to see how it ends."""

_Span = tuple[int, int]


def without_marks(columns: RecordColumns) -> RecordColumns:
    """The records that are no marks."""
    kept = bytearray(b"\1") * len(columns)
    for index, _ in marks_in(columns):
        kept[index] = 0
    return columns.chosen(kept) if 0 in kept else columns


def whole_end(log: Changelog, contained: int) -> int:
    """The offset behind the last record that a store of `contained` may be restored to."""
    whole = WholeCommits(log, contained + 1, contained + 1)
    for _ in whole:
        pass
    return whole.next_offset


class WholeCommits:
    """The records of a log from an offset on, without marks: iterate once.

    Parameters
    ----------
    log : Changelog
    begin : int
        The offset to read from.
    whole_at : int
        The offset behind the last commit that the store is known to contain: 0 of an empty one.

    Attributes
    ----------
    next_offset : int
        Behind what has been given.
    commit : Commit or None
        What a store contains that has the records given. None where the log does not say it: no
        mark has come, or records without marks behind it.
    left_out : int or None
        At the end: the offset from which on records were left out, of a commit that has not ended.
    """

    def __init__(self, log: Changelog, begin: int, whole_at: int) -> None:
        self.next_offset = begin
        self.commit: Commit | None = None
        self.left_out: int | None = None
        self._log = log
        self._whole_at = whole_at
        self._ended: bytes | None = None
        self._since: int | None = None  # where the commit that is open begins
        self._reach = 0  # the offset behind the rows that its marks speak of
        # Nothing lies between it and what is known to be whole: without it the store is exactly
        # that. Else compaction may have taken rows that those of the open commit supersede.
        self._is_exact = True
        self._held: list[RecordColumns] = []
        self._voids: list[_Span] | None = None  # of the open commit, where the log was read ahead

    def __iter__(self) -> Iterator[RecordColumns]:
        for columns in self._log.read(self.next_offset):
            yield from self._given(columns)
            self.next_offset = columns.next_offset
        if self._since is not None and self._is_given:
            yield from self._close(None)
        if self._since is not None:
            self.next_offset = self.left_out = self._since
        if self._ended is not None:
            mark = parse(self._ended)
            assert isinstance(mark, Commit)
            self.commit = mark

    @property
    def _is_given(self) -> bool:
        """True if the rows of a commit that is open at the log's end are given all the same."""
        if self._voids is not None:
            return self._voids != [(self._since, sys.maxsize)]  # it ends behind what was read
        return not self._is_exact

    def _given(self, columns: RecordColumns) -> Iterator[RecordColumns]:
        """The next records that may be given, behind those that were held back."""
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
                self._held = [_outside(held, [void]) for held in self._held]
                for place in range(opened, index):
                    mask[place] = mask[place] and not _is_in([void], offsets[place])
            self._reach = offsets[index] + 1 + begin.rows
        if self._since is None or self._voids is not None:
            if any(mask):
                yield columns.chosen(mask)
            return
        yield from _up_to(columns, mask, opened)
        self._hold(columns, mask, opened)
        if sum(held.payload_bytes for held in self._held) > HELD_BYTES:
            self._voids = self._read_ahead(columns.next_offset)
            held, self._held = self._held, []
            for some in held:
                if len(given := _outside(some, self._voids)):
                    yield given

    def _hold(self, columns: RecordColumns, mask: bytearray, opened: int) -> None:
        kept = bytes(opened) + mask[opened:]
        if any(kept):
            self._held.append(columns.chosen(kept))

    def _close(self, mark_bytes: bytes | None) -> Iterator[RecordColumns]:
        """Give the records held back: their commit has ended, or records without marks follow."""
        held, self._held = self._held, []
        self._since, self._voids, self._ended = None, None, mark_bytes
        yield from (some for some in held if len(some))

    def _read_ahead(self, offset: int) -> list[_Span]:
        """The spans of the open commit that are not to be given."""
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
    """The chosen records in front of an index, which say no offset behind it as their next."""
    chosen = columns.chosen(mask[:end] + bytes(len(columns) - end))
    if len(chosen):
        some = RecordColumns()
        some.extend(chosen, chosen.offsets[0])
        yield some
