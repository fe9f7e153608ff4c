"""The writer of a log's last segment. No other code writes to this segment."""

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
    """The writer that appends batches to a log.

    If the log had bytes after its last whole batch when it was opened, the first write moves these
    bytes to another file. Opening the log does not move the bytes, because the caller first
    compares the store's offset with the log's end.

    Parameters
    ----------
    directory : Path
    tail : Tail
        The end of the last whole batch.
    rest : Rest
        The bytes after this batch.
    segment_bytes : int
        The maximum size of a segment in bytes. A batch that is larger is alone in its segment.
    durability : Durability
        With "power", `sync` syncs the written batches. With "changelog", the writer syncs a segment
        only when it closes the segment. With "process", the writer never syncs.

    Attributes
    ----------
    rest : Rest
        The bytes after the last whole batch. The first write moves these bytes to another file.
        After this write, `rest` is empty.
    lost : bool
        True if the disk failed to sync. The log must then be opened again to find its end.
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
        """The current end of the log. A write that is not finished does not count."""
        return self._undo or self._tail

    def write(self, data: bytes) -> None:
        """Append whole batches. Begin a new segment when the last segment is full.

        Raises
        ------
        StorageFullError, EngineError
            The batches cannot be written. The log's end is unchanged.
        """
        with explained(self._directory):
            self._settle()
            self._undo = self._tail
            try:
                for part, next_offset, last_size in self._parts(data):
                    self._append(part, next_offset, last_size)
                if not self._start_is_noted:
                    self._note_start()
                self._undo = None
            except BaseException:
                self._settle()
                raise

    def sync(self) -> None:
        """Sync the written batches to the disk, if the durability is "power".

        Raises
        ------
        EngineError
            The disk failed to sync. Some bytes of the write may be on the disk.
        """
        if self._durability == "power":
            self._sync()

    def roll(self) -> None:
        """Close the last segment. The next write begins a new segment."""
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
                    f"the disk did not sync the written records of the log {self._directory}: "
                    f"{error.strerror or error}. The log is now closed; open the log again, and "
                    "write the uncommitted records again"
                ) from error
            self._unsynced = False

    def _parts(self, data: bytes) -> Iterator[tuple[bytes, int, int]]:
        """Yield the batches for each segment, the offset after them, and the last batch's size.

        Before it yields the batches of a new segment, the method closes the current segment.
        """
        begin = at = last_size = 0
        next_offset = self._tail.next_offset
        while (head := read_batch_head(data, at)) is not None:
            if self._is_full(at - begin, head):
                if at > begin:
                    yield data[begin:at], next_offset, last_size
                    begin = at
                self._roll()
            at, next_offset, last_size = at + head.size, head.last_offset + 1, head.size
        yield data[begin:at], next_offset, last_size

    def _is_full(self, more: int, head: BatchHead) -> bool:
        """Return True if the last segment, with `more` bytes added, has no space for a batch."""
        size = self._tail.position + more
        return size > 0 and (
            size + head.size > self._segment_bytes
            or head.last_offset - self._tail.segment.base_offset > MAX_OFFSET_DELTA
        )

    def _append(self, data: bytes, next_offset: int, last_size: int) -> None:
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
        self._tail = Tail(segment, position, next_offset, position - last_size)

    def _note_start(self) -> None:
        first = list_segments(self._directory)[0].base_offset
        note_start(self._directory, first, synced=self._durability == "power")
        self._start_is_noted = True

    def _settle(self) -> None:
        """Make the files end at the tail, the end of the last whole batch.

        The method undoes an interrupted write. If the log had bytes after its last whole batch when
        it was opened, the method also moves these bytes to another file. If this call is
        interrupted, the next write repeats the call.
        """
        if self._undo is not None:
            self._take_back(self._undo)
            self._tail, self._undo = self._undo, None
        if self.rest:
            cut = cut_rest(self._tail)
            _log.warning(
                "moved %s after offset %d from %s to %s, in the same directory; remove this file "
                "when its bytes are no longer needed",
                self.rest,
                self._tail.next_offset - 1,
                self._tail.segment.path,
                cut.name,
            )
            self.rest = Rest("none")

    def _take_back(self, before: Tail) -> None:
        """Cut the log back to an earlier end. Segments after this end are removed, newest first."""
        self.close()
        for segment in reversed(list_segments(self._directory)):
            if segment.base_offset > before.segment.base_offset:
                segment.path.unlink()
        if before.segment.path.exists():
            os.truncate(before.segment.path, before.position)
        if not before.position and before.segment in list_segments(self._directory)[:1]:
            forget_start(self._directory)  # The interrupted write was the log's first write.
            self._start_is_noted = False


@contextlib.contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Translate OSErrors of a log's directory into kstore errors.

    Raises
    ------
    StorageFullError, EngineError
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StorageFullError(
                f"the log {directory} cannot be extended: {error.strerror}. The log's end is "
                "unchanged; free disk space, or raise the limit or quota, and try again"
            ) from error
        raise EngineError(
            f"the log {directory} cannot be written: {error.strerror or error}. The log's end is "
            "unchanged; check the disk and the permissions, and try again"
        ) from error
