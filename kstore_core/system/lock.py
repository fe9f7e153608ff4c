"""The writer's lock on a state directory: one file, which also names the engine."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kstore_core.errors import EngineLockedError, StateError, StorageFullError
from kstore_core.system.interrupts import interruptible, uninterrupted

__all__ = [
    "LOCK_FILE",
    "Changes",
    "DirectoryLock",
    "lock_fault",
    "noted_changes",
    "recorded_engine",
]

LOCK_FILE = ".kstore.lock"
_POLL_S = 0.02
_DIGITS = b"%020d"
_MOST_BYTES = 4096
"""The limit for reading the file: kstore never writes a longer one."""


class DirectoryLock:
    """A lock that is held from construction until :meth:`release`, across processes and threads.

    The file stays after the release. ``open_state(engine=None)`` reads the name of the engine from
    it.

    Parameters
    ----------
    directory : Path
        Must exist.
    engine : str
        Recorded in the file.
    timeout_s : float
        The longest wait for another holder.
    check : callable, optional
        Called with the lock held, before anything is recorded. If it raises, the file is unchanged.

    Raises
    ------
    EngineLockedError
        Another process or handle still holds it; ``.pid`` is its process.
    StorageFullError, StateError
        The file cannot be made or written. The lock is not held then.
    """

    _fd: int | None = None

    def __init__(
        self,
        directory: Path,
        engine: str,
        timeout_s: float = 0,
        check: Callable[[], object] | None = None,
    ) -> None:
        self.path = directory / LOCK_FILE
        self._engine = engine
        self._pid: int | None = os.getpid()
        self._changes = 0
        self._digits_at: int | None = None
        try:
            with uninterrupted():
                self._take(time.monotonic() + timeout_s)
                if check is not None:
                    check()
                changes = _changes(_read(self.path))
                self._changes = changes + changes % 2  # odd: the process that made a change is dead
                self._write()
                _held.add(self)
        except EngineLockedError:
            raise
        except OSError as error:
            self._abandon()
            raise _explained(error, directory) from error
        except BaseException:
            self._abandon()
            raise

    def __del__(self) -> None:
        self._abandon()  # an interrupt may have come before the owner got its reference

    def _take(self, deadline: float) -> None:
        while True:
            if self._fd is None:
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    self._abandon()
                    pid = _pid(_read(self.path))
                    who = "this process" if pid == os.getpid() else f"process {pid or '(unknown)'}"
                    raise EngineLockedError(
                        f"{self.path.parent} is open for writing in {who}; close it there, wait "
                        "with lock_timeout_s=…, or open it with read_only=True",
                        pid=pid,
                    ) from None
                with interruptible():
                    time.sleep(_POLL_S)
                continue
            if _is_still(self._fd, self.path):
                return
            # Kafka Streams deletes files that end in .lock; a lock on a deleted file locks nothing.
            self._abandon()

    def record(self, engine: str) -> None:
        """Record that another engine writes the directory from now on."""
        self._engine = engine
        self._write()

    def change(self) -> contextlib.AbstractContextManager[None]:
        """Mark a block in which several databases of the directory differ in their state."""
        return _Change(self)

    def release(self) -> None:
        """Release the lock. A second release does nothing."""
        if self._fd is None:
            return
        _held.discard(self)
        try:
            # If it cannot be written, the file still names this process; the lock is free anyway.
            with contextlib.suppress(OSError):
                self._pid = None
                self._write()
        finally:
            try:
                # A child that is being forked may have a copy of the descriptor for a short time.
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            finally:
                self._abandon()

    def note(self, *, at_rest: bool) -> None:
        """Record that a change begins, by an odd number, or that it has ended, by an even one.

        If an interrupt prevented the record of an end, the next record includes it.
        """
        assert self._fd is not None
        self._changes += 1 if self._changes % 2 == at_rest else 2
        if self._digits_at is None:
            self._write()
        else:  # a commit waits for this: one system call
            os.pwrite(self._fd, _DIGITS % self._changes, self._digits_at)

    def _write(self) -> None:
        assert self._fd is not None
        content: dict[str, Any] = {"engine": self._engine, "pid": self._pid}
        if self._changes:
            content["changes"] = (_DIGITS % self._changes).decode()
        data = json.dumps(content).encode() + b"\n"
        if self._changes:
            self._digits_at = data.index(_DIGITS % self._changes)
        os.pwrite(self._fd, data, 0)
        os.ftruncate(self._fd, len(data))

    def _abandon(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


class _Change:
    """The context manager of :meth:`DirectoryLock.change`."""

    def __init__(self, lock: DirectoryLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.note(at_rest=False)

    def __exit__(self, *_: object) -> None:
        self._lock.note(at_rest=True)


_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


def _after_fork() -> None:
    """Close the inherited descriptors, or a child would hold the locks of its dead parent."""
    for lock in list(_held):
        with contextlib.suppress(OSError):
            lock._abandon()
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)


def _is_still(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _explained(error: OSError, directory: Path) -> Exception:
    """Return the error for a lock file that cannot be made or written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(
            f"{directory}: no space left to write {LOCK_FILE}; nothing was changed. Make room, or "
            "open it with read_only=True"
        )
    mend = "Move it away" if error.errno == errno.EISDIR else "Mend its permissions"
    return StateError(
        f"{directory} cannot be opened for writing, because its {LOCK_FILE} cannot be written: "
        f"{error.strerror or error}. {mend}, or open it with read_only=True"
    )


def recorded_engine(directory: Path) -> str | None:
    """Return the engine that last opened ``directory`` for writing, or None if it is unknown."""
    engine = _read(directory / LOCK_FILE).get("engine")
    return engine if isinstance(engine, str) else None


def lock_fault(directory: Path) -> str | None:
    """Return the reason why the lock file does not name an engine; None if it does."""
    path = directory / LOCK_FILE
    if not os.path.lexists(path):
        return "is missing"
    if not path.is_file():
        return "is no file"
    if recorded_engine(directory) is not None:
        return None
    return "cannot be read" if path.stat().st_size else "is empty"


def _read(path: Path) -> dict[str, Any]:
    """Return the file's contents; empty if it is missing, damaged or not a file."""
    try:
        if not path.is_file():  # reading a pipe would block
            return {}
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        content = json.loads(data) if len(data) <= _MOST_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _pid(content: dict[str, Any]) -> int | None:
    pid = content.get("pid")
    return pid if type(pid) is int and 0 < pid < 2**31 else None


class Changes(NamedTuple):
    """The recorded changes to several databases.

    Attributes
    ----------
    number : int
        The number of begins and ends.
    at_rest : bool
        True if no change is in progress.
    """

    number: int
    at_rest: bool


def noted_changes(directory: Path) -> Changes:
    """Return the changes so far, for a reader beside which another process may write."""
    content = _read(directory / LOCK_FILE)
    number = _changes(content)
    at_rest = number % 2 == 0 or not (_is_alive(_pid(content)) or _is_held(directory))
    return Changes(number, at_rest)


def _changes(content: dict[str, Any]) -> int:
    digits = content.get("changes", "")
    is_number = isinstance(digits, str) and digits.isdecimal() and len(digits) <= len(_DIGITS % 0)
    return int(digits) if is_number else 0


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _is_held(directory: Path) -> bool:
    """Return True if a process holds the lock, although the recorded process does not run.

    Such a process runs in another container, so its pid is unknown here. The test takes the lock
    for a moment, so another process that tries to take the lock then is refused. Call this
    function only after a crash.
    """
    with (directory / LOCK_FILE).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
