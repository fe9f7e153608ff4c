"""The reads and writes of the encoded rows and the metadata of a store of any shape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from kstore_core.discovery.entry_points import wrap_table
from kstore_core.engine import Chunk, Engine
from kstore_core.errors import EngineError
from kstore_core.keys import rows_of
from kstore_core.offsets.entries import Entries, StoreRecord
from kstore_core.spec import StoreSpec
from kstore_core.system.interrupts import leave
from kstore_core.tables import Bounds
from kstore_core.tables.databases import Storage, open_storage
from kstore_core.tables.options import OpenOptions
from kstore_core.tables.staging import Staging

__all__ = ["LOAD_BYTES", "Contents", "opened"]

LOAD_BYTES = 32 * 1024 * 1024
"""The approximate number of bytes per load. The limit is needed if an engine buffers a load."""

_INDEX_ROWS = Bounds(b"\1", b"\2")


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of an open store.

    Attributes
    ----------
    record : StoreRecord
        The stored metadata of the store, such as its offsets and its spec.
    """

    record: StoreRecord
    _table: Any
    _storage: Storage
    _staging: Staging
    _spec: StoreSpec

    def rows(self) -> Iterator[Chunk]:
        """Return an iterator over chunks of all rows, in the table's order."""
        chunks: Iterator[Chunk] = self._table.scan(Bounds())
        return chunks

    def latest(self, prefix: bytes) -> Iterator[Chunk]:
        """Return an iterator over chunks of the rows whose keys begin with ``prefix``.

        The prefix must be the last prefix of the table, because the scan has no upper bound.
        """
        chunks: Iterator[Chunk] = self._table.scan(Bounds(prefix))
        return chunks

    def about(self) -> int:
        """Return the approximate number of rows."""
        count: int = self._table.approximate_count()
        return count

    def has_index(self) -> bool:
        """Return True if a time-ordered store has index rows."""
        return next(self._table.scan(_INDEX_ROWS), None) is not None

    def has_numbers(self) -> bool:
        """Return True if the first row of a window store has a sequence number above 0.

        Such a store retains duplicates.
        """
        keys, _ = next(self._table.scan(Bounds()), ([], []))
        split = rows_of("window", time_ordered=self._spec.time_ordered).split
        return any(split(key)[2] > 0 for key in keys[:1])

    def load(self, chunks: Iterator[Chunk]) -> None:
        """Write rows in ascending order of their keys, about LOAD_BYTES at a time."""
        for chunk in chunks:
            self._table.load(_some(chunk, chunks))
            if self._staging.staged_bytes:  # a plug-in's layer may stage rows and not write them
                self._storage.write(StoreRecord(), Entries())

    def write(self, entries: Entries) -> None:
        """Write entries of the store's metadata."""
        self._storage.write(self.record, entries)


def _some(first: Chunk, rest: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yield ``first`` and then chunks of ``rest``, until their total size is LOAD_BYTES or more."""
    size = 0
    for keys, values in chain([first], rest):
        yield keys, values
        size += sum(map(len, keys)) + sum(map(len, values))
        if size >= LOAD_BYTES:
            return


def opened(
    engine: Engine, root: Path, spec: StoreSpec, *, writable: bool = False
) -> AbstractContextManager[Contents]:
    """Open a store in the state directory ``root``, and close the store at the end of the block.

    The errors are those of :func:`kstore_core.tables.databases.open_storage` and of the ``open`` of
    the storage.
    """
    able = engine.capabilities
    staging = Staging(-1, max_key_bytes=able.max_key_bytes, empty_keys=able.empty_keys)
    options = OpenOptions("power", read_only=not writable, migrate_on_read=False)
    return _Opened(open_storage(engine, root, spec, staging, options), spec, staging)


class _Opened:
    """The context manager of :func:`opened`."""

    def __init__(self, storage: Storage, spec: StoreSpec, staging: Staging) -> None:
        self._storage = storage
        self._spec = spec
        self._staging = staging

    def __enter__(self) -> Contents:
        storage = self._storage
        try:
            record = storage.read_record()
            table = wrap_table(storage.open(), self._spec)
            return Contents(record, table, storage, self._staging, self._spec)
        except BaseException:
            self._leave(normally=False)
            raise

    __exit__ = leave

    def _leave(self, normally: bool) -> None:
        # An error of the close must not replace the first error.
        with nullcontext() if normally else suppress(EngineError):
            self._storage.close()
