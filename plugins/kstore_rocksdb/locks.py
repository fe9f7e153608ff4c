"""Find out whether a database is already open for writing.

Each handle for writing in this process holds a :class:`Claim`. The kernel tells whether another
process has the database open.

RocksDB locks its file ``LOCK`` with a POSIX record lock. A process loses such a lock when it closes
*any* descriptor of the file. So this package closes a descriptor of the file only if this process
does not have the lock.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from pathlib import Path
from weakref import WeakValueDictionary

from kstore_core.engine.handles import lock_holder
from kstore_rocksdb.errors import locked

__all__ = ["Claim", "claim", "forget"]


class Claim:
    """The right of one handle to open a path for writing.

    A claim ends when it is released, or when Python frees the object.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the claim. A second release does nothing."""
        with _guard:
            if _claims.get(self._name) is self:
                del _claims[self._name]


_claims: WeakValueDictionary[str, Claim] = WeakValueDictionary()
_guard = threading.RLock()  # reentrant, because the garbage collector may free a claim meanwhile


def claim(path: Path) -> Claim:
    """Return a claim on the database directory ``path``. No other claim on it may exist.

    Raises
    ------
    EngineLockedError
        Another handle of this process has a claim on ``path``, or a process has locked the
        database.
    """
    name = os.path.realpath(path)
    with _guard:
        if name in _claims:
            raise locked(path, os.getpid())
        held, pid = _holder(path / "LOCK")
        if held:
            raise locked(path, pid)
        claimed = _claims[name] = Claim(name)
        return claimed


def forget() -> None:
    """Remove all claims in a forked process, because they belong to the parent process."""
    global _guard
    _guard = threading.RLock()
    _claims.clear()


def _holder(lock_file: Path) -> tuple[bool, int | None]:
    """Return whether a process has locked ``lock_file``, and the pid of the process.

    The pid is None if the kernel does not report it. If the file is missing or the system does not
    tell, the result is ``(False, None)``. RocksDB then detects a lock when it opens the database.

    The list of all locks in ``/proc`` is used only if the kernel cannot tell about one file. A read
    of the list waits, often for milliseconds, until no thread of the system locks or unlocks a
    file.
    """
    try:
        status = lock_file.stat()
        found = _asked(lock_file, (status.st_dev, status.st_ino))
    except OSError:
        return False, None
    return lock_holder(status, "POSIX") if found is None else found


def _asked(lock_file: Path, file: tuple[int, int]) -> tuple[bool, int | None] | None:
    """Return whether a process has locked a file, and its pid; None if the kernel cannot tell."""
    query = getattr(fcntl, "F_OFD_GETLK", None)  # Unlike F_GETLK, it finds our own locks, too.
    if query is None:
        return None
    descriptor = _kept.pop(file, None)
    if descriptor is None:
        try:
            descriptor = os.open(lock_file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError:
            return None
    try:
        found = fcntl.fcntl(descriptor, query, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        _kept[file] = descriptor
        return None
    kind, _, _, _, pid = _FLOCK.unpack(found)
    held = kind != fcntl.F_UNLCK
    if held and pid == os.getpid():
        _kept[file] = descriptor
    else:
        os.close(descriptor)
    return held, pid if held and pid > 0 else None


_FLOCK = struct.Struct("hhqqi4x")
"""The type ``struct flock`` of 64-bit systems: type, whence, start, length and pid."""

_kept: dict[tuple[int, int], int] = {}
"""Open descriptors of files, by device and inode. A close could end a lock of this process."""
