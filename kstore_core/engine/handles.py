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
from typing import ClassVar, Literal, NoReturn, Protocol, Self
from weakref import WeakSet

from kstore_core.engine.database import Chunk, Database
from kstore_core.engine.packed import PackedBytes
from kstore_core.errors import EngineError, StoreClosedError, UnsupportedError

__all__ = [
    "DEFAULT",
    "ChunkScan",
    "HandleDatabase",
    "OpenDatabases",
    "Reason",
    "Translating",
    "check_droppable",
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
        """Make the database unusable in a forked process. No native handle may be used."""


class OpenDatabases:
    """The open databases of one engine in this process.

    The databases are closed when the process exits. In a forked process they are abandoned and not
    closed, because their native handles belong to the parent process. The package of an engine must
    create one instance of this class at its import.
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
        """Register an open database. The registry keeps only a weak reference to it."""
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


class HandleDatabase(Database):
    """The base class of a database that cannot be used after its close or in a forked process.

    Attributes
    ----------
    read_only : bool
        True if the database was opened for reading only.
    engine : str
        The name of the engine in errors.
    databases : OpenDatabases
        The open databases of the engine in this process.
    """

    read_only: bool
    engine: ClassVar[str]
    databases: ClassVar[OpenDatabases]
    _ended: Reason | None = None

    def _check(self, *, writing: bool = False) -> None:
        """Raise an error if the database has ended, or if ``writing`` and it is read-only."""
        self.databases.notice_fork()
        if self._ended is not None:
            raise self._ended()
        if writing and self.read_only:
            raise UnsupportedError(
                f"cannot write to {self.engine} database {self.path}, because it was opened "
                "read-only; open the state directory without read_only=True"
            )


class ChunkScan:
    """The base class of a scan, which is an iterator of chunks.

    ``_size`` is the maximum number of rows in the next chunk.
    """

    __slots__ = ("_size",)
    _size: int

    @property
    def packed(self) -> Callable[[int, int], tuple[PackedBytes, PackedBytes] | None] | None:
        """A function that reads the next rows without an object for each row; None at present.

        The function ``packed(size, most_bytes)`` returns the keys and values of at most ``size``
        rows, and of no row behind the row at which the values have ``most_bytes``. It may return
        None. Then the next chunk contains the next rows.
        """
        return None

    def __iter__(self) -> Self:
        return self

    @abstractmethod
    def __next__(self) -> Chunk:
        """Return the next chunk."""

    def first(self) -> tuple[bytes, bytes] | None:
        """Return the next row, or None if no row remains. Then close the scan."""
        self._size = 1
        for keys, values in self:
            self.close()
            return keys[0], values[0]
        return None

    @abstractmethod
    def close(self) -> None:
        """End the scan. A second close does nothing."""


class Translating:
    """The base class of a context manager that translates native errors to errors of kstore.

    Use a subclass as ``with translating("write a batch", path):``. If ``translate`` returns an
    error unchanged, the error is raised unchanged. ``engine`` is the name of the engine in errors.
    """

    __slots__ = ("_action", "_path")
    engine: ClassVar[str]

    def __init__(self, action: str, path: Path) -> None:
        self._action = action
        self._path = path

    @staticmethod
    @abstractmethod
    def translate(error: Exception, action: str, path: Path) -> Exception:
        """Return the kstore error for a native error. A kstore error is returned unchanged.

        Parameters
        ----------
        error : Exception
            The native error.
        action : str
            The action that failed, such as "write a batch".
        path : Path
            The path of the database.
        """

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        del trace  # The traceback would keep native handles alive.
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

    @classmethod
    def closed(cls, path: Path) -> Reason:
        """Return a function that makes the error for a handle to a closed database."""
        what = f"{cls.engine} database {path}"
        return lambda: StoreClosedError(f"{what} has been closed; open it again")

    @classmethod
    def dropped(cls, path: Path, name: str) -> Reason:
        """Return a function that makes the error for a handle to a dropped namespace."""
        return lambda: StoreClosedError(
            f"namespace {name!r} of {cls.engine} database {path} was dropped; "
            f"namespace({name!r}) creates a new namespace"
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
    """Return the pair ``(locked, pid)`` for a lock on a file.

    ``locked`` is True if a process holds the lock. ``pid`` is the id of this process, or None if
    the kernel does not report it. If the system has no ``/proc``, the result is ``(False, None)``.

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
