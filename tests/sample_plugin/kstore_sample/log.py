"""The file of one store: a line a batch with its checksum, read from the beginning at open."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kstore_core.errors import CorruptionError, EngineError, EngineLockedError, StorageFullError

FILE = "rows.jsonl"


def read(path: Path) -> tuple[list[Any], int]:
    """The entries of a log, and how many bytes they take; a line that was torn is not one.

    Raises
    ------
    CorruptionError
        A whole line is not what was written.
    """
    entries = []
    end = 0
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        checksum, _, text = line[:-1].partition(b" ")
        if checksum != _checksum(text):
            raise CorruptionError(
                f"{path} is damaged in the line at byte {end}; restore it from a checkpoint, or "
                "rebuild the store from its changelog in an empty directory"
            )
        entries.append(json.loads(text))
        end += len(line)
    return entries, end


def write_new(path: Path, entries: Iterable[Any]) -> None:
    """A whole log, on disk when this returns."""
    with path.open("xb") as file:
        for entry in entries:
            file.write(_line(entry))
        file.flush()
        os.fsync(file.fileno())


class Log:
    """A log that is appended to. One at a time holds a directory.

    Raises
    ------
    EngineLockedError
        Somebody else does; ``.pid`` says who.
    """

    def __init__(self, directory: Path, *, synced: bool) -> None:
        self.path = directory / FILE
        self._synced = synced
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._lock, 20)
            os.close(self._lock)
            raise EngineLockedError(
                f"{directory} is open for writing by process {holder.decode() or '?'}; close it "
                "there, or open it with read_only=True",
                pid=int(holder) if holder else None,
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)

    def replay(self) -> Iterator[Any]:
        """The entries so far; what a crash left of an unfinished one is cut off."""
        entries, end = read(self.path)
        os.ftruncate(self._file, end)
        yield from entries

    def append(self, entry: Any) -> None:
        """Add an entry, or nothing of it.

        Raises
        ------
        StorageFullError, EngineError
            It could not be written.
        """
        end = os.fstat(self._file).st_size
        left = memoryview(_line(entry))
        try:
            while left:
                left = left[os.write(self._file, left) :]
            if self._synced:
                self.sync()
        except OSError as error:
            os.ftruncate(self._file, end)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            raise (StorageFullError if full else EngineError)(
                f"{self.path}: cannot write a batch: {error}. What was committed before is intact"
            ) from error

    def sync(self) -> None:
        """Everything so far is on disk when this returns."""
        os.fsync(self._file)

    def replace(self, entries: Iterable[Any]) -> None:
        """Put other entries in the place of those that there are, in one step."""
        other = self.path.with_suffix(".new")
        other.unlink(missing_ok=True)
        write_new(other, entries)
        other.rename(self.path)

    def close(self, *, forked: bool = False) -> None:
        """Let the next one in; in a fork, let go of what was inherited."""
        os.close(self._file)
        if not forked:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        os.close(self._lock)


def _line(entry: Any) -> bytes:
    text = json.dumps(entry, separators=(",", ":")).encode()
    return b"%b %b\n" % (_checksum(text), text)


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)
