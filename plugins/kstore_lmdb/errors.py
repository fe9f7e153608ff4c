"""Translate errors of the Python library ``lmdb`` and of the system into errors of kstore."""

from __future__ import annotations

import errno
import os
import resource
import shlex
import tempfile
from pathlib import Path

import lmdb

from kstore_core.engine.handles import Reason, Translating, holder_name
from kstore_core.errors import (
    CorruptionError,
    EngineError,
    EngineLockedError,
    ForkedHandleError,
    InconsistentStateError,
    KStoreError,
    StorageFullError,
)

__all__ = [
    "Reason",
    "foreign",
    "forked",
    "locked",
    "translate",
    "translating",
]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LITTLE_BYTES = 1 << 20
_DAMAGED = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
)
_LIMITS: tuple[tuple[type[lmdb.Error], str], ...] = (
    (lmdb.DbsFullError, "Raise the option max_namespaces"),
    (
        lmdb.ReadersFullError,
        "Close scans, snapshots and read-only handles, or raise the option max_readers",
    ),
    (lmdb.TxnFullError, "Commit more often"),
    (
        lmdb.MemoryError,
        "Allow more address space (ulimit -v), or lower the option map_size_bytes",
    ),
    (
        lmdb.PanicError,
        "An earlier failure has made the database unusable. Close the store, and open it again",
    ),
)


def translate(error: Exception, action: str, path: Path) -> Exception:
    """Return the kstore error for an error of the library ``lmdb`` or of the system.

    See :meth:`Translating.translate`.
    """
    if isinstance(error, KStoreError):
        return error
    if isinstance(error, (UnicodeDecodeError, lmdb.IncompatibleError)):
        return foreign(path, f"cannot {action}: {error}")
    what = f"lmdb database {path}: cannot {action}: {error}"
    if isinstance(error, (TypeError, ValueError, KeyError)):
        return error if isinstance(error, KeyError) else type(error)(what)
    if _is_full(error, path):
        return StorageFullError(
            f"{what}. There is no space left on the disk. All earlier commits are intact, so make "
            "room and commit again"
        )
    if isinstance(error, _DAMAGED):
        return CorruptionError(
            f"{what}. The database is damaged: bytes on disk are not what was written. Nothing was "
            f"changed. To see what can still be read, run: {_inspect(path)}"
        )
    for kind, remedy in _LIMITS:
        if isinstance(error, kind):
            return EngineError(f"{what}. {remedy}")
    return EngineError(f"{what}. Close the store, and examine its directory with: {_inspect(path)}")


class translating(Translating):  # noqa: N801
    """A context manager that translates errors: ``with translating("write a batch", path):``."""

    __slots__ = ()
    engine = "lmdb"
    translate = staticmethod(translate)


def locked(path: Path, pid: int | None, why: str) -> EngineLockedError:
    """Return the error for an environment that a handle of this or another process has locked."""
    return EngineLockedError(f"lmdb database {path} is open in {holder_name(pid)}; {why}", pid=pid)


def forked(path: Path) -> Reason:
    """Return a function that returns the error for a handle in a forked process."""
    return lambda: ForkedHandleError(
        f"lmdb database {path} was opened before this process ({os.getpid()}) was forked, and a "
        "forked process cannot use it. Open the database in the child only, or start the child "
        "with 'spawn' or 'forkserver' (multiprocessing.set_start_method)"
    )


def foreign(path: Path, why: str) -> InconsistentStateError:
    """Return the error for an environment that another program created."""
    return InconsistentStateError(
        f"another program created lmdb database {path}: {why}. Nothing was changed. Move the "
        "database out of the state directory"
    )


def _is_full(error: Exception, path: Path) -> bool:
    """Return True if an error means that the disk is full.

    LMDB reports a full disk as an I/O error if only a part of the data could be written.
    """
    if any(_means(error, code) for code in _FULL):
        return True
    return _means(error, errno.EIO) and _cannot_grow(path)


def _cannot_grow(path: Path) -> bool:
    """Return True if files in a directory cannot grow. Write a temporary file to find out."""
    largest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    while not path.is_dir():  # an environment that is being created still has a temporary name
        path = path.parent
    try:
        size = max((file.stat().st_size for file in path.iterdir()), default=0)
        if largest != resource.RLIM_INFINITY and size + _LITTLE_BYTES > largest:
            return True
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(bytes(_LITTLE_BYTES))
            file.flush()
    except OSError as error:
        return error.errno in _FULL
    return False


def _means(error: Exception, code: int) -> bool:
    """Return True if an error has the errno ``code``. An ``lmdb.Error`` has only its text."""
    if isinstance(error, lmdb.Error):
        return str(error).endswith(os.strerror(code))
    return getattr(error, "errno", None) == code


def _inspect(path: Path) -> str:
    """Return the command that inspects the state directory of a database."""
    root = path.parent.parent if path.parent.name == "lmdb" else path
    return f"kstore inspect {shlex.quote(str(root))}"
