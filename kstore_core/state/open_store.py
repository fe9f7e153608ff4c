"""The class of an open store, which connects the storage of a store with its layers."""

from __future__ import annotations

import os
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kstore_core.changelog import Changelog
from kstore_core.changelog.files.directory import partition_of
from kstore_core.changelog.rows import from_log
from kstore_core.changelog.whole import without_marks
from kstore_core.codec import latest_records
from kstore_core.engine import Database, Engine
from kstore_core.errors import StateError
from kstore_core.layers import CacheBudget, StoreMeasures
from kstore_core.layers.current_record import CurrentRecord
from kstore_core.layers.logged import Journal
from kstore_core.offsets.entries import Partition, StoreRecord
from kstore_core.offsets.position import copy_position, merge_positions
from kstore_core.restore.replay import RestoreListener, restore_log
from kstore_core.restore.rows import Restored
from kstore_core.serdes import bound_spec
from kstore_core.spec import StoreSpec
from kstore_core.state.commits import StoreCommits
from kstore_core.state.store_layers import StoreLayers
from kstore_core.stream_clock import START, StreamClock
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_core.tables.databases import open_storage
from kstore_core.tables.options import OpenOptions
from kstore_core.tables.staging import Staging
from kstore_core.tables.versioned import VersionedTable
from kstore_core.typed.store import StoreContext

__all__ = ["OpenStore"]

_SENT_BYTES = 16 * 1024 * 1024
"""The approximate size in bytes of a batch of values that are appended to the changelog again."""


