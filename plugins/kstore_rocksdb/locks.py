"""Who holds a database: handles of this process by a claim, other processes by the kernel's list.

RocksDB holds its ``LOCK`` file by a POSIX record lock. Such a lock is gone as soon as the process
closes *any* descriptor of the file, so nothing here, or elsewhere in this package, opens it.
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
    """The reservation of one handle, released when the handle is collected."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let another handle have it. Releasing twice is fine."""
        with _guard:
            if _claims.get(self._name) is self:
                del _claims[self._name]


_claims: WeakValueDictionary[str, Claim] = WeakValueDictionary()
_guard = threading.RLock()  # the collector may end a claim while it is held


def claim(path: Path) -> Claim:
    """Reserve ``path`` for one handle of this process, for as long as the claim is not released.

    Raises
    ------
    EngineLockedError
        Another handle of this process has it, or another process holds the lock file.
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
    """Drop all claims and the guard: they belong to the process that this one was forked from."""
    global _guard
    _guard = threading.RLock()
    _claims.clear()


def _holder(lock_file: Path) -> tuple[bool, int | None]:
    """Return whether a process holds ``lock_file``, and its pid where the kernel gives it.

    Without ``/proc`` RocksDB finds out when it tries to lock.
    """
    try:
        return lock_holder(lock_file.stat(), "POSIX")
    except OSError:
        return False, None
