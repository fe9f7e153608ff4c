"""The databases of one store.

The databases contain the rows and the metadata of the store. The metadata are the offsets, the
position, the stream time and the spec. This module opens the databases and writes commits to them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

from kstore_core.engine import Database, Engine, Rows
from kstore_core.errors import (
    EngineError,
    SpecError,
    StateError,
    StorageFullError,
    StoreClosedError,
)
from kstore_core.keys import rows_of
from kstore_core.offsets.entries import CLOSED, OPEN, STATUS, Entries, StoreRecord, read_record
from kstore_core.spec import StoreSpec
from kstore_core.tables import OFFSETS, StoredTable, Table
from kstore_core.tables.options import OpenOptions
from kstore_core.tables.segments import PrefixedSegments, SegmentedTable
from kstore_core.tables.segments.child import full_without_log
from kstore_core.tables.segments.children import ChildSegments
from kstore_core.tables.segments.databases import ChildStorage
from kstore_core.tables.segments.fitting import Fitting, end_keys
from kstore_core.tables.segments.prefixes import ID_BYTES, split_id
from kstore_core.tables.staging import StagedNamespace, Staging, take
from kstore_core.tables.upgrade.decision import open_table

__all__ = ["Storage", "open_storage"]

_IN_SEGMENTS = ("window", "session")
"""The shapes whose rows are divided into segments of time."""


class Storage(Protocol):
    """The storage of a store's rows and metadata."""

    def read_record(self) -> StoreRecord:
        """Return the stored metadata of the store."""

    def open(self) -> Table:
        """Return the table of the rows.

        The caller must first compare the stored spec with the spec that the user opens. Call this
        method only once.
        """

    def write(self, record: StoreRecord, entries: Entries, *, is_spill: bool = False) -> None:
        """Write the staged rows and some entries of the metadata.

        Parameters
        ----------
        record : StoreRecord
            The metadata that the last commit wrote.
        entries : Entries
            The entries to write.
        is_spill : bool
            True for a spill, which may write the rows before the entries.
        """

    @property
    def database(self) -> Database | None:
        """The database of the store; None if each segment has a separate database."""

    def checkpoint(self, place: Callable[[Path], Path]) -> None:
        """Copy the committed rows of each database. ``place`` returns the path of the copy."""

    @property
    def expired(self) -> Sequence[Any]:
        """The expired segments. A commit reads them before it writes, and drops them afterwards."""

    def drop(self, expired: Sequence[Any]) -> None:
        """Drop expired segments. A commit calls this after its rows are written."""

    def discard(self) -> None:
        """Discard the staged rows."""

    def close(self) -> None:
        """Close the files and discard the staged rows. A second close does nothing."""

    def abandon(self) -> None:
        """Close the storage after a failed open. If the open created the store, remove it."""


def open_storage(
    engine: Engine, root: Path, spec: StoreSpec, staging: Staging, options: OpenOptions
) -> Storage:
    """Open the storage of a store in the state directory ``root``, and return the storage.

    If the directory has no such store, the storage is created.

    Raises
    ------
    StateError
        The directory has no such store, and ``options.read_only`` is True.
    SpecError
        The directory has a store with this name and with segments, but the shape of ``spec`` has no
        segments. Or the stored store has no segments, but the shape of ``spec`` has segments.
    InconsistentStateError
        The names of the segments in the directory do not fit the spec.
    """
    read_only = options.read_only
    if not engine.capabilities.children:
        return OneDatabase(engine, root, spec, staging, options)
    in_segments = spec.shape in _IN_SEGMENTS
    there = engine.stores(root) if in_segments else engine.parents(root)
    if spec.name in there and not (in_segments or read_only):
        # A store that was opened but never committed contains nothing, so its shape may change.
        there = [] if engine.drop_parent(root, spec.name) else there
    if spec.name in there:
        kind = "without segments" if in_segments else "with segments (a window or session store)"
        raise SpecError(
            f"{root} has a store {spec.name!r} {kind}, but the store was opened as a {spec.shape} "
            "store. Open the store with the spec that it was written with, or use another name for "
            "a new store"
        )
    if not in_segments:
        return OneDatabase(engine, root, spec, staging, options)
    segments = ChildSegments(engine, root, spec, staging, options)
    if read_only and not segments.live and spec.name not in engine.parents(root):
        segments.close()
        raise _no_store(engine, root, spec.name)
    is_new = not read_only and engine.make_parent(root, spec.name, durability=options.durability)
    undo = partial(engine.drop_parent, root, spec.name) if is_new else None
    return ChildStorage(spec, segments, _segment_time(spec), undo)


def _no_store(engine: Engine, root: Path, name: str) -> StateError:
    there = sorted({*engine.stores(root), *engine.parents(root)})
    return StateError(
        f"{root} has no store {name!r}; it has: {', '.join(there) or 'none'}. To create the store, "
        "open the state directory without read_only=True"
    )


def _segment_time(spec: StoreSpec) -> Callable[[bytes], int]:
    return rows_of(spec.shape, time_ordered=spec.time_ordered).segment_time