class OpenStore:
    """An open store of a state directory.

    Parameters
    ----------
    log : Changelog, optional
        The changelog to which all writes are sent. The constructor first restores the records of
        the changelog that the store lacks.
    on_restore : callable, optional
        A function that is called with the progress of the restore.

    Attributes
    ----------
    spec : StoreSpec
    migrate_on_read : bool
    context : StoreContext
    commits : StoreCommits
    store : KeyValueStore, VersionedStore, WindowStore or SessionStore
        The original store object. Users get a copy of it, which :meth:`face` returns.
    """

    def __init__(
        self,
        spec: StoreSpec,
        root: Path,
        engine: Engine,
        staging: Staging,
        current_record: CurrentRecord,
        shared_cache: CacheBudget,
        tags: Mapping[str, str],
        options: OpenOptions,
        *,
        log: Changelog | None = None,
        on_restore: RestoreListener | None = None,
    ) -> None:
        self.spec = spec
        self.migrate_on_read = options.migrate_on_read
        place = root if engine.capabilities.persistent else Path(tempfile.gettempdir())
        unique = "" if engine.capabilities.persistent else f"-{os.getpid()}-{id(self)}"
        scratch = place / f".kstore-restore-{spec.name}{unique}"
        self.store: Any = None
        self._face: weakref.ref[Any] | None = None
        self._staging = staging
        self._storage = open_storage(engine, root, spec, staging, options)
        try:
            record = self._storage.read_record()
            if record.spec is not None:
                record.spec.check(spec, f"the store {spec.name!r} in {root}")
            position: dict[str, dict[int, int]] = {}
            merge_positions(position, record.position or {})
            self.context = StoreContext(
                current_record,
                record,
                position,
                scratch=scratch,
                partition=partition_of(root),
                read_only=options.read_only,
            )
            self._clock = self._make_clock(record)
            self.commits = StoreCommits(spec, self._storage, self.context, self._clock)
            stored = self._storage.open()
            topic = f"{spec.name}-changelog" if log is None else log.topic
            layers = StoreLayers(
                bound_spec(spec, topic),
                self.context,
                stored,
                self._clock,
                repair_index=options.migrate_on_read,
            )
            self._table = layers.table
            begun = time.perf_counter_ns()
            restored, left_out = Restored(), None
            if log is not None:
                restored, left_out = self._restore(log, on_restore)
                journal = Journal(log, spec.format, staging, current_record, layers.schema)
                self.commits.journal = journal
                if left_out is not None:
                    self._void(journal, left_out)
                elif restored.offsets is not None:
                    journal.last = self.commits.mark(None, copy_position(position), None)
            self.store = layers.store(
                self.commits.journal, None if options.read_only else shared_cache
            )
            if spec.metrics is not None:
                self.context.measures = StoreMeasures(
                    self.store, engine.name, self.context.cache, current_record, tags
                )
                if restored.records:
                    spent = time.perf_counter_ns() - begun
                    self.context.measures.restored_records(restored.records, spent)
        except BaseException:
            self._storage.abandon()
            raise
        staging.stores.append(self.commits)

    def _make_clock(self, record: StoreRecord) -> StreamClock | None:
        retention = self.spec.retention_ms
        if retention is None:
            retention = self.spec.history_retention_ms
        if retention is None:
            return None
        return StreamClock(retention, START if record.stream_time is None else record.stream_time)

    def restore(
        self, log: Changelog, listener: RestoreListener | None, *, is_new: bool
    ) -> Restored:
        """Restore the records of a changelog that the store lacks, and commit them.

        Parameters
        ----------
        is_new : bool
            True if the store was opened for this restore.

        Raises
        ------
        StateError
            The store already has a changelog, or it retains duplicates and is not new.
        """
        journal = self.commits.journal
        if journal is not None:
            raise StateError(
                f"the store {self.spec.name!r} writes to the changelog {journal.log.topic}, so the "
                "open restored it from this changelog. Such a store cannot be restored from "
                "another changelog"
            )
        if self.spec.retain_duplicates and not is_new:
            raise StateError(
                f"the store {self.spec.name!r} retains duplicates and is already open, so its "
                "writes may have used the sequence numbers of rows in the changelog. Restore the "
                "store before you open it"
            )
        begun = time.perf_counter_ns()
        where = (log.topic, log.partition)
        stored = self.context.record.known_offsets.get(where)
        restored, _ = self._restore(log, listener)
        if stored is not None and self.context.record.offsets[where] == stored:
            restored = replace(restored, offsets=self.commits.inputs() or None)  # no new record
        if self.context.measures is not None:
            spent = time.perf_counter_ns() - begun
            self.context.measures.restored_records(restored.records, spent)
        if self.context.cache is not None:
            self.context.cache.discard()  # the restore may have changed cached rows
        if isinstance(self.store.table, VersionedTable):
            self.store.table.find_segments()
        return restored

    def _restore(
        self, log: Changelog, listener: RestoreListener | None
    ) -> tuple[Restored, int | None]:
        where = (log.topic, log.partition)
        with uninterrupted():
            self.commits.restored_from.add(where)
            self._staging.admitted += 1
            try:
                with interruptible():  # a restore may take long
                    return restore_log(
                        self.spec,
                        self._table,
                        self._clock,
                        self.context.record.offsets.get(where),
                        log,
                        partial(self.commits.commit_restored, where),
                        scratch=self.context.scratch,
                        listener=listener,
                    )
            except BaseException:
                self._storage.discard()  # the next restore reads this batch again
                raise
            finally:
                self._staging.admitted -= 1

    def face(self, state: object) -> Any:
        """Return the store object for the user.

        All calls return the same object as long as the user has a reference to it.
        """
        face = None if self._face is None else self._face()
        if face is None:
            face = self.store._for_user(state)
            if self.context.measures is not None:
                face = self.context.measures.face(face)
            self._face = weakref.ref(face)
        return face

    def _void(self, journal: Journal, offset: int) -> None:
        """Mark the changelog's records from ``offset`` on as void, because they were not committed.

        The method also appends the last committed value of each key of these records. Without these
        values, the void records would survive compaction, and a restore that ignores markers would
        use the void records.
        """
        table = self._table
        versions: VersionedTable | None = None
        if self.spec.shape == "versioned":
            assert self._clock is not None
            assert self.spec.segment_interval_ms is not None
            versions = VersionedTable(table, self.spec.segment_interval_ms, self._clock)
        journal.leave_out(offset)
        for columns in journal.log.read(offset):
            records = latest_records(without_marks(columns))
            keys, _ = from_log(self.spec.format, records, schema=journal.schema)
            for key, timestamp in zip(keys, records.timestamps, strict=True):
                if versions is None:
                    journal.note_version(key, table.get(key), timestamp, None)
                elif (version := versions.get(key)) is not None:
                    journal.note_version(key, version[0], version[1], None)
            if journal.noted_bytes > _SENT_BYTES:
                journal.send()
        self.commits.commit(None)

    @property
    def database(self) -> Database | None:
        """The database of the store; None if each segment has its own database."""
        return self._storage.database

    def flush(self) -> bool:
        """Flush the cache. Return True if the cache contained rows to flush."""
        return self.context.cache is not None and self.context.cache.flush()

    def commit(
        self,
        offsets: Mapping[Partition, int | None] | None,
        notes: Mapping[str, bytes | None] | None = None,
    ) -> None:
        """Write the staged rows and the metadata."""
        begun = time.perf_counter_ns()
        self.commits.commit(offsets, notes)
        if self.context.measures is not None:
            self.context.measures.committed(time.perf_counter_ns() - begun)

    @property
    def dropped_late(self) -> int:
        """The number of late records that were dropped since the store was opened."""
        return 0 if self._clock is None else self._clock.dropped_late

    def checkpoint(self, place: Callable[[Path], Path]) -> None:
        """Copy each database of the store from its path to the path ``place(path)``."""
        self._storage.checkpoint(place)

    def close(self) -> None:
        """Close the store and discard staged rows. A second close does nothing."""
        self.context.open = False
        if self.commits in self._staging.stores:
            self._staging.stores.remove(self.commits)
        if self.context.cache is not None:
            self.context.cache.discard()
        if self.commits.journal is not None:
            self.commits.journal.close()
        self._storage.close()
