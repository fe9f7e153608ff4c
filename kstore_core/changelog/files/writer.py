"""Write batches to files: the only code that writes to a log's last segment."""

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
    """Appends batches after the tail of a log.

    The first write moves the bytes that were after the tail when the log was opened to another
    file. It is not done at open: the store's offset is compared with the log's end first.

    Parameters
    ----------
    directory : Path
    tail : Tail
        The end of the log.
    rest : Rest
        The bytes after the end.
    segment_bytes : int
        The largest size of a segment.
    durability : Durability
        "power": `sync` makes a write durable. "changelog": closing its segment does.

    Attributes
    ----------
    rest : Rest
        The bytes after the end since the log was opened, until the first write.
    lost : bool
        True if the disk failed to sync: the log must be opened again to find its end.
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
            The log's end is unchanged.
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
        """Make the written batches survive a power cut, at the level "power".

        Raises
        ------
        EngineError
            The disk failed to sync. It may have some bytes of the write.
        """
        if self._durability == "power":
            self._sync()

    def roll(self) -> None:
        """Close the last segment; the next write begins a new one."""
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
                    f"{self._directory}: the disk did not sync the written records: "
                    f"{error.strerror or error}. The log is closed; open it again, and "
                    "write the uncommitted records again"
                ) from error
            self._unsynced = False

    def _parts(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the batches for each segment, and the offset after them; rolls between segments."""
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
        """Return True if a batch does not fit into the segment after `more` new bytes."""
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
        """Make the files end at the tail: undo an interrupted write.

        Bytes from before the open are moved to another file. If this call is interrupted, the next
        write finishes its work.
        """
        if self._undo is not None:
            self._take_back(self._undo)
            self._tail, self._undo = self._undo, None
        if self.rest:
            cut = cut_rest(self._tail)
            _log.warning(
                "Cut %s off %s after offset %d. They are in %s; remove it when they are no longer "
                "needed",
                self.rest,
                self._tail.segment.path,
                self._tail.next_offset - 1,
                cut.name,
            )
            self.rest = Rest("none")

    def _take_back(self, before: Tail) -> None:
        """Restore the log's earlier end; the newest bytes are removed first."""
        self.close()
        for segment in reversed(list_segments(self._directory)):
            if segment.base_offset > before.segment.base_offset:
                segment.path.unlink()
        if before.segment.path.exists():
            os.truncate(before.segment.path, before.position)
        if not before.position and before.segment in list_segments(self._directory)[:1]:
            forget_start(self._directory)  # it was the log's first write
            self._start_is_noted = False


@contextlib.contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Translate OSErrors into kstore errors.

    Raises
    ------
    StorageFullError, EngineError
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StorageFullError(
                f"{directory}: no space left; the log's end is unchanged. Make room and try again"
            ) from error
        raise EngineError(
            f"{directory} cannot be written: {error.strerror or error}. The log's end is "
            "unchanged; repair the disk or its permissions, and open the log again"
        ) from error
