"""Batches into files: the one place that writes to a log's last segment."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from kstore_core.changelog.files.segment import MAX_OFFSET_DELTA, Segment, list_segments
from kstore_core.changelog.files.start import forget_start, note_start, noted_start
from kstore_core.changelog.files.tail import Rest, Tail, cut_rest
from kstore_core.codec import BatchHead, read_batch_head
from kstore_core.engine import Durability
from kstore_core.errors import EngineError, StorageFullError
from kstore_core.system.directories import sync_directory

__all__ = ["LogWriter", "explained"]

_log = logging.getLogger("kstore_core")


class LogWriter:
    """Appends batches behind the tail of a log.

    What lies behind the tail when a log is opened is moved aside by the first write, no sooner: by
    then the store's offset has been compared with where the log ends.

    Parameters
    ----------
    directory : Path
    tail : Tail
        Where the log ends.
    rest : Rest
        What is behind it.
    segment_bytes : int
        A segment is closed before it gets larger.
    durability : Durability
        With "power" `sync` is what makes a write last; with "changelog" closing a segment is.

    Attributes
    ----------
    rest : Rest
        What is behind it and was there when the log was opened.
    lost : bool
        The disk has refused to sync: where the log ends only a new open finds out.
    """

    def __init__(
        self, directory: Path, tail: Tail, rest: Rest, *, segment_bytes: int, durability: Durability
    ) -> None:
        self._tail = tail
        self.rest = rest
        self._undo: Tail | None = None
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._durability = durability
        self._file: int | None = None
        self._unsynced = False
        self._start_is_noted = noted_start(directory) is not None
        self.lost = False

    @property
    def tail(self) -> Tail:
        """The end of the log now."""
        return self._undo or self._tail

    def write(self, data: bytes) -> None:
        """Append whole batches, in as many segments as they need.

        Raises
        ------
        StorageFullError, EngineError
            The log ends where it did.
        """
        with explained(self._directory):
            self._settle()
            self._undo = self._tail
            try:
                for part, next_offset in self._parts(data):
                    self._append(part, next_offset)
                if not self._start_is_noted:
                    self._note_start()
                self._undo = None
            except BaseException:
                self._settle()
                raise

    def sync(self) -> None:
        """Make what was written survive a power cut, at the level "power".

        Raises
        ------
        EngineError
            The disk refuses. Bytes of this write may be on it.
        """
        if self._durability == "power":
            self._sync()

    def roll(self) -> None:
        """Close the last segment, and begin the next with the next write."""
        with explained(self._directory):
            self._settle()
            self._roll()

    def _roll(self) -> None:
        if self._tail.position:
            if self._durability != "process":
                self._sync()
            self.close()
            end = self._tail.next_offset
            self._tail = Tail(Segment.at(self._directory, end), 0, end)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _sync(self) -> None:
        if self._file is not None and self._unsynced:
            try:
                os.fsync(self._file)
            except OSError as error:
                self.lost = True
                raise EngineError(
                    f"{self._directory}: the disk did not keep what was written: "
                    f"{error.strerror or error}. The log was closed; open it again, which finds "
                    "out where it ends, and write anew what was not committed"
                ) from error
            self._unsynced = False

    def _parts(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """The batches of each segment, and the offset behind them; rolls between segments."""
        begin = at = 0
        next_offset = self._tail.next_offset
        while (head := read_batch_head(data, at)) is not None:
            if self._is_full(at - begin, head):
                if at > begin:
                    yield data[begin:at], next_offset
                    begin = at
                self._roll()
            at, next_offset = at + head.size, head.last_offset + 1
        yield data[begin:at], next_offset

    def _is_full(self, more: int, head: BatchHead) -> bool:
        """Return True if a batch goes to another segment than the `more` bytes before it."""
        size = self._tail.position + more
        return size > 0 and (
            size + head.size > self._segment_bytes
            or head.last_offset - self._tail.segment.base_offset > MAX_OFFSET_DELTA
        )

    def _append(self, data: bytes, next_offset: int) -> None:
        segment, position = self._tail.segment, self._tail.position
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(segment.path, flags, 0o640)
            if self._durability == "power":
                sync_directory(self._directory)
        self._unsynced = True
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._file, rest, position)
            rest, position = rest[written:], position + written
        self._tail = Tail(segment, position, next_offset)

    def _note_start(self) -> None:
        first = list_segments(self._directory)[0].base_offset
        note_start(self._directory, first, synced=self._durability == "power")
        self._start_is_noted = True

    def _settle(self) -> None:
        """Make the files end with the tail: of a write that was interrupted nothing is left.

        What was there when the log was opened is moved aside. It may be interrupted itself: what is
        left to do the next write does.
        """
        if self._undo is not None:
            self._take_back(self._undo)
            self._tail, self._undo = self._undo, None
        if self.rest:
            kept = cut_rest(self._tail)
            _log.warning(
                "Cut %s off %s behind offset %d. They are kept in %s; remove it when nobody needs "
                "it any more",
                self.rest,
                self._tail.segment.path,
                self._tail.next_offset - 1,
                kept.name,
            )
            self.rest = Rest("none")

    def _take_back(self, before: Tail) -> None:
        """Make the log end where it did, the newest bytes first."""
        self.close()
        for segment in reversed(list_segments(self._directory)):
            if segment.base_offset > before.segment.base_offset:
                segment.path.unlink()
        if before.segment.path.exists():
            os.truncate(before.segment.path, before.position)
        if not before.position and before.segment in list_segments(self._directory)[:1]:
            forget_start(self._directory)  # the write was the log's first
            self._start_is_noted = False


@contextlib.contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Say what an error of the file system means for a log.

    Raises
    ------
    StorageFullError, EngineError
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StorageFullError(
                f"{directory}: no space left; the log ends where it did. Make room and try again"
            ) from error
        raise EngineError(
            f"{directory} cannot be written: {error.strerror or error}. The log ends where it did; "
            "mend the disk or its permissions, and open it again"
        ) from error
