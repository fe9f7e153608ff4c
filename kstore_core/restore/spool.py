"""The division of a log into chunks that fit into memory, in the log's order or by key."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from kstore_core import changelog
from kstore_core.codec import RecordColumns, split_by_key
from kstore_core.errors import KStoreError
from kstore_core.system.interrupts import leave

__all__ = ["Gathered", "SpooledParts", "in_chunks", "weight"]

RECORD_BYTES = 100
"""The memory in bytes that a record needs in addition to its key, value and headers."""

_USUAL_PARTS = 16
_MOST_PARTS = 256
_DEEPEST = 4


def weight(records: RecordColumns) -> int:
    """Return the approximate memory of records in bytes."""
    return records.payload_bytes + RECORD_BYTES * len(records)


def in_chunks(
    batches: Iterable[RecordColumns], max_bytes: int
) -> Iterator[tuple[RecordColumns, int]]:
    """Join batches of records. Yield each joined batch, and the offset after its last record."""
    pending = RecordColumns()
    next_offset = 0
    for batch in batches:
        if len(pending) and weight(pending) + weight(batch) > max_bytes:
            yield pending, next_offset
            pending = RecordColumns()
        pending.extend(batch, batch.offsets[0])  # This removes gaps between offsets.
        next_offset = batch.next_offset
    if len(pending):
        yield pending, next_offset


class Gathered:
    """Records that are collected for one read, in memory or, if they are many, in files by key.

    Parameters
    ----------
    root : Path
        The path of a temporary folder for the files.
    max_bytes : int
        The approximate maximum memory of the records in bytes. Above this limit the records are
        moved to the files.
    expected : int
        The approximate number of records, if it is known. It determines the number of files.

    Attributes
    ----------
    held_bytes : int
        The approximate memory in bytes of the records that are in memory now.
    """

    def __init__(self, root: Path, max_bytes: int, expected: int = 0) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._expected = expected
        self._parts: SpooledParts | None = None
        self._held = RecordColumns()
        self._next_offset = 0
        self._closing = ExitStack()
        self.held_bytes = 0

    def make_room(self, records: RecordColumns, *, spool: bool = False) -> None:
        """Move the records in memory to files if they and `records` would exceed the limit.

        If ``spool`` is true, move the records in memory in any case.
        """
        if len(self._held) and (spool or self.held_bytes + weight(records) > self._max_bytes):
            self._spool()

    def add(self, records: RecordColumns) -> None:
        """Add the next records of a log. Their bytes are shared, not copied."""
        self.make_room(records)
        self._held.extend(records, self._next_offset)
        self._next_offset += len(records)
        self.held_bytes += weight(records)

    def _spool(self) -> None:
        if self._parts is None:
            count = -(-self._expected // len(self._held)) + 1 if self._expected else _USUAL_PARTS
            parts = SpooledParts(self._root, count, self._max_bytes)
            self._parts = self._closing.enter_context(parts)
        self._parts.add(self._held)
        self._held = RecordColumns()
        self.held_bytes = 0

    def __iter__(self) -> Iterator[RecordColumns]:
        """Yield the records in batches. All records of a key are in one batch, in their order."""
        if self._parts is None:
            yield self._held
            return
        self._spool()
        yield from self._parts

    def close(self) -> None:
        """Drop the records, and remove the files."""
        self._held = RecordColumns()
        self.held_bytes = 0
        self._closing.close()


class SpooledParts:
    """Records that are divided by key into parts on the disk.

    All records of a key are in one part, in the order of the log.

    Parameters
    ----------
    root : Path
        The path of a temporary folder for the parts. Files in the folder are removed first.
    count : int
        The number of parts. If it is more than 256, there are 256 parts.
    max_bytes : int
        The intended memory of a part in bytes. A part that needs more than twice this memory is
        divided again, but at most four times.
    """

    def __init__(self, root: Path, count: int, max_bytes: int, *, depth: int = 0) -> None:
        self._root = root
        self._count = min(count, _MOST_PARTS)
        self._max_bytes = max_bytes
        self._depth = depth
        self._sizes = [0] * self._count
        self._logs: list[changelog.FileChangelog] = []
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        shutil.rmtree(self._root, ignore_errors=True)
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self._root, ignore_errors=True)
            self._logs = [
                stack.enter_context(changelog.FileChangelog(self._root, "part", number))
                for number in range(self._count)
            ]
            self._closing = stack.pop_all()
        return self

    __exit__ = leave

    def _leave(self, normally: bool) -> None:
        # After a full disk, the close of a log raises again, but the files are removed anyway.
        with suppress(KStoreError, OSError):
            self._closing.close()

    def add(self, records: RecordColumns) -> None:
        """Append each record to the part of its key."""
        parts = split_by_key(records, self._count, self._depth)
        for number, (log, part) in enumerate(zip(self._logs, parts, strict=True)):
            if len(part):
                self._sizes[number] += weight(part)
                log.extend(part)
                log.commit()

    def __iter__(self) -> Iterator[RecordColumns]:
        """Yield each part as one batch of records."""
        for log, size in zip(self._logs, self._sizes, strict=True):
            if size <= 2 * self._max_bytes or self._depth == _DEEPEST:
                part = RecordColumns()
                for batch in log.read():
                    part.extend(batch, part.next_offset)
                yield part
                continue
            count = -(-size // self._max_bytes)
            deeper = SpooledParts(
                self._root / "parts", count, self._max_bytes, depth=self._depth + 1
            )
            with deeper as parts:
                for batch, _ in in_chunks(log.read(), self._max_bytes):
                    parts.add(batch)
                yield from parts
