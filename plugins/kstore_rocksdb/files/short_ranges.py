"""Reads of short ranges in the table files of a column family."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Protocol

from rocksdict import Rdict

from kstore_rocksdb.files.runs import is_compacting, open_runs
from kstore_rocksdb.files.table_reader import TableFile, TableScan, UnreadableTableError

__all__ = ["MOST_ROWS", "Owner", "ShortRanges"]

MOST_ROWS = 128
"""The maximum number of rows that one read returns."""

_READS_BETWEEN_ATTEMPTS = 256
"""The number of short reads between two attempts to open the table files.

Opening the files takes about as much time as this number of reads saves.
"""


class Owner(Protocol):
    """The namespace whose ranges are read.

    Attributes
    ----------
    changes : int
        The number of changes of the rows, which is odd during a write.
    """

    changes: int

    def has_unflushed_rows(self, rows_read: int) -> bool:
        """Return True if some rows are not in table files yet. The call may begin a flush."""


class ShortRanges:
    """The table files of a column family, from which short ranges are read.

    A read in the mapped files takes a fraction of the time of a read with RocksDB's iterator. The
    files are opened after many reads without a write, if they contain all rows, and if no
    compaction is about to replace them. The next write closes the files.

    Parameters
    ----------
    family : Rdict
        The handle of the column family.
    directory : Path
        The directory of its table files.

    Attributes
    ----------
    opened : tuple or None
        The number of changes at which the files were opened, and the files. None while the files
        are closed.
    """

    __slots__ = ("_directory", "_family", "_reads", "_rows", "opened")

    def __init__(self, family: Rdict, directory: Path) -> None:
        self._family = family
        self._directory = directory
        self.close()

    def close(self) -> None:
        """Close the files, because rows were written or the column family has ended."""
        self.opened: tuple[int, list[list[TableFile]]] | None = None
        self._reads = 0
        self._rows = 0

    def read(
        self, lo: bytes, hi: bytes, changes: int, keys: list[bytes], values: list[bytes]
    ) -> bool | None:
        """Append up to `MOST_ROWS` rows with ``lo <= key < hi`` to ``keys`` and ``values``.

        Parameters
        ----------
        changes : int
            The number of changes of the column family when the read began. The files are used only
            if they were opened at the same number.

        Returns
        -------
        bool or None
            True if more rows may remain, False if not. None if the files cannot be used; nothing
            was appended then.
        """
        opened = self.opened
        if opened is None or opened[0] != changes:
            return None
        try:
            return TableScan(opened[1], lo, hi).take(MOST_ROWS, keys, values)
        except UnreadableTableError:  # RocksDB's iterator raises the error if a file is damaged
            self.opened = None
            keys.clear()
            values.clear()
            return None

    def count(self, rows: int, owner: Owner) -> None:
        """Count a short read of ``rows`` rows by an iterator. After many reads, open the files."""
        self._reads += 1
        self._rows += rows
        if self._reads % _READS_BETWEEN_ATTEMPTS == 0:
            with suppress(Exception):  # another thread may close the database meanwhile
                self._open(owner)

    def _open(self, owner: Owner) -> None:
        """Open the files if they contain all rows and are likely to stay."""
        changes = owner.changes
        if changes % 2 or owner.has_unflushed_rows(self._rows) or is_compacting(self._family):
            return
        runs = open_runs(self._family, self._directory, is_random=True)
        if runs is not None and owner.changes == changes:
            # One assignment, because another thread may open the files at the same time.
            self.opened = changes, runs
