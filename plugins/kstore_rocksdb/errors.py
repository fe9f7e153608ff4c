"""Translate errors of the Python library ``rocksdict`` into errors of kstore.

The library raises nearly every error as an ``Exception`` without a type of its own. So kstore
recognizes an error by its text.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
from pathlib import Path

from rocksdict import DbClosedError

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
"""The temporary directory of a read-only database. An error of kstore must not contain its path."""

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
    """Return the kstore error for an error of the library ``rocksdict``.

    See :meth:`Translating.translate`.
    """
    if isinstance(error, KStoreError):
        return error
    error.__traceback__ = None  # the traceback keeps native handles, which lock the database
    text = _SCRATCH.sub(lambda _: str(path), str(error))
    if "raw mode only support bytes" in text:
        return TypeError(f"rocksdb database {path}: cannot {action}: keys and values must be bytes")
    if isinstance(error, (TypeError, ValueError)):
        kind = TypeError if isinstance(error, TypeError) else ValueError
        return kind(f"rocksdb database {path}: cannot {action}: {text}")
    if isinstance(error, DbClosedError):
        return StoreClosedError(
            f"rocksdb database {path}: cannot {action}: the database has been closed"
        )
    if isinstance(error, RuntimeError) and "borrowed" in text:
        return StoreClosedError(
            f"rocksdb database {path}: cannot {action}: another thread is closing the database"
        )
    if is_locked(error):
        return locked(path, os.getpid() if _LOCKED[0] in text else None)
    what = f"rocksdb database {path}: cannot {action}: {text}"
    if any(mark in text for mark in _FULL):
        return StorageFullError(
            f"{what}. All earlier commits are intact, so make room and commit again"
        )
    if _DESCRIPTORS in text:
        return EngineError(
            f"{what}. The process may open at most {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} "
            "files. Allow more files (ulimit -n), close scans and stores that are not needed, or "
            "lower the option max_open_files. All earlier commits are intact"
        )
    if any(mark in text for mark in _DAMAGED) or _EMPTY.search(text):
        return CorruptionError(
            f"{what}. The database is damaged: bytes on disk are missing or are not what was "
            "written. Nothing was changed. To see what can still be read, run: "
            f"{inspect_command(path)}"
        )
    if _MAP in text:
        return EngineError(
            f"{what}. The system cannot map this file into memory. Pass the option mmap_reads=False"
        )
    return EngineError(
        f"{what}. Close the store, and examine its directory with: {inspect_command(path)}"
    )


class translating(Translating):  # noqa: N801
    """A context manager that translates errors: ``with translating("write a batch", path):``."""

    __slots__ = ()
    engine = "rocksdb"
    translate = staticmethod(translate)


reraise = translating.reraise


def exists_already(error: BaseException) -> bool:
    """Return True if a native error says that the column family exists already."""
    return "Column family already exists" in str(error)


def is_locked(error: BaseException) -> bool:
    """Return True if a native error says that a handle has locked the database."""
    return any(mark in str(error) for mark in _LOCKED)


def locked(path: Path, pid: int | None) -> EngineLockedError:
    """Return the error for a database that a handle of this or another process has locked."""
    return EngineLockedError(
        f"rocksdb database {path} is open for writing by {holder_name(pid)}, and only one handle "
        "at a time may write. Close the other handle, or open the database with read_only=True",
        pid=pid,
    )


def forked(path: Path) -> Reason:
    """Return a function that returns the error for a handle in a forked process."""
    return lambda: ForkedHandleError(
        f"rocksdb database {path} was opened before this process ({os.getpid()}) was forked, and "
        "RocksDB does not work after a fork. Open databases in the child only, and start the child "
        "with 'spawn' or 'forkserver' (multiprocessing.set_start_method)"
    )


def inspect_command(path: Path) -> str:
    """Return the command that inspects the state directory of a database.

    The database must be in ``<root>/rocksdb/<store>``, or be a segment in
    ``<root>/<store>/<store>.<start>``.
    """
    folder = path.parent.name
    inside = folder == "rocksdb" or (
        path.name.startswith(folder) and _SEGMENT.fullmatch(path.name, len(folder))
    )
    root = path.parent.parent if inside else path
    return f"kstore inspect {shlex.quote(str(root))}"
