"""The contents of a store below its shape: its record and its encoded rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
from kstore_core.tables import Bounds
from kstore_core.tables.databases import Storage, open_storage
from kstore_core.tables.options import OpenOptions
from kstore_core.tables.staging import Staging

__all__ = ["LOAD_BYTES", "Contents", "opened"]

LOAD_BYTES = 32 * 1024 * 1024
"""The most bytes of one load; an engine may buffer a whole load in memory."""

_INDEX_ROWS = Bounds(b"\1", b"\2")


@dataclass(frozen=True, slots=True)
class Contents:
    """An open store.

    Attributes
    ----------
    record : StoreRecord
        The stored record.
    """

    record: StoreRecord
    _table: Any
    _storage: Storage
    _staging: Staging
    _spec: StoreSpec

    def rows(self) -> Iterator[Chunk]:
        """Chunks of all rows, in the table's order."""
        chunks: Iterator[Chunk] = self._table.scan(Bounds())
        return chunks

    def latest(self, prefix: bytes) -> Iterator[Chunk]:
        """Chunks of the rows whose keys begin with the prefix, which must be the last prefix."""
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
        """Return True if the first row of a window store has a sequence number."""
        keys, _ = next(self._table.scan(Bounds()), ([], []))
        split = rows_of("window", time_ordered=self._spec.time_ordered).split
        return any(split(key)[2] > 0 for key in keys[:1])

    def load(self, chunks: Iterator[Chunk]) -> None:
        """Load ascending rows, at most LOAD_BYTES at a time."""
        for chunk in chunks:
            self._table.load(_some(chunk, chunks))
            if self._staging.staged_bytes:  # a plug-in's layer may stage rows instead
                self._storage.write(StoreRecord(), Entries())

    def write(self, entries: Entries) -> None:
        """Write entries of the store's record."""
        self._storage.write(self.record, entries)


def _some(first: Chunk, rest: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yield the first chunk, and further chunks up to LOAD_BYTES."""
    size = 0
    for keys, values in chain([first], rest):
        yield keys, values
        size += sum(map(len, keys)) + sum(map(len, values))
        if size >= LOAD_BYTES:
            return


@contextmanager
def opened(
    engine: Engine, root: Path, spec: StoreSpec, *, writable: bool = False
) -> Iterator[Contents]:
    """The contents of a store in the state directory ``root``.

    Raises what :func:`kstore_core.tables.databases.open_storage` and its ``open`` raise.
    """
    able = engine.capabilities
    staging = Staging(-1, max_key_bytes=able.max_key_bytes, empty_keys=able.empty_keys)
    storage = open_storage(
        engine,
        root,
        spec,
        staging,
        OpenOptions("power", read_only=not writable, migrate_on_read=False),
    )
    try:
        record = storage.read_record()
        yield Contents(record, wrap_table(storage.open(), spec), storage, staging, spec)
    except BaseException:
        with suppress(EngineError):  # the first error is raised, such as a full disk
            storage.close()
        raise
    storage.close()
