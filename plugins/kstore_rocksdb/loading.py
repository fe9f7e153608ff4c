"""Bulk load: table files that are ingested at once, or batches for few rows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import lt
from pathlib import Path

from rocksdict import Options, SstFileWriter

from kstore_core.engine import Rows
from kstore_rocksdb.errors import translating

__all__ = ["clean_up", "load"]

FILES_FROM_ROWS = 30_000
"""The least number of rows for table files: each costs a sync and a flush."""

_BATCH_ROWS = 10_000
_FILE_BYTES = 64 * 1024 * 1024
_PREFIX = ".kstore-load-"

Chunks = Iterable[tuple[Sequence[bytes], Sequence[bytes]]]


def load(
    chunks: Chunks,
    options: Options,
    directory: Path,
    write: Callable[[Rows], None],
    ingest: Callable[[list[str]], None],
    guard: translating,
) -> int:
    """Load strictly ascending rows; returns their number.

    Nothing is written before the last chunk was checked, so a key out of order leaves the database
    unchanged. A load by files is atomic; a load by batches is not.

    Parameters
    ----------
    options : Options
        The options of the column family, for the files.
    directory : Path
        The parent of a temporary directory for the files. It must be on the database's file system,
        so that the files can be moved.
    write, ingest
        Write one batch; ingest files.
    guard : translating
        Translates native errors.

    Raises
    ------
    ValueError
        The keys are not strictly ascending, or keys and values differ in number.
    """
    ascending = _ascending(chunks)
    keys: list[bytes] = []
    values: list[bytes] = []
    for more_keys, more_values in ascending:
        keys += more_keys
        values += more_values
        if len(keys) >= FILES_FROM_ROWS:
            break
    else:
        if None in values:
            raise TypeError("the values of a bulk load are bytes, not None")
        for start in range(0, len(keys), _BATCH_ROWS):
            stop = start + _BATCH_ROWS
            write(Rows(keys[start:stop], list(values[start:stop])))
        return len(keys)
    with guard:
        aside = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=directory))
    try:
        files = TableFiles(aside, options, guard)
        files.add(keys, values)
        del keys, values
        for more_keys, more_values in ascending:
            files.add(more_keys, more_values)
        ingest(files.finish())
        return files.rows
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def clean_up(directory: Path) -> None:
    """Remove the temporary directories of killed loads."""
    for aside in directory.glob(_PREFIX + "*"):
        shutil.rmtree(aside, ignore_errors=True)


class TableFiles:
    """A writer of ascending rows to a sequence of table files."""

    def __init__(self, directory: Path, options: Options, guard: translating) -> None:
        self.rows = 0
        self._directory = directory
        self._options = options
        self._guard = guard
        self._paths: list[str] = []
        self._writer: SstFileWriter | None = None

    def add(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Append rows; a file that is large enough is closed after them."""
        with self._guard:
            for start in range(0, len(keys), _BATCH_ROWS):
                stop = start + _BATCH_ROWS
                writer = self._writer or self._open()
                for key, value in zip(keys[start:stop], values[start:stop], strict=True):
                    writer[key] = value
                if writer.file_size() >= _FILE_BYTES:
                    self._close()
        self.rows += len(keys)

    def finish(self) -> list[str]:
        """Close the last file; returns the paths of all files."""
        with self._guard:
            self._close()
        return self._paths

    def _open(self) -> SstFileWriter:
        self._paths.append(str(self._directory / f"{len(self._paths):06d}.sst"))
        self._writer = SstFileWriter(self._options)
        self._writer.open(self._paths[-1])
        return self._writer

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.finish()
            self._writer = None


def _ascending(chunks: Chunks) -> Iterable[tuple[Sequence[bytes], Sequence[bytes]]]:
    """Yield the chunks that are not empty; each is checked before it is yielded."""
    last: bytes | None = None
    for keys, values in chunks:
        if len(keys) != len(values):
            raise ValueError(f"a chunk of {len(keys)} keys has {len(values)} values")
        if not keys:
            continue
        if (last is not None and keys[0] <= last) or not all(map(lt, keys, islice(keys, 1, None))):
            raise ValueError("the keys of a bulk load must be strictly ascending")
        last = keys[-1]
        yield keys, values
