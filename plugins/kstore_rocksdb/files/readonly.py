"""Make temporary directories in which RocksDB opens a database for reading only.

The library ``rocksdict`` writes to every directory that it opens, even for reading only. So kstore
opens a read-only database in a temporary directory. The directory contains links to the table
files, which never change, and copies of the other files, which are small. So kstore can read a
database on a read-only file system, or while a writer has the database open.

The copy is consistent for two reasons:

* A writer records each change of its set of files in the manifest first. So if the manifest did not
  change during the copy, the copied files belong together.
* A writer appends rows to the newest write-ahead log only. kstore copies the newest log first, so
  the copied rows are a prefix of the written rows.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from kstore_core.errors import EngineError
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_core.system.scratch import HELD, Scratch

__all__ = ["KEPT", "copy_scratch", "current_manifest", "with_scratch"]

KEPT = ".beyond-gap"
"""The suffix of a log that must not be replayed; see :mod:`kstore_rocksdb.files.wal`."""

_LINKED = (".sst", ".blob")
_LOG = ".log"
_SKIPPED = ("LOCK", "LOG", "OPTIONS-", "rocksdict-config.json", HELD)
_ATTEMPTS = 50
_PATIENCE_S = 30.0
_PAUSE_S = 0.01

Opened = TypeVar("Opened")


def with_scratch(source: Path, use: Callable[[Scratch], Opened]) -> Opened:
    """Make a temporary copy of the database in ``source``, and return ``use(scratch)``.

    If ``use`` raises an error, the temporary directory is removed. If ``use`` returns, the caller
    must remove the directory later.

    Raises
    ------
    FileNotFoundError
        There is no database in ``source``.
    EngineError
        A writer has changed the database during each attempt to copy it.
    """
    begun = time.monotonic()
    attempt = 0
    while attempt < _ATTEMPTS or time.monotonic() - begun < _PATIENCE_S:
        with uninterrupted():
            before = current_manifest(source)
            scratch = Scratch()
            done = False
            try:
                _fill(scratch.path, source)
                if current_manifest(source) == before:
                    opened = use(scratch)
                    done = True
                    return opened
            except Exception:
                if current_manifest(source) == before:
                    raise
            finally:
                if not done:
                    scratch.remove()
        with interruptible():
            time.sleep(_PAUSE_S * min(attempt, 10))
        attempt += 1
    raise EngineError(
        f"rocksdb database {source} changed {attempt} times while it was being opened for "
        "reading. Try again, or read a checkpoint of the database"
    )


def copy_scratch(scratch: Path, target: Path) -> None:
    """Copy a temporary directory to ``target``, with copies of the linked files.

    ``CURRENT`` is copied last, so that an incomplete copy is not a database.
    """
    target.mkdir()
    try:
        for file in sorted(scratch.iterdir(), key=lambda file: file.name == "CURRENT"):
            if not file.name.startswith(_SKIPPED):
                shutil.copyfile(file, target / file.name)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def current_manifest(source: Path) -> tuple[str, int]:
    """Return the name and size of the current manifest. The size is -1 if the file is missing."""
    current = (source / "CURRENT").read_text(errors="replace").rstrip("\n")
    try:
        return current, (source / current).stat().st_size
    except (OSError, ValueError):  # ValueError: the name contains a zero byte
        return current, -1


def _fill(scratch: Path, source: Path) -> None:
    """Link or copy the files of a database. A file that is deleted meanwhile is not needed."""
    logs: list[Path] = []
    for file in source.resolve().iterdir():
        if file.suffix in _LINKED:
            (scratch / file.name).symlink_to(file)
        elif file.suffix == _LOG:
            logs.append(file)
        elif file.suffix != KEPT and not file.name.startswith(_SKIPPED) and file.is_file():
            _copy(file, scratch)
    for file in sorted(logs, reverse=True, key=lambda log: (len(log.name), log.name)):
        _copy(file, scratch)


def _copy(file: Path, scratch: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.copyfile(file, scratch / file.name)
