"""The process and handle that have a database open for writing.

Claims find a handle of this process; the kernel's list of locks finds another process.

RocksDB holds its ``LOCK`` file by a POSIX record lock. Such a lock is lost when the process closes
*any* descriptor of the file, so no code of this package opens it.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from weakref import WeakValueDictionary

from kstore_core.engine.handles import lock_holder
from kstore_rocksdb.errors import locked

__all__ = ["Claim", "claim", "forget"]


class Claim:
    """The reservation of a path by one handle. It is released when the handle is freed."""

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
_guard = threading.RLock()  # reentrant: the garbage collector may end a claim meanwhile


def claim(path: Path) -> Claim:
    """Reserve ``path`` for one handle of this process, until the claim is released.

    Raises
    ------
    EngineLockedError
        Another handle of this process has claimed it, or another process holds the lock file.
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
    """Drop all claims and the guard in a forked child, because they belong to its parent."""
    global _guard
    _guard = threading.RLock()
    _claims.clear()


def _holder(lock_file: Path) -> tuple[bool, int | None]:
    """Return if a process has locked ``lock_file``, and its pid if the kernel lists it.

    Without ``/proc`` the result is False. RocksDB then detects the lock when it opens the database.
    """
    try:
        return lock_holder(lock_file.stat(), "POSIX")
    except OSError:
        return False, None
