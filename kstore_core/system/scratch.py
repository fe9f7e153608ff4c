"""The temporary directories of readers, which are removed even if a reader is killed.

The owner of a temporary directory locks a file in the directory. When the process ends, even by
SIGKILL, the kernel releases the lock. A later reader removes directories whose file is not locked.
Directories without such a file are not removed; ``kstore doctor`` lists them.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from kstore_core.system.interrupts import leave

__all__ = ["HELD", "Scratch", "reap"]

HELD = ".kstore-reader"
"""The name of the file that the owner of a temporary directory locks."""

_NAME = re.compile(r"kstore-(read|verify)-[a-z0-9_]{8}")
_REAP_EVERY_S = 60.0

_reaped: float | None = None
"""The time of this process's last call of :func:`reap`, in seconds of the monotonic clock."""


class Scratch:
    """A new temporary directory, which is locked until it is removed.

    The constructor also calls :func:`reap`, at most once a minute.

    Parameters
    ----------
    purpose : {"read", "verify"}
        The word in the name of the directory.

    Attributes
    ----------
    path : Path
    """

    __slots__ = ("_held", "_pid", "path")

    def __init__(self, purpose: Literal["read", "verify"] = "read") -> None:
        _reap_now_and_then()
        self._pid = os.getpid()
        self._held: int | None = None
        # Another process may remove the new directory before it is locked.
        while self._held is None:
            self.path = Path(tempfile.mkdtemp(prefix=f"kstore-{purpose}-"))
            try:
                self._held = _hold(self.path / HELD, create=True)
            except FileNotFoundError:
                continue
            except BaseException:
                shutil.rmtree(self.path, ignore_errors=True)
                raise

    def __enter__(self) -> Path:
        return self.path

    __exit__ = leave

    def _leave(self, normally: bool) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the directory and release its lock. A forked child only closes the lock file."""
        held, self._held = self._held, None
        if held is None:
            return
        if os.getpid() == self._pid:
            _remove(self.path)
        os.close(held)


def reap() -> list[Path]:
    """Remove the temporary directories that ended processes of this user have left.

    Returns
    -------
    list of Path
        The removed directories.
    """
    removed = []
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        names = [Path(entry.path) for entry in entries if _NAME.fullmatch(entry.name)]
        for directory in filter(_is_mine, names):
            with suppress(OSError):
                held = _hold(directory / HELD)
                if held is not None:
                    _remove(directory)
                    os.close(held)
                    removed.append(directory)
    return removed


def _reap_now_and_then() -> None:
    global _reaped
    now = time.monotonic()
    if _reaped is None or now - _reaped >= _REAP_EVERY_S:
        _reaped = now
        reap()


def _is_mine(directory: Path) -> bool:
    """Return True if the path is a directory of this user, and not a symbolic link."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _hold(file: Path, *, create: bool = False) -> int | None:
    """Lock a file and return its descriptor.

    Return None if another process has locked or replaced the file. If the file system has no
    locks, return the descriptor if ``create`` is True, otherwise None.
    """
    flags = os.O_CREAT | os.O_EXCL if create else 0
    held = os.open(file, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have removed the directory before the lock was taken.
        if os.path.samestat(os.fstat(held), file.lstat()):
            return held
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        if create:
            return held
    os.close(held)
    return None


def _remove(directory: Path) -> None:
    """Remove a directory.

    The lock file is removed last, so that a later call can finish an interrupted removal.
    """
    with suppress(OSError):
        for entry in sorted(directory.iterdir(), key=lambda entry: entry.name == HELD):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        directory.rmdir()
