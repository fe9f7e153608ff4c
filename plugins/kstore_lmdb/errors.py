"""Translate errors of the binding and of the system into errors of kstore."""

from __future__ import annotations

import errno
import os
import resource
import shlex
import tempfile
from functools import partial
from pathlib import Path

import lmdb

from kstore_core.engine import handles
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
    "closed",
    "dropped",
    "foreign",
    "forked",
    "locked",
    "reraise",
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
    (lmdb.PanicError, "An earlier failure left it unusable: close the store and open it again"),
)


def translate(error: Exception, action: str, path: Path) -> Exception:
    """Return the kstore error for a native error. A kstore error is returned unchanged.

    Parameters
    ----------
    error : Exception
        The error of the binding or of the system.
    action : str
        The failed action, to follow "cannot": ``"scan 'offsets'"``.
    path : Path
        The environment's directory.
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
            f"{what}. There is no space left. What was committed before is intact: make room and "
            "commit again"
        )
    if isinstance(error, _DAMAGED):
        return CorruptionError(
            f"{what}. Bytes on disk are not what was written. Nothing was changed; see what of it "
            f"can still be read with: {_inspect(path)}"
        )
    for kind, remedy in _LIMITS:
        if isinstance(error, kind):
            return EngineError(f"{what}. {remedy}")
    return EngineError(f"{what}. Close the store and look at it with: {_inspect(path)}")


class translating(Translating):  # noqa: N801
    """``with translating("write a batch", path):`` translates errors of the binding."""

    __slots__ = ()
    translate = staticmethod(translate)


reraise = translating.reraise
closed = partial(handles.closed, "lmdb")
dropped = partial(handles.dropped, "lmdb")


def locked(path: Path, pid: int | None, why: str) -> EngineLockedError:
    """Return the error for an environment that this or another process has locked."""
    return EngineLockedError(f"lmdb database {path} is open in {holder_name(pid)}; {why}", pid=pid)


def forked(path: Path) -> Reason:
    """Return the reason why a forked child cannot use an inherited handle."""
    return lambda: ForkedHandleError(
        f"lmdb database {path} was open when this process ({os.getpid()}) was forked off, and an "
        "environment belongs to the process that opened it. Open it in the child only, or start "
        "the child with 'spawn' or 'forkserver' (multiprocessing.set_start_method)"
    )


def foreign(path: Path, why: str) -> InconsistentStateError:
    """Return the error for an environment that another program created."""
    return InconsistentStateError(
        f"lmdb database {path} is another program's: {why}. Nothing was changed; move it out of "
        "the state directory"
    )


def _is_full(error: Exception, path: Path) -> bool:
    """Return True if the disk is full. LMDB reports a short write as an I/O error."""
    if any(_means(error, code) for code in _FULL):
        return True
    return _means(error, errno.EIO) and _cannot_grow(path)


def _cannot_grow(path: Path) -> bool:
    """Return True if files in a directory cannot grow. A temporary file tests this."""
    largest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    while not path.is_dir():  # while it is being made, it has another name
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
    """Return True if an error has this errno, which the binding gives only as text."""
    if isinstance(error, lmdb.Error):
        return str(error).endswith(os.strerror(code))
    return getattr(error, "errno", None) == code


def _inspect(path: Path) -> str:
    """Return the command that inspects the state directory of a database."""
    root = path.parent.parent if path.parent.name == "lmdb" else path
    return f"kstore inspect {shlex.quote(str(root))}"
