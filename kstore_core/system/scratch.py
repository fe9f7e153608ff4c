"""Temporary directories of readers; the next reader removes those whose owner is dead.

The owner of a directory holds a lock on a file in it. The kernel releases the lock when the process
ends, however it ends. Only directories with such a file are removed. ``kstore doctor`` lists the
directories without one.
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

__all__ = ["HELD", "Scratch", "reap"]

HELD = ".kstore-reader"
"""The file that the owner of a directory locks."""

_NAME = re.compile(r"kstore-(read|verify)-[a-z0-9_]{8}")
_REAP_EVERY_S = 60.0

_reaped: float | None = None
"""The time of this process's last :func:`reap`, by the monotonic clock."""


class Scratch:
    """A new temporary directory, locked until it is removed; making one may call :func:`reap`.

    Parameters
    ----------
    purpose : {"read", "verify"}

    Attributes
    ----------
    path : Path
    """

    __slots__ = ("_held", "_pid", "path")

    def __init__(self, purpose: Literal["read", "verify"] = "read") -> None:
        _reap_now_and_then()
        self._pid = os.getpid()
        self._held: int | None = None
        while self._held is None:  # another process may have reaped it before it was locked
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

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the directory and release its lock; in a forked child, only close its file."""
        held, self._held = self._held, None
        if held is None:
            return
        if os.getpid() == self._pid:
            _remove(self.path)
        os.close(held)


def reap() -> list[Path]:
    """Remove the directories of this user's dead readers from the temporary directory."""
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
    """Return True for a directory of this user that is not a link."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _hold(file: Path, *, create: bool = False) -> int | None:
    """A descriptor that holds the file locked; None if another one does, or removed the file.

    On a file system without locks, a file that is created gets an unlocked descriptor, and an
    existing file gives None.
    """
    flags = os.O_CREAT | os.O_EXCL if create else 0
    held = os.open(file, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have removed the directory between the two calls.
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
    """Remove a directory, its lock file last, so a later call can finish an interrupted removal."""
    with suppress(OSError):
        for entry in sorted(directory.iterdir(), key=lambda entry: entry.name == HELD):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        directory.rmdir()
