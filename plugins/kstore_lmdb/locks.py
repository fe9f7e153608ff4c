"""Locks on the data file of an LMDB environment, which allow only one writer.

A writer holds an exclusive lock. Without this lock, LMDB would let several processes write in turn.
The lock is a ``flock``, which belongs to one open file. So the lock also excludes a second writer
in the same process, and it ends with the process. The lock is independent of the record locks of
LMDB on the file ``lock.mdb``.

A reader that cannot write ``lock.mdb`` holds a shared lock, so that no process writes while the
reader is open.
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
    """A lock on the data file of an environment. The constructor acquires the lock.

    Parameters
    ----------
    path : Path
        The directory of the environment, which errors name.
    data : Path
        The data file.
    shared : bool
        If True, acquire a shared lock, which excludes only exclusive locks.

    Attributes
    ----------
    fd : int or None
        The descriptor of the data file; None after a release. The descriptor is writable unless
        ``shared`` is True.

    Raises
    ------
    EngineLockedError
        Another handle holds the lock. The attribute ``pid`` of the error is the process of the
        other handle, or None if the kernel does not report the process.
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
        self.abandon()  # an interrupt may come before any object has a reference to this lock

    def release(self) -> None:
        """Release the lock. A second release does nothing."""
        if self.fd is not None:
            # Unlock explicitly, because a forked process may have a copy of the descriptor for a
            # short time. A close of this descriptor alone would not end the lock then.
            fcntl.flock(self.fd, fcntl.LOCK_UN)
            self.abandon()

    def abandon(self) -> None:
        """Close the descriptor without an unlock.

        In a forked process an unlock would also end the lock of the parent process.
        """
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)


_EXCLUSIVE = (
    "only one handle at a time may write, and no handle may write while a reader that cannot "
    "register itself in lock.mdb is open. Close the other handle, or open the database with "
    "read_only=True"
)
_SHARED = (
    "this process may not write lock.mdb, so this reader cannot register itself, and must not read "
    "while another handle writes. Close the other handle, or give this user the right to write "
    "lock.mdb"
)
_held: weakref.WeakSet[DataLock] = weakref.WeakSet()


@DATABASES.after_fork
def _forget() -> None:
    """Close the inherited descriptors in a forked process.

    An open descriptor would keep its lock even after the end of the parent process.
    """
    for lock in list(_held):
        with contextlib.suppress(OSError):
            lock.abandon()
    _held.clear()
