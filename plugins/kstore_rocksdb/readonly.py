"""Reading without a trace: a scratch directory of links and copies that RocksDB opens instead.

The binding writes into any directory that it opens, read-only or not, and RocksDB adds a log. So a
read-only database is opened in a temporary directory: table files are linked, which never change,
the rest is copied, which is small. It works on a read-only file system and beside a live writer.

The copy is one moment of the database. Whatever a writer does to its set of files it notes in the
manifest first, so a manifest that did not change meanwhile vouches for the files. Write-ahead logs
only grow, one after the other: the newest is copied first, so what is copied is a prefix.
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

__all__ = ["KEPT", "copy_scratch", "moment", "with_scratch"]

KEPT = ".beyond-gap"
"""Follows the name of a write-ahead log that is not replayed; see :mod:`kstore_rocksdb.wal`."""

_LINKED = (".sst", ".blob")
_LOG = ".log"
_SKIPPED = ("LOCK", "LOG", "OPTIONS-", "rocksdict-config.json", HELD)
_ATTEMPTS = 50
_PATIENCE_S = 30.0
_PAUSE_S = 0.01

Opened = TypeVar("Opened")


def with_scratch(source: Path, use: Callable[[Scratch], Opened]) -> Opened:
    """What ``use`` makes of a scratch directory for ``source``; the directory stays if it succeeds.

    Raises
    ------
    FileNotFoundError
        There is no database in ``source``.
    EngineError
        A writer changes it faster than it can be copied.
    """
    begun = time.monotonic()
    attempt = 0
    while attempt < _ATTEMPTS or time.monotonic() - begun < _PATIENCE_S:
        with uninterrupted():
            before = moment(source)
            scratch = Scratch()
            done = False
            try:
                _fill(scratch.path, source)
                if moment(source) == before:
                    opened = use(scratch)
                    done = True
                    return opened
            except Exception:
                if moment(source) == before:
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
    """A self-contained copy of a scratch directory, complete once it has its ``CURRENT``."""
    target.mkdir()
    try:
        for file in sorted(scratch.iterdir(), key=lambda file: file.name == "CURRENT"):
            if not file.name.startswith(_SKIPPED):
                shutil.copyfile(file, target / file.name)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def moment(source: Path) -> tuple[str, int]:
    """Which manifest is current and how long it is; -1 where there is no such file."""
    current = (source / "CURRENT").read_text(errors="replace").rstrip("\n")
    try:
        return current, (source / current).stat().st_size
    except (OSError, ValueError):  # a zero byte is in no name
        return current, -1


def _fill(scratch: Path, source: Path) -> None:
    """Link and copy what there is, the newest log first; what vanishes was not needed any more."""
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
