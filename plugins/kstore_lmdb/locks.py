"""The writer's lock on the data file of an environment. LMDB itself allows any process to write.

The lock is a ``flock``, which belongs to one open file. So the lock excludes a second handle of the
same process, ends with the process, and is independent of the record locks on LMDB's lock file. A
reader that cannot write LMDB's lock file takes the lock as a shared lock, so that no process writes
while it reads.
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
    """A lock on a data file. The constructor takes the lock, and :meth:`release` releases it.

    Parameters
    ----------
    path : Path
        The environment's directory.
    shared : bool
        If True, exclude writers, but not other shared locks.

    Attributes
    ----------
    fd : int or None
        The descriptor of the data file. It is writable unless ``shared`` is True.

    Raises
    ------
    EngineLockedError
        Another handle holds the lock; ``.pid`` is its process, if the kernel lists it.
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
        self.abandon()  # an interrupt may have come before the owner got its reference

    def release(self) -> None:
        """Release the lock. A second release does nothing."""
        if self.fd is not None:
            # A child that is being forked may have a copy of the descriptor for a short time.
            fcntl.flock(self.fd, fcntl.LOCK_UN)
            self.abandon()

    def abandon(self) -> None:
        """Close the descriptor without an unlock, which would also end the lock of the parent."""
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)


_EXCLUSIVE = (
    "one handle at a time may write, and none while a reader that cannot register itself reads. "
    "Close it there, or open it with read_only=True"
)
_SHARED = (
    "its lock.mdb cannot be written, so this reader cannot register itself for the writer. "
    "Close it there, or allow writing to lock.mdb"
)
_held: weakref.WeakSet[DataLock] = weakref.WeakSet()


@DATABASES.after_fork
def _forget() -> None:
    """Close the inherited descriptors in a forked child, or the locks would outlive the parent."""
    for lock in list(_held):
        with contextlib.suppress(OSError):
            lock.abandon()
    _held.clear()
