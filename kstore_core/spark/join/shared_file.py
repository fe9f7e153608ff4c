"""Memory-mapped files that all Python workers of a machine share. Each is written by one worker.

::

    <cache>/joins/<name>       a complete file
    <cache>/joins/<name>.tmp   an unfinished file

A writer has an exclusive lock on the unfinished file. When the file is complete, the writer renames
the file and turns its lock into a shared lock. Each reader maps the file and has a shared lock
until the mapping ends. To wait for the writer, a process waits for a shared lock on the unfinished
file. The system releases the locks of a killed process, so the next process writes the file anew.

After a crash of the machine, a complete file may have lost its contents. Therefore the name
includes the identifier of the machine's boot, so a file from before a crash is never read. Before a
new file is written, files without readers are removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from kstore_core.errors import SpecError
from kstore_core.spark.root.cache import cache_directory

__all__ = ["TooLargeError", "share_files"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class TooLargeError(Exception):
    """The files together exceed the greatest size."""


def share_files(
    names: Sequence[str], write: Callable[[int, BinaryIO, int], None], *, max_bytes: int
) -> list[mmap.mmap] | None:
    """Map the shared files with these names into memory. If a file is missing, write it first.

    ``write`` writes a file. It gets the position of the file's name in ``names``, the file, and the
    number of bytes that the file may have. Processes that call the function with the same names at
    the same time share the work: a process first writes the files that no other process writes, and
    then waits for the files of the other processes. Return None if the system has no identifier of
    its boot, or if the directory of the cache cannot be used.

    Raises TooLargeError if the files together have more than ``max_bytes`` bytes. After this or
    another error, such as one of ``write``, the files that no other process uses are removed.
    """
    try:
        boot = _BOOT.read_text()
        directory = cache_directory() / "joins"
        directory.mkdir(mode=0o700, exist_ok=True)
    except (OSError, SpecError):
        return None
    paths = [
        directory / hashlib.sha256(f"{boot}\n{name}".encode()).hexdigest()[:40] for name in names
    ]
    found: dict[Path, mmap.mmap] = {}
    try:
        _find(paths, write, found, max_bytes)
    except BaseException:
        for mapped in found.values():
            mapped.close()
        with contextlib.suppress(OSError):
            _remove_unused(paths)
        raise
    return [found[path] for path in paths]


def _find(
    paths: Sequence[Path],
    write: Callable[[int, BinaryIO, int], None],
    found: dict[Path, mmap.mmap],
    max_bytes: int,
) -> None:
    """Add all files to ``found``."""
    rest = max_bytes
    wait = False
    while missing := [path for path in paths if path not in found]:
        before = len(found)
        for path in missing:
            own = partial(write, paths.index(path))
            mapped = _mapped(path) or _written(path, own, rest, wait=wait)
            if mapped is not None:
                found[path] = mapped
                rest -= len(mapped)
            if rest < 0:
                raise TooLargeError
            if wait:
                break
        wait = len(found) == before


def _mapped(path: Path) -> mmap.mmap | None:
    """Map a complete file with a shared lock, or return None if there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return _map(descriptor) if _is_at(path, descriptor) else None
    finally:
        os.close(descriptor)


def _written(
    path: Path, write: Callable[[BinaryIO, int], None], max_bytes: int, *, wait: bool
) -> mmap.mmap | None:
    """Write a file and map it. Return None if another process has begun to write the file.

    If ``wait`` is true, wait for the other process, and map the file that it wrote, if there is
    one.
    """
    scratch = path.with_suffix(".tmp")
    descriptor = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                return None
            fcntl.flock(descriptor, fcntl.LOCK_SH)  # This waits for the writer.
            return _map(descriptor) if _is_at(path, descriptor) else None
        if not _is_at(scratch, descriptor):
            return None
        try:
            if path.exists():  # Another process wrote the file before this process had the lock.
                return None
            _remove_unused(each for each in path.parent.iterdir() if each != scratch)
            if os.fstat(descriptor).st_size:  # A killed process has begun to write.
                # ext4 writes every file that was truncated to the disk when it is closed.
                os.ftruncate(descriptor, 0)
            with open(descriptor, "wb", closefd=False) as file:
                write(file, max_bytes)
            scratch.rename(path)
        finally:
            if _is_at(scratch, descriptor):
                scratch.unlink()
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return _map(descriptor)
    finally:
        os.close(descriptor)


def _map(descriptor: int) -> mmap.mmap:
    """Map a file for reading. mmap duplicates the descriptor, so the mapping keeps the lock."""
    flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    return mmap.mmap(descriptor, 0, flags, mmap.PROT_READ)


def _is_at(path: Path, descriptor: int) -> bool:
    """Return True if the open file is the file at a path."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _remove_unused(paths: Iterable[Path]) -> None:
    """Remove those files of ``paths`` that no process reads or writes."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(path, descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)
