"""Bulk load rows. Many rows are written as table files, and few rows in batches."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from operator import lt
from pathlib import Path
from typing import Protocol

from rocksdict import Options, SstFileWriter

from kstore_core.engine import Rows
from kstore_rocksdb.errors import translating

__all__ = ["CompressedWriter", "MakeWriter", "clean_up", "load", "load_files"]

FILES_FROM_ROWS = 30_000
"""The least number of rows that are written as table files.

For fewer rows, batches are faster, because each table file costs a sync and a flush.
"""

_BATCH_ROWS = 10_000
_FILE_BYTES = 64 * 1024 * 1024
_PREFIX = ".kstore-load-"

Keys = Sequence[bytes]
Values = Sequence[bytes | None]


def load(
    chunks: Iterable[tuple[Keys, Sequence[bytes]]],
    make: MakeWriter,
    directory: Path,
    write: Callable[[Rows], None],
    ingest: Callable[[list[str]], None],
    guard: translating,
) -> int:
    """Load rows with strictly ascending keys, and return their number.

    The function checks all rows before it writes any row. So the database is unchanged if a key is
    not in order. A load of many rows is atomic, because it uses table files. A load of fewer than
    30,000 rows uses batches and is not atomic.

    Parameters
    ----------
    chunks : iterable of (sequence of bytes, sequence of bytes)
        The keys and the values of the rows.
    make : callable
        A function ``make(path)`` that returns a writer of a new table file.
    directory : Path
        The directory in which a temporary directory for the files is created. ``directory`` must be
        on the file system of the database, so that the files can be moved.
    write : callable
        A function ``write(rows)`` that writes a batch.
    ingest : callable
        A function ``ingest(paths)`` that adds table files to the database.
    guard : translating
        The context manager that translates native errors.

    Raises
    ------
    ValueError
        The keys are not strictly ascending, or a chunk has more or fewer values than keys.
    TypeError
        A value is None.
    """
    rest = iter(chunks)
    few: list[tuple[Keys, Sequence[bytes]]] = []
    count = 0
    for chunk_keys, chunk_values in rest:
        if len(chunk_keys) != len(chunk_values):
            raise ValueError(f"a chunk has {len(chunk_keys)} keys but {len(chunk_values)} values")
        few.append((chunk_keys[:], chunk_values[:]))  # The caller may use its lists again.
        count += len(chunk_keys)
        if count >= FILES_FROM_ROWS:
            return load_files(chain(few, rest), make, directory, ingest, guard)
    keys = [key for chunk_keys, _ in few for key in chunk_keys]
    values = [value for _, chunk_values in few for value in chunk_values]
    if None in values:
        raise _no_value()
    _check_order(keys)
    for start in range(0, len(keys), _BATCH_ROWS):
        stop = start + _BATCH_ROWS
        write(Rows(keys[start:stop], list(values[start:stop])))
    return len(keys)


def load_files(
    chunks: Iterable[tuple[Keys, Values]],
    make: MakeWriter,
    directory: Path,
    ingest: Callable[[list[str]], None],
    guard: translating,
    *,
    deletions: bool = False,
) -> int:
    """Write rows to table files, and add all files to the database atomically.

    The other parameters are those of :func:`load`.

    Parameters
    ----------
    deletions : bool
        If True, a value of None deletes its key. If False, a value of None raises TypeError.
    """
    with guard:
        aside = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=directory))
    files = TableFiles(aside, make, guard, deletions=deletions)
    try:
        for keys, values in chunks:
            files.add(keys, values)
        ingest(files.finish())
        return files.rows
    finally:
        files.close()
        shutil.rmtree(aside, ignore_errors=True)


def _check_order(keys: Keys) -> None:
    if not all(map(lt, keys, islice(keys, 1, None))):
        raise ValueError("the keys of a bulk load must be strictly ascending, but are not")


def _no_value() -> TypeError:
    return TypeError("the values of a bulk load must be bytes, not None")


def clean_up(directory: Path) -> None:
    """Remove the temporary directories that loads in killed processes have left."""
    for aside in directory.glob(_PREFIX + "*"):
        shutil.rmtree(aside, ignore_errors=True)


class TableFiles:
    """A writer that divides rows with strictly ascending keys among several table files."""

    def __init__(
        self, directory: Path, make: MakeWriter, guard: translating, *, deletions: bool
    ) -> None:
        self.rows = 0
        self._deletions = deletions
        self._last: bytes | None = None
        self._directory = directory
        self._make = make
        self._guard = guard
        self._paths: list[str] = []
        self._writer: Writer | None = None

    def add(self, keys: Keys, values: Values) -> None:
        """Append rows. When the current table file is large enough, begin a new file."""
        if len(keys) != len(values):
            raise ValueError(f"a chunk has {len(keys)} keys but {len(values)} values")
        if not keys:
            return
        if self._last is not None:
            _check_order((self._last, keys[0]))
        self._last = keys[-1]
        with self._guard:
            for start in range(0, len(keys), _BATCH_ROWS):
                stop = start + _BATCH_ROWS
                writer = self._writer or self._open()
                writer.add(keys[start:stop], values[start:stop], deletions=self._deletions)
                if writer.size >= _FILE_BYTES:
                    self._finish()
        self.rows += len(keys)

    def finish(self) -> list[str]:
        """Finish the last table file, and return the paths of all files."""
        with self._guard:
            self._finish()
        return self._paths

    def close(self) -> None:
        """Close the current table file if it is not finished."""
        if self._writer is not None:
            self._writer.close()

    def _open(self) -> Writer:
        self._paths.append(str(self._directory / f"{len(self._paths):06d}.sst"))
        self._writer = self._make(self._paths[-1])
        return self._writer

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.finish()
            self._writer = None


class Writer(Protocol):
    """A writer of one table file."""

    @property
    def size(self) -> int:
        """The number of bytes written so far."""

    def add(self, keys: Keys, values: Values, *, deletions: bool) -> None:
        """Append rows with ascending keys. If ``deletions``, a value of None deletes its key."""

    def finish(self) -> None:
        """Finish and close the file, which must contain at least one row."""

    def close(self) -> None:
        """Close a file that is not finished."""


MakeWriter = Callable[[str], Writer]


class CompressedWriter:
    """A writer of a table file with compressed blocks, which uses the library ``rocksdict``."""

    def __init__(self, path: str, options: Options) -> None:
        self._native = SstFileWriter(options)
        self._native.open(path)

    @property
    def size(self) -> int:
        """The number of bytes written so far."""
        size: int = self._native.file_size()
        return size

    def add(self, keys: Keys, values: Values, *, deletions: bool) -> None:
        """Append rows with ascending keys. If ``deletions``, a value of None deletes its key."""
        if not deletions and None in values:
            raise _no_value()
        _check_order(keys)
        native = self._native
        for key, value in zip(keys, values, strict=True):
            if value is None:
                del native[key]
            else:
                native[key] = value

    def finish(self) -> None:
        """Finish and close the file."""
        self._native.finish()

    def close(self) -> None:
        """Do nothing, because the library closes the file when Python frees the writer."""
