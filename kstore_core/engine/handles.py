"""Native handles of an engine: their errors, and their close at exit and after a fork."""

from __future__ import annotations

import atexit
import ctypes
import os
from abc import abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, NoReturn, Protocol
from weakref import WeakSet

from kstore_core.errors import EngineError, StoreClosedError, UnsupportedError

__all__ = [
    "DEFAULT",
    "OpenDatabases",
    "Reason",
    "Translating",
    "check_droppable",
    "closed",
    "dropped",
    "holder_name",
    "leak",
    "lock_holder",
]

DEFAULT = "default"
"""The namespace that every database has."""

Reason = Callable[[], EngineError]
"""The error of a handle that has ended, made anew for each use."""

KERNEL_LOCKS = Path("/proc/locks")

_increment = ctypes.pythonapi.Py_IncRef
_increment.argtypes = [ctypes.py_object]
_increment.restype = None


def leak(native: object) -> None:
    """Never free ``native``."""
    _increment(native)


class OpenDatabase(Protocol):
    """A database that ends with its process."""

    def close(self) -> None:
        """Close the database at the end of the process."""

    def abandon(self) -> None:
        """End the database in a forked child without touching anything native."""


class OpenDatabases:
    """The open databases of one engine in this process.

    They are closed when the process exits. A forked child abandons them: it frees no native object,
    because these belong to the parent. Make one at the import of an engine's package.
    """

    def __init__(self) -> None:
        self._databases: WeakSet[OpenDatabase] = WeakSet()
        self._callbacks: list[Callable[[], None]] = []
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self._close_all)

    def __len__(self) -> int:
        return len(self._databases)

    def add(self, database: OpenDatabase) -> None:
        """Register an open database; it is forgotten when it is collected."""
        self._databases.add(database)

    def after_fork(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` in a forked child, before its databases are abandoned. A decorator."""
        self._callbacks.append(callback)
        return callback

    def notice_fork(self) -> None:
        """Detect a fork that Python did not see, by a system call."""
        if os.getpid() != self._pid:
            self._after_fork()

    def _after_fork(self) -> None:
        self._pid = os.getpid()
        for callback in self._callbacks:
            callback()
        for database in list(self._databases):
            database.abandon()
        self._databases.clear()

    def _close_all(self) -> None:
        self.notice_fork()
        with ExitStack() as stack:  # after a failure the others are closed, too
            for database in list(self._databases):
                stack.callback(database.close)


class Translating:
    """Base of ``with translating("write a batch", path):``, which translates native errors.

    An error that ``translate`` returns as it is passes through.
    """

    __slots__ = ("_action", "_path")

    def __init__(self, action: str, path: Path) -> None:
        self._action = action
        self._path = path

    @staticmethod
    @abstractmethod
    def translate(error: Exception, action: str, path: Path) -> Exception:
        """Return the kstore error for a native one."""

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        del trace  # or this frame would keep native handles alive that translate releases
        if isinstance(error, Exception):
            self.reraise(error, self._action, self._path)

    @classmethod
    def reraise(cls, error: Exception, action: str, path: Path) -> NoReturn:
        """Raise the translated error ``from`` the native one."""
        translated = cls.translate(error, action, path)
        try:
            if translated is error:
                raise error
            raise translated from error
        finally:
            del error, translated  # a cycle with this frame would keep native handles open


def closed(engine: str, path: Path) -> Reason:
    """Return the reason of handles whose database was closed."""
    return lambda: StoreClosedError(f"{engine} database {path} has been closed; open it again")


def dropped(engine: str, path: Path, name: str) -> Reason:
    """Return the reason of handles whose namespace was dropped."""
    return lambda: StoreClosedError(
        f"namespace {name!r} of {engine} database {path} was dropped; "
        f"namespace({name!r}) makes a new one"
    )


def check_droppable(name: str) -> None:
    """Refuse to drop the default namespace."""
    if name == DEFAULT:
        raise UnsupportedError(
            f"the namespace {DEFAULT!r} cannot be dropped; delete its rows instead"
        )


def holder_name(pid: int | None) -> str:
    """Return the process that holds a database, for an error."""
    if pid == os.getpid():
        return f"this process ({pid}) through another handle"
    return "another process" if pid is None else f"process {pid}"


def lock_holder(status: os.stat_result, kind: Literal["FLOCK", "POSIX"]) -> tuple[bool, int | None]:
    """Return True if a process holds a lock on a file, and its pid if the kernel reports it.

    Return False and None without ``/proc``.
    """
    try:
        lines = KERNEL_LOCKS.read_text().splitlines()
    except OSError:
        return False, None
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in lines:
        # "1: POSIX  ADVISORY  WRITE 4711 fe:00:262158 0 EOF"; a waiting one has "->" second
        fields = line.split()
        if len(fields) >= 8 and fields[1] == kind and fields[5] == file:
            pid = int(fields[4])
            return True, pid if pid > 0 else None
    return False, None
