"""Translate errors of the binding into errors of kstore.

The binding raises a bare ``Exception`` for nearly every error, so the text of the error decides.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
from functools import partial
from pathlib import Path

from rocksdict import DbClosedError

from kstore_core.engine import handles
from kstore_core.engine.handles import Reason, Translating, holder_name
from kstore_core.errors import (
    CorruptionError,
    EngineError,
    EngineLockedError,
    ForkedHandleError,
    KStoreError,
    StorageFullError,
    StoreClosedError,
)

__all__ = [
    "Reason",
    "closed",
    "dropped",
    "exists_already",
    "forked",
    "inspect_command",
    "is_locked",
    "locked",
    "reraise",
    "translate",
    "translating",
]

_SCRATCH = re.compile(r"\S*/kstore-read-[a-z0-9_]{8}\b")
"""A scratch directory of a read-only database: messages name the database's own directory."""

_SEGMENT = re.compile(r"[.:-][0-9]+")

_DAMAGED = (
    "Corruption",
    "file is too short",
    "No such file or directory",
    "larger than file length",  # a block beyond the end of a mapped file
)
_MAP = "while mmap file for read"
_EMPTY = re.compile(f"{_MAP}: .*: Invalid argument")
"""The system cannot map an empty file."""

_FULL = ("No space left", "Disk quota exceeded", "File too large")
_DESCRIPTORS = "Too many open files"
_LOCKED = ("lock hold by current process", "While lock file")


def translate(error: Exception, action: str, path: Path) -> Exception:
    """Return the kstore error for an error of the binding. A kstore error is returned unchanged.

    Parameters
    ----------
    error : Exception
        The error of the binding.
    action : str
        The failed action, to follow "cannot": ``"scan 'offsets'"``.
    path : Path
        The database's directory.
    """
    if isinstance(error, KStoreError):
        return error
    error.__traceback__ = None  # its frames hold native handles, which would hold the LOCK
    text = _SCRATCH.sub(lambda _: str(path), str(error))
    if "raw mode only support bytes" in text:
        return TypeError(f"rocksdb database {path}: cannot {action}: keys and values are bytes")
    if isinstance(error, (TypeError, ValueError)):
        kind = TypeError if isinstance(error, TypeError) else ValueError
        return kind(f"rocksdb database {path}: cannot {action}: {text}")
    if isinstance(error, DbClosedError):
        return StoreClosedError(f"rocksdb database {path}: cannot {action}: it has been closed")
    if isinstance(error, RuntimeError) and "borrowed" in text:
        return StoreClosedError(
            f"rocksdb database {path}: cannot {action}: another thread is closing it"
        )
    if is_locked(error):
        return locked(path, os.getpid() if _LOCKED[0] in text else None)
    what = f"rocksdb database {path}: cannot {action}: {text}"
    if any(mark in text for mark in _FULL):
        return StorageFullError(
            f"{what}. What was committed before is intact: make room and commit again"
        )
    if _DESCRIPTORS in text:
        return EngineError(
            f"{what}. The process may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} files "
            "open: allow more (ulimit -n), close scans and stores that are not needed, or lower "
            "the option max_open_files. What was committed before is intact"
        )
    if any(mark in text for mark in _DAMAGED) or _EMPTY.search(text):
        return CorruptionError(
            f"{what}. Bytes on disk are missing or are not what was written. Nothing was changed; "
            f"see what of it can still be read with: {inspect_command(path)}"
        )
    if _MAP in text:
        return EngineError(
            f"{what}. The system cannot map this file into memory: pass the option mmap_reads=False"
        )
    return EngineError(f"{what}. Close the store and look at it with: {inspect_command(path)}")


class translating(Translating):  # noqa: N801
    """``with translating("write a batch", path):`` translates errors of the binding."""

    __slots__ = ()
    translate = staticmethod(translate)


reraise = translating.reraise
closed = partial(handles.closed, "rocksdb")
dropped = partial(handles.dropped, "rocksdb")


def exists_already(error: BaseException) -> bool:
    """Return True if a native error means that the column family exists."""
    return "Column family already exists" in str(error)


def is_locked(error: BaseException) -> bool:
    """Return True if a native error means that the lock is held."""
    return any(mark in str(error) for mark in _LOCKED)


def locked(path: Path, pid: int | None) -> EngineLockedError:
    """Return the error for a directory that this or another process has locked."""
    return EngineLockedError(
        f"rocksdb database {path} is open for writing by {holder_name(pid)}; one handle at a "
        "time may write. Close it there, or open it with read_only=True",
        pid=pid,
    )


def forked(path: Path) -> Reason:
    """Return the reason why a forked child cannot use an inherited handle."""
    return lambda: ForkedHandleError(
        f"rocksdb database {path} was opened before this process ({os.getpid()}) was forked off, "
        "and RocksDB does not survive a fork. Open databases in the child only, and start it with "
        "'spawn' or 'forkserver' (multiprocessing.set_start_method)"
    )


def inspect_command(path: Path) -> str:
    """Return the command that inspects the state directory of a database.

    The database is ``root/rocksdb/<store>``, or the segment ``root/<store>/<store>.<start>``.
    """
    folder = path.parent.name
    inside = folder == "rocksdb" or (
        path.name.startswith(folder) and _SEGMENT.fullmatch(path.name, len(folder))
    )
    root = path.parent.parent if inside else path
    return f"kstore inspect {shlex.quote(str(root))}"
