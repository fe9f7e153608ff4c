"""Who writes an environment: a lock on its data file, for LMDB itself lets any process write.

The lock is ``flock``'s, which belongs to one opening of the file: it tells two handles of one
process apart, goes with the process, and is independent of the record locks by which LMDB guards
its own lock file. Readers that cannot register themselves there share it, so that nobody writes
while they read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path

from kstore_core.engine.handles import lock_holder
from kstore_core.system.interrupts import uninterrupted
from kstore_lmdb.errors import locked
from kstore_lmdb.forks import DATABASES

__all__ = ["DataLock"]


class DataLock:
    """Held from construction until :meth:`release`.

    Parameters
    ----------
    path : Path
        The environment's directory.
    shared : bool
        Keep writers out, instead of everybody else who wants the lock.

    Attributes
    ----------
    fd : int or None
        The data file, open for reading, and for writing unless ``shared``.

    Raises
    ------
    EngineLockedError
        Somebody holds it; ``.pid`` says who, where the kernel tells.
    """

    fd: int | None = None

    def __init__(self, path: Path, data: Path, *, shared: bool = False) -> None:
        access, kind = (os.O_RDONLY, fcntl.LOCK_SH) if shared else (os.O_RDWR, fcntl.LOCK_EX)
        with uninterrupted():
            self.fd = os.open(data, access | os.O_CLOEXEC)
            try:
                fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                _, pid = lock_holder(os.fstat(self.fd), "FLOCK")
                self.abandon()
                raise locked(path, pid, _SHARED if shared else _EXCLUSIVE) from None
            except OSError:
                self.abandon()
                raise
            _held.add(self)

    def __del__(self) -> None:
        self.abandon()  # an interrupt may have kept its owner from knowing of it

    def release(self) -> None:
        """Let others in. Releasing twice is fine."""
        if self.fd is not None:
            # A child that is being forked may hold a copy of the descriptor for a moment.
            fcntl.flock(self.fd, fcntl.LOCK_UN)
            self.abandon()

    def abandon(self) -> None:
        """Close the descriptor without unlocking what a process shares with its parent."""
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)


_EXCLUSIVE = (
    "one handle at a time may write, and none while a reader that cannot register itself reads. "
    "Close it there, or open it with read_only=True"
)
_SHARED = (
    "its lock.mdb cannot be written from here, so this reader cannot be told of to the writer. "
    "Close it there, or allow writing to lock.mdb"
)
_held: weakref.WeakSet[DataLock] = weakref.WeakSet()


@DATABASES.after_fork
def _forget() -> None:
    """Let go of what was inherited over a fork, or a child would keep its dead parent's locks."""
    for lock in list(_held):
        with contextlib.suppress(OSError):
            lock.abandon()
    _held.clear()
