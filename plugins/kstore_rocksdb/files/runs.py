"""Find and open the table files of a column family."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from rocksdict import Rdict

from kstore_rocksdb.files.table_reader import TableFile, UnreadableTableError

__all__ = ["has_rows_in_memory", "is_compacting", "open_runs"]

_ATTEMPTS = 3
_LEAST_READ = 1 / 8
"""The fraction of all rows that a scan must have read before the scan begins a flush.

For a short scan, a flush would take more time than it saves.
"""

_LEAST_UNFLUSHED = 1 / 64
"""The fraction of all rows that must be in memory before a scan begins a flush.

Frequent flushes of few rows would cause many compactions.
"""

_MOST_NEW_FILES = 8
"""If level 0 has this number of files or more, a scan does not begin a flush.

Each flush adds a file to level 0, and RocksDB slows writes down at 20 files.
"""

_UNFLUSHED = ("rocksdb.num-entries-active-mem-table", "rocksdb.num-entries-imm-mem-tables")
_COMPACTIONS = ("rocksdb.num-running-compactions", "rocksdb.compaction-pending")
_LEVEL = re.compile(r"^--- level (\d+) ", re.MULTILINE)
_FILE = re.compile(r"^ (\d+):\d+\[", re.MULTILINE)


def has_rows_in_memory(family: Rdict, rows_read: int, begin_flush: Callable[[], None]) -> bool:
    """Return True if some rows of a column family are not in table files yet.

    Call ``begin_flush`` if a flush is likely to save time for the calling scan, which has read
    ``rows_read`` rows so far.
    """
    unflushed, flushing = (family.property_int_value(name) or 0 for name in _UNFLUSHED)
    count = family.property_int_value("rocksdb.estimate-num-keys") or 0
    if (
        unflushed > count * _LEAST_UNFLUSHED
        and rows_read > count * _LEAST_READ
        and not flushing
        and int(family.property_value("rocksdb.num-files-at-level0") or 0) < _MOST_NEW_FILES
    ):
        begin_flush()
    return unflushed + flushing > 0


def is_compacting(family: Rdict) -> bool:
    """Return True if a compaction, which replaces table files, runs or will begin soon."""
    return any(family.property_int_value(name) for name in _COMPACTIONS)


def open_runs(
    family: Rdict, directory: Path, *, is_random: bool = False
) -> list[list[TableFile]] | None:
    """Open the table files of a column family, if they contain all its rows.

    The caller must make sure that nothing is written during this call. ``is_random`` is a parameter
    of :class:`TableFile`.

    Returns
    -------
    list of list of TableFile, or None
        Lists of files, in the order from newer to older rows. The keys of a list ascend from file
        to file. None if RocksDB has rows in memory, or if a file cannot be read.
    """
    if any(family.property_int_value(name) != 0 for name in _UNFLUSHED):
        return None
    for _ in range(_ATTEMPTS):
        listed = family.property_value("rocksdb.sstables") or ""
        try:
            return [
                [TableFile(path, is_random) for path in run] for run in _paths(listed, directory)
            ]
        except FileNotFoundError:  # a compaction has replaced the file
            continue
        except (OSError, UnreadableTableError):
            break
    return None


def _paths(listed: str, directory: Path) -> Iterator[list[str]]:
    """Yield lists of paths from RocksDB's list ``listed`` of levels and files.

    The keys of a list ascend from file to file.
    """
    _, *levels = _LEVEL.split(listed)
    for level, files in zip(levels[::2], levels[1::2], strict=True):
        paths = [str(directory / f"{int(number):06d}.sst") for number in _FILE.findall(files)]
        if level == "0":  # the files are listed from new to old, and their keys overlap
            yield from ([path] for path in paths)
        elif paths:
            yield paths
