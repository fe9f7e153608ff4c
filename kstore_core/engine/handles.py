"""Helpers for the native handles of an engine.

They translate native errors, close databases at the exit of the process, and disable handles in a
forked process.
"""

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
"""A function that returns a new error for a handle that cannot be used any more."""

KERNEL_LOCKS = Path("/proc/locks")

_increment = ctypes.pythonapi.Py_IncRef
_increment.argtypes = [ctypes.py_object]
_increment.restype = None


def leak(native: object) -> None:
    """Add a reference to ``native`` that is never removed, so that Python never frees it."""
    _increment(native)


class OpenDatabase(Protocol):
    """A database that must be closed when its process exits."""

    def close(self) -> None:
        """Close the database at the end of the process."""

    def abandon(self) -> None:
        """Make the database unusable in a forked process, without using a native handle."""


class OpenDatabases:
    """The open databases of one engine in this process.

    The databases are closed when the process exits. In a forked process they are abandoned and not
    closed, because their native handles belong to the parent process. The package of an engine must
    create one instance of this class when it is imported.
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
        """Register an open database. Its garbage collection removes it again."""
        self._databases.add(database)

    def after_fork(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a function to call in a forked process before the databases are abandoned.

        The method returns ``callback``, so it can be used as a decorator.
        """
        self._callbacks.append(callback)
        return callback

    def notice_fork(self) -> None:
        """Abandon the databases if this is a forked process and Python did not notice the fork."""
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
        with ExitStack() as stack:  # If one close fails, the other databases are closed too.
            for database in list(self._databases):
                stack.callback(database.close)


class Translating:
    """The base class of a context manager that translates native errors to errors of kstore.

    It is used as ``with translating("write a batch", path):``. An error that ``translate`` returns
    unchanged is raised unchanged.
    """

    __slots__ = ("_action", "_path")

    def __init__(self, action: str, path: Path) -> None:
        self._action = action
        self._path = path

    @staticmethod
    @abstractmethod
    def translate(error: Exception, action: str, path: Path) -> Exception:
        """Return the error of kstore for a native error, or the same error if it needs no change.

        Parameters
        ----------
        error : Exception
            The native error.
        action : str
            What the engine tried to do, such as "write a batch".
        path : Path
            The path of the database.
        """

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        del trace  # The traceback would keep native handles alive that translate releases.
        if isinstance(error, Exception):
            self.reraise(error, self._action, self._path)

    @classmethod
    def reraise(cls, error: Exception, action: str, path: Path) -> NoReturn:
        """Raise the translated error. The native error becomes its ``__cause__``."""
        translated = cls.translate(error, action, path)
        try:
            if translated is error:
                raise error
            raise translated from error
        finally:
            del error, translated  # A reference cycle with this frame would keep handles open.


def closed(engine: str, path: Path) -> Reason:
    """Return a function that returns the error for a handle whose database was closed."""
    return lambda: StoreClosedError(f"{engine} database {path} has been closed; open it again")


def dropped(engine: str, path: Path, name: str) -> Reason:
    """Return a function that returns the error for a handle whose namespace was dropped."""
    return lambda: StoreClosedError(
        f"namespace {name!r} of {engine} database {path} was dropped; "
        f"namespace({name!r}) makes a new one"
    )


def check_droppable(name: str) -> None:
    """Raise UnsupportedError if ``name`` is the default namespace, which cannot be dropped."""
    if name == DEFAULT:
        raise UnsupportedError(
            f"the namespace {DEFAULT!r} cannot be dropped; delete its rows instead"
        )


def holder_name(pid: int | None) -> str:
    """Return a description of the process that has opened a database, for an error."""
    if pid == os.getpid():
        return f"this process ({pid}) through another handle"
    return "another process" if pid is None else f"process {pid}"


def lock_holder(status: os.stat_result, kind: Literal["FLOCK", "POSIX"]) -> tuple[bool, int | None]:
    """Return whether a process holds a lock on a file, and the pid of the process.

    The pid is None if the kernel does not report it. If the system has no ``/proc``, the result is
    ``(False, None)``.

    Parameters
    ----------
    status : os.stat_result
        The status of the file.
    kind : {"FLOCK", "POSIX"}
        The kind of the lock.
    """
    try:
        lines = KERNEL_LOCKS.read_text().splitlines()
    except OSError:
        return False, None
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in lines:
        # A line is "1: POSIX  ADVISORY  WRITE 4711 fe:00:262158 0 EOF". If a process waits for the
        # lock, the second field is "->".
        fields = line.split()
        if len(fields) >= 8 and fields[1] == kind and fields[5] == file:
            pid = int(fields[4])
            return True, pid if pid > 0 else None
    return False, None