class OneDatabase:
    """The storage of a store in one database. A commit writes rows and metadata in one batch."""

    def __init__(
        self, engine: Engine, root: Path, spec: StoreSpec, staging: Staging, options: OpenOptions
    ) -> None:
        self._spec = spec
        self._staging = staging
        self._read_only = options.read_only
        self._migrate_on_read = options.migrate_on_read
        self._pid = os.getpid()
        self._marked = False
        self._was_full = False
        # Without this lock, a commit could return while a thread still writes rows of the commit.
        self._writing = RLock()
        self._loses_tails = options.loses_tails(engine)
        self._stored: StoredTable | None = None
        self._open_database = partial(
            engine.open,
            root,
            spec.name,
            durability=options.durability,
            read_only=options.read_only,
        )
        try:
            self.database = self._open_database()
        except FileNotFoundError as error:
            raise _no_store(engine, root, spec.name) from error

    def read_record(self) -> StoreRecord:
        """Return the metadata that the offsets namespace contains."""
        if self._read_only and OFFSETS not in self.database.namespaces():
            return StoreRecord()
        return read_record(
            self.database.namespace(OFFSETS),
            f"the store {self._spec.name!r} in {self.database.path}",
        )

    def open(self) -> Table:
        """Return the table of the rows, and set the status of the database to open."""
        in_segments = self._spec.shape in _IN_SEGMENTS
        if in_segments:
            fitting = Fitting(self._spec, self.database.path)
            for key in end_keys(self.database, ID_BYTES):
                number, within = split_id(key)
                fitting.check([within], number)
        self._stored = open_table(
            self.database,
            self._staging,
            self._spec.format,
            writable=not self._read_only,
            migrate_on_read=self._migrate_on_read,
            shape=self._spec.family,
            segment_bytes=ID_BYTES if in_segments else 0,
        )
        if not (self._read_only or self._staging.transactional):
            self.database.write({OFFSETS: Rows([STATUS], [OPEN])})
            self._marked = True
        if not in_segments:
            return self._stored
        assert self._spec.segment_interval_ms is not None
        return SegmentedTable(
            PrefixedSegments(self._stored, writable=not self._read_only),
            _segment_time(self._spec),
            self._spec.segment_interval_ms,
        )

    def write(self, record: StoreRecord, entries: Entries, *, is_spill: bool = False) -> None:
        """Write the staged rows and the given entries of the metadata.

        The rows and the entries are written in one batch, except in a spill of many rows.
        """
        assert self._stored is not None
        for namespace in self._stored.namespaces:
            if namespace.deferred is not None:
                self._settle(namespace)
        with self._writing:
            self._write(record, entries, is_spill=is_spill)

    def _settle(self, namespace: StagedNamespace) -> None:
        """Write the deferred rows of a namespace.

        The caller must not hold ``_writing``, because this call may wait for another thread that
        writes the rows.
        """
        assert self._stored is not None
        deferred = namespace.deferred
        was_full = self._was_full or (deferred is not None and deferred.was_full)
        if was_full and not self._loses_tails:
            with self._writing:
                self._open_again(self._stored)
        with self._noting_full():
            namespace.settle()

    @contextlib.contextmanager
    def _noting_full(self) -> Iterator[None]:
        """Note that the disk was full, so that the next commit opens the database again."""
        try:
            yield
        except StorageFullError as error:
            self._was_full = True
            if self._loses_tails:
                raise full_without_log(self.database) from error
            raise

    def _write(self, record: StoreRecord, entries: Entries, *, is_spill: bool) -> None:
        assert self._stored is not None
        namespaces = self._stored.namespaces
        staged = take(namespaces)
        batch = {space.name: rows for space, rows in zip(namespaces, staged, strict=True) if rows}
        if batch or entries:
            if self._was_full and not self._loses_tails:
                self._open_again(self._stored)
            with self._noting_full():
                if is_spill and len(batch) == 1:
                    ((name, rows),) = batch.items()
                    if rows.is_large and self._write_large(name, rows, record, entries):
                        batch = {}
                if entries:
                    batch[OFFSETS] = entries.rows(record)
                if batch:
                    self.database.write(batch)
            for namespace, rows in zip(namespaces, staged, strict=True):
                namespace.clear(rows)

    def _write_large(self, name: str, rows: Rows, record: StoreRecord, entries: Entries) -> bool:
        """Write the rows of a large spill before its entries, if this is faster on the engine."""
        if entries.spec is not None:  # rows cannot be read without their spec
            self.database.write({OFFSETS: Entries(spec=entries.spec).rows(record)})
            self.database.sync()
        return self.database.write_large(name, rows)

    def checkpoint(self, place: Callable[[Path], Path]) -> None:
        """Copy the database. ``place`` takes the database's path and returns the copy's path."""
        self.database.checkpoint(place(self.database.path))

    def _open_again(self, table: StoredTable) -> None:
        """Open the database again, because it may be unable to write after the disk was full."""
        with contextlib.suppress(EngineError):
            self.database.close()
        self.database = self._open_database()
        for namespace in table.namespaces:
            namespace.rebase(self.database)
        self._was_full = False

    @property
    def expired(self) -> Sequence[Any]:
        """An empty sequence, because the batch of a commit deletes expired rows."""
        return ()

    def drop(self, expired: Sequence[Any]) -> None:
        """Do nothing, because the batch of a commit deletes expired rows."""

    def discard(self) -> None:
        """Discard the staged rows."""
        for namespace in () if self._stored is None else self._stored.namespaces:
            namespace.clear()

    def close(self) -> None:
        """Write the status "closed cleanly" to the database, and close it."""
        try:
            for namespace in () if self._stored is None else self._stored.namespaces:
                namespace.close()
            if self._marked and self._pid == os.getpid():
                self._marked = False
                # At the interpreter's exit the engine may have been closed already.
                with contextlib.suppress(StoreClosedError):
                    self.database.write({OFFSETS: Rows([STATUS], [CLOSED])})
        finally:
            self.database.close()

    def abandon(self) -> None:
        """Close the database. A new database remains in the directory as an empty store."""
        self.close()
