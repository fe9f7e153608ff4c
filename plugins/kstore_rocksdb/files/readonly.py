"""Read-only databases. RocksDB opens a scratch directory with links and copies of the files.

The binding writes into any directory that it opens, read-only or not, and RocksDB adds a log. So a
read-only database is opened in a temporary directory. Table files, which never change, are linked;
the other files, which are small, are copied. This works on a read-only file system and beside a
live writer.

The copy is consistent. A writer records each change of its set of files in the manifest first, so
the copied files fit together if the manifest did not change during the copy. Write-ahead logs only
grow, one after the other. The newest log is copied first, so the copied rows are a prefix of the
written rows.
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
"""The suffix of a write-ahead log that is not replayed; see :mod:`kstore_rocksdb.files.wal`."""

_LINKED = (".sst", ".blob")
_LOG = ".log"
_SKIPPED = ("LOCK", "LOG", "OPTIONS-", "rocksdict-config.json", HELD)
_ATTEMPTS = 50
_PATIENCE_S = 30.0
_PAUSE_S = 0.01

Opened = TypeVar("Opened")


def with_scratch(source: Path, use: Callable[[Scratch], Opened]) -> Opened:
    """Make a scratch directory for ``source``, and return ``use(scratch)``.

    The scratch directory remains if ``use`` succeeds.

    Raises
    ------
    FileNotFoundError
        There is no database in ``source``.
    EngineError
        A writer changes the database faster than it can be copied.
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
        "reading; try again, or read a checkpoint of it"
    )


def copy_scratch(scratch: Path, target: Path) -> None:
    """Copy a scratch directory without links to its files. ``CURRENT`` is copied last."""
    target.mkdir()
    try:
        for file in sorted(scratch.iterdir(), key=lambda file: file.name == "CURRENT"):
            if not file.name.startswith(_SKIPPED):
                shutil.copyfile(file, target / file.name)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def current_manifest(source: Path) -> tuple[str, int]:
    """Return the name and the length of the current manifest. The length is -1 if it is missing."""
    current = (source / "CURRENT").read_text(errors="replace").rstrip("\n")
    try:
        return current, (source / current).stat().st_size
    except (OSError, ValueError):  # ValueError: the name contains a zero byte
        return current, -1


def _fill(scratch: Path, source: Path) -> None:
    """Link and copy the files, the newest log first. A file that vanishes was not needed."""
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
