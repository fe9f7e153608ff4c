"""Who holds a database: handles of this process by a claim, other processes by the kernel's list.

RocksDB holds its ``LOCK`` file by a POSIX record lock. Such a lock is gone as soon as the process
closes *any* descriptor of the file, so nothing here, or elsewhere in this package, opens it.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from kstore_rocksdb.errors import locked

__all__ = ["claim", "holder", "release"]

_KERNEL_LOCKS = Path("/proc/locks")
_claims: set[str] = set()
_guard = threading.Lock()


def claim(path: Path) -> str:
    """Reserve ``path`` for one handle of this process; gives the claim to release.

    Raises
    ------
    EngineLockedError
        Another handle of this process has it, or another process holds the lock file.
    """
    name = os.path.realpath(path)
    with _guard:
        if name in _claims:
            raise locked(path, os.getpid())
        held, pid = holder(path / "LOCK")
        if held:
            raise locked(path, pid)
        _claims.add(name)
    return name


def release(name: str) -> None:
    """Give a claim back."""
    with _guard:
        _claims.discard(name)


def forget() -> None:
    """Drop all claims and the guard: they belong to the process that this one was forked from."""
    global _guard
    _guard = threading.Lock()
    _claims.clear()


def holder(lock_file: Path) -> tuple[bool, int | None]:
    """Whether a process holds ``lock_file``, and which, as far as the kernel tells.

    Where it does not tell (no ``/proc``), RocksDB finds out when it tries to lock.
    """
    try:
        status = lock_file.stat()
        lines = _KERNEL_LOCKS.read_text().splitlines()
    except OSError:
        return False, None
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in lines:
        # "1: POSIX  ADVISORY  WRITE 4711 fe:00:262158 0 EOF"; a waiting one has "->" second
        fields = line.split()
        if len(fields) >= 8 and fields[1] == "POSIX" and fields[5] == device:
            pid = int(fields[4])
            return True, pid if pid > 0 else None
    return False, None
