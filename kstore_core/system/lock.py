"""The file that locks a state directory for one writer and contains the name of the engine."""

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
"""The maximum number of bytes that are read from a lock file. kstore never writes more bytes."""


class DirectoryLock:
    """A lock on a directory, which excludes other processes and other handles of this process.

    The constructor takes the lock, and :meth:`release` releases it. The lock file stays after the
    release, because ``open_state(engine=None)`` reads the name of the engine from it.

    Parameters
    ----------
    directory : Path
        The directory to lock. It must exist.
    engine : str
        The name of the engine to write to the lock file.
    timeout_s : float
        The maximum time in seconds to wait until another owner releases the lock.
    check : callable, optional
        A function that is called after the lock was taken. If the function raises an error, the
        lock is released and the file is unchanged.

    Raises
    ------
    EngineLockedError
        Another process or handle has the lock. The attribute ``pid`` is the id of the process.
    StorageFullError, StateError
        The lock file cannot be created or written, so the lock was not taken.
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
                # An odd number means that a process was killed during a change.
                self._changes = changes + changes % 2
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
        # After an interrupt in the constructor, the caller may have no reference to the lock.
        self._abandon()

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
                    who = f"process {pid}" if pid else "an unknown process"
                    who = "this process" if pid == os.getpid() else who
                    raise EngineLockedError(
                        f"{self.path.parent} is open for writing in {who}. Close it in that "
                        "process, wait with lock_timeout_s=…, or open it with read_only=True",
                        pid=pid,
                    ) from None
                with interruptible():
                    time.sleep(_POLL_S)
                continue
            if _is_still(self._fd, self.path):
                return
            # Kafka Streams deletes files that end in .lock. A lock on a deleted file excludes no
            # other process, so take the lock again on a new file.
            self._abandon()

    def record(self, engine: str) -> None:
        """Write the name of another engine to the lock file."""
        self._engine = engine
        self._write()

    def change(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager for a change to several databases of the directory.

        During the change the lock file contains an odd number, so that other processes can wait
        until the change has ended.
        """
        return _Change(self)

    def release(self) -> None:
        """Release the lock. A second release does nothing."""
        if self._fd is None:
            return
        _held.discard(self)
        try:
            # If the write fails, the file still names this process, but the lock is free.
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
        """Write the number of changes to the lock file.

        The number is odd from the beginning to the end of a change. If an interrupt prevented the
        write at the end of a change, the next write adds 2, so that the number stays odd.

        Parameters
        ----------
        at_rest : bool
            True at the end of a change, False at its beginning.
        """
        assert self._fd is not None
        self._changes += 1 if self._changes % 2 == at_rest else 2
        if self._digits_at is None:
            self._write()
        else:  # Commits wait for this write, so it is only one system call.
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
    """Close the inherited lock files in a forked child.

    An open file would keep its lock even after the parent process has ended.
    """
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
    """Return the kstore error for a lock file that cannot be created or written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(
            f"the disk of {directory} has no space left to write {LOCK_FILE}. Nothing was changed. "
            "Free some space, or open the state directory with read_only=True"
        )
    mend = "Move" if error.errno == errno.EISDIR else "Correct the permissions of"
    away = " away" if error.errno == errno.EISDIR else ""
    return StateError(
        f"{directory} cannot be opened for writing, because its {LOCK_FILE} cannot be written: "
        f"{error.strerror or error}. {mend} {LOCK_FILE}{away}, or open the state directory with "
        "read_only=True"
    )


def recorded_engine(directory: Path) -> str | None:
    """Return the engine that last opened ``directory`` for writing, or None if it is unknown."""
    engine = _read(directory / LOCK_FILE).get("engine")
    return engine if isinstance(engine, str) else None


def lock_fault(directory: Path) -> str | None:
    """Return the fault of a lock file, such as "is missing"; None if the file names an engine."""
    path = directory / LOCK_FILE
    if not os.path.lexists(path):
        return "is missing"
    if not path.is_file():
        return "is not a file"
    if recorded_engine(directory) is not None:
        return None
    return "cannot be read" if path.stat().st_size else "is empty"


def _read(path: Path) -> dict[str, Any]:
    """Return the content of the lock file. It is empty if the file is missing or damaged."""
    try:
        if not path.is_file():  # A read of a pipe would block.
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
    """The number of beginnings and ends of changes to several databases, from the lock file.

    ``at_rest`` is True if no change is in progress.
    """

    number: int
    at_rest: bool


def noted_changes(directory: Path) -> Changes:
    """Return the state of the changes that another process makes to a directory."""
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
    """Return True if any process has the lock. Call this if the recorded process does not run.

    A process in another container may have the lock, because its pid is not visible in this
    container. This function takes the lock for a short time, and then no writer can take the lock.
    So call this function only if the writer has probably crashed.
    """
    with (directory / LOCK_FILE).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
