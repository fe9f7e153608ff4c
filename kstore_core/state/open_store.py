"""One store that is open: its storage and its layers, put together, restored and committed."""

from __future__ import annotations

import os
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kstore_core.changelog import Changelog
from kstore_core.changelog.files.directory import is_topic_of, partition_of
from kstore_core.changelog.marks import Commit
from kstore_core.changelog.rows import from_log
from kstore_core.changelog.whole import without_marks
from kstore_core.clock import START, StreamClock
from kstore_core.codec import latest_records
from kstore_core.engine import Database, Durability, Engine
from kstore_core.errors import StateError
from kstore_core.layers import CacheBudget, StoreMeasures
from kstore_core.layers.current_record import CurrentRecord
from kstore_core.layers.logged import Journal
from kstore_core.offsets import UNKNOWN, Entries, Partition, StoreRecord
from kstore_core.offsets.position import copy_position, merge_positions
from kstore_core.restore.replay import RestoreListener, restore_log
from kstore_core.restore.rows import Restored
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.state.store_layers import StoreLayers
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_core.tables.databases import open_storage
from kstore_core.tables.staging import Staging
from kstore_core.tables.versioned import VersionedTable
from kstore_core.typed.store import StoreContext

__all__ = ["OpenStore"]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_TAKEN_BACK_BYTES = 16 * 1024 * 1024
"""Keys and values that are gathered to be logged again at once."""


class OpenStore:
    """A store that is open: its storage, what is committed, and the face that its user sees.

    Parameters
    ----------
    log : Changelog, optional
        Where its writes go. What it has that the store does not is restored now.
    on_restore : callable, optional
        Told how far that is.

    Attributes
    ----------
    spec : StoreSpec
    migrate_on_read : bool
    context : StoreContext
    store : KeyValueStore, VersionedStore, WindowStore or SessionStore
        Its user's is another face of it, see :meth:`face`.
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
        *,
        durability: Durability,
        read_only: bool,
        migrate_on_read: bool,
        log: Changelog | None = None,
        on_restore: RestoreListener | None = None,
    ) -> None:
        self.spec = spec
        self.migrate_on_read = migrate_on_read
        place = root if engine.capabilities.persistent else Path(tempfile.gettempdir())
        unique = "" if engine.capabilities.persistent else f"-{os.getpid()}-{id(self)}"
        self._scratch = place / f".kstore-restore-{spec.name}{unique}"
        self._journal: Journal | None = None
        self._restored_from: set[Partition] = set()
        self.store: Any = None
        self._face: weakref.ref[Any] | None = None
        self._staging = staging
        self._storage = open_storage(
            engine,
            root,
            spec,
            staging,
            durability=durability,
            read_only=read_only,
            migrate_on_read=migrate_on_read,
        )
        try:
            record = self._storage.read_record()
            if record.spec is not None:
                record.spec.check(spec, f"the store {spec.name!r} in {root}")
            position: dict[str, dict[int, int]] = {}
            merge_positions(position, record.position or {})
            self.context = StoreContext(
                current_record, record, position, partition=partition_of(root), read_only=read_only
            )
            self._clock = self._make_clock(record)
            self._written_stream_time = None if self._clock is None else self._clock.observed
            self._spec_is_stored = record.spec is not None and record.spec.describes(spec)
            stored = self._storage.open()
            layers = StoreLayers(
                spec, self.context, stored, self._clock, repair_index=migrate_on_read
            )
            self._table = layers.table
            begun = time.perf_counter_ns()
            restored, left_out = Restored(), None
            if log is not None:
                restored, left_out = self._restore(log, on_restore)
                self._journal = Journal(log, spec.format, staging, current_record, layers.schema)
                if left_out is not None:
                    self._take_back(self._journal, left_out)
                elif restored.offsets is not None:
                    self._journal.last = self._said(None, copy_position(position), None)
            self.store = layers.store(self._journal, None if read_only else shared_cache)
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
        staging.stores.append(self)

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
        """Restore what a changelog has that the store does not, which is committed.

        Parameters
        ----------
        is_new : bool
            Nobody has used the store yet.

        Raises
        ------
        StateError
            The store's writes go to a changelog, or it retains duplicates.
        """
        if self._journal is not None:
            raise StateError(
                f"the writes to the store {self.spec.name!r} go to the changelog "
                f"{self._journal.log.topic}, from which it was restored when it was opened"
            )
        if self.spec.retain_duplicates and not is_new:
            raise StateError(
                f"the store {self.spec.name!r} retains duplicates and is open, so their numbers "
                "have been given; restore it before anybody opens it"
            )
        begun = time.perf_counter_ns()
        where = (log.topic, log.partition)
        stored = self.context.record.known_offsets.get(where)
        restored, _ = self._restore(log, listener)
        if stored is not None and self.context.record.offsets[where] == stored:
            restored = replace(restored, offsets=self._inputs() or None)  # nothing was new
        if self.context.measures is not None:
            spent = time.perf_counter_ns() - begun
            self.context.measures.restored_records(restored.records, spent)
        if self.context.cache is not None:
            self.context.cache.discard()  # what it has read may be different by now
        if isinstance(self.store.table, VersionedTable):
            self.store.table.find_segments()
        return restored

    def _restore(
        self, log: Changelog, listener: RestoreListener | None
    ) -> tuple[Restored, int | None]:
        where = (log.topic, log.partition)
        with uninterrupted():
            self._restored_from.add(where)
            self._staging.admitted += 1
            try:
                with interruptible():  # it may take long
                    return restore_log(
                        self.spec,
                        self._table,
                        self._clock,
                        self.context.record.offsets.get(where),
                        log,
                        partial(self._commit_restored, where),
                        scratch=self._scratch,
                        listener=listener,
                    )
            except BaseException:
                self._storage.discard()  # the batch that was under way comes again
                raise
            finally:
                self._staging.admitted -= 1

    def _commit_restored(
        self,
        where: Partition,
        offset: int,
        position: Mapping[str, Mapping[int, int]],
        commit: Commit | None,
    ) -> None:
        with uninterrupted():
            offsets: dict[Partition, int | None] = {}
            notes: dict[str, bytes | None] = {}
            merge_positions(self.context.position, position)
            if commit is not None:
                merge_positions(self.context.position, commit.position)
                offsets = {**dict.fromkeys(self._inputs()), **commit.offsets}
                notes = {**dict.fromkeys(self.context.record.notes), **commit.notes}
                if commit.stream_time is not None:
                    self.advance(commit.stream_time)
            moved = bool(position) or (commit is not None and bool(commit.position))
            self.context.moved = self.context.moved or moved
            self._commit({**offsets, where: offset}, notes or None)

    def face(self, state: object) -> Any:
        """The store as its user holds it, the same one for as long as somebody does."""
        face = None if self._face is None else self._face()
        if face is None:
            face = self.store._for_user(state)
            if self.context.measures is not None:
                face = self.context.measures.face(face)
            self._face = weakref.ref(face)
        return face

    def _inputs(
        self, changed: Mapping[Partition, int | None] | None = None
    ) -> dict[Partition, int]:
        """The offsets of the input, with these changes: of all partitions but its changelog's."""
        known = self.context.record.known_offsets
        if changed is not None:
            _apply(known, changed)
        return {
            at: offset
            for at, offset in known.items()
            if offset != UNKNOWN
            and at not in self._restored_from
            and not is_topic_of(at[0], self.spec.name)
        }

    def _take_back(self, journal: Journal, offset: int) -> None:
        """Have the log say that its records from an offset on are void: their commit never ended.

        What they have superseded is logged again, as it is in the store, which has none of them:
        else compaction, or a restore that knows no marks, would take them for what counts.
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
            if journal.noted_bytes > _TAKEN_BACK_BYTES:
                journal.send()
        self._commit(None)

    @property
    def database(self) -> Database | None:
        """The one that holds all of the store, where there is such a one."""
        return self._storage.database

    def flush(self) -> bool:
        """Write down what the cache holds; tells whether there was anything."""
        return self.context.cache is not None and self.context.cache.flush()

    def commit(
        self,
        offsets: Mapping[Partition, int | None] | None,
        notes: Mapping[str, bytes | None] | None = None,
    ) -> None:
        """Write what is staged, and the entries beside it."""
        begun = time.perf_counter_ns()
        self._commit(offsets, notes)
        if self.context.measures is not None:
            self.context.measures.committed(time.perf_counter_ns() - begun)

    @property
    def late(self) -> int:
        """Records that were refused since the store was opened."""
        return 0 if self._clock is None else self._clock.dropped_late

    def _commit(
        self,
        offsets: Mapping[Partition, int | None] | None,
        notes: Mapping[str, bytes | None] | None = None,
    ) -> None:
        context = self.context
        # Taken before the rows are, so that what another thread puts meanwhile is seen as moved.
        moved, context.moved = context.moved, False
        expired = self._storage.expired
        position = copy_position(context.position)
        try:
            if self._journal is not None:
                said = self._said(offsets, position, notes)
                offsets = self._with_changelog(self._journal, offsets, said)
            # Kafka writes a position with the first commit, even an empty one.
            self._write(
                offsets, position if moved or context.record.position is None else None, notes
            )
        except BaseException:
            context.moved = moved
            raise
        context.record.position = position
        self._storage.drop(expired)

    def advance(self, stream_time: int) -> None:
        """Move stream time on, where the store has one."""
        if self._clock is not None:
            with self._clock.turn:
                self._clock.advance(stream_time)

    def spill(self) -> None:
        """Write what is staged before its commit: rows, what they are, their stream time.

        What is noted for the changelog goes there first, so that it is never behind.
        """
        self.flush()
        with uninterrupted():
            offsets = None
            if self._journal is not None:
                offsets = self._with_changelog(self._journal, None, None)
            self._write(offsets, None)

    def _said(
        self,
        offsets: Mapping[Partition, int | None] | None,
        position: dict[str, dict[int, int]],
        notes: Mapping[str, bytes | None] | None,
    ) -> Commit:
        """What the store contains once these offsets and notes are committed."""
        kept = dict(self.context.record.notes)
        _change(kept, notes or {})
        observed = None if self._clock is None else self._clock.observed
        return Commit(self._inputs(offsets), position, observed, kept)

    def _write(
        self,
        offsets: Mapping[Partition, int | None] | None,
        position: Mapping[str, Mapping[int, int]] | None,
        notes: Mapping[str, bytes | None] | None = None,
    ) -> None:
        observed = None if self._clock is None else self._clock.observed
        entries = Entries(
            offsets=offsets,
            position=position,
            stream_time=None if observed == self._written_stream_time else observed,
            spec=None if self._spec_is_stored else self.spec,
            notes=notes,
        )
        self._storage.write(self.context.record, entries)
        if not self._spec_is_stored:
            self.context.record.spec = StoredSpec.of(self.spec)
            self._spec_is_stored = True
        self._written_stream_time = observed
        if offsets is not None:
            _apply(self.context.record.offsets, offsets)
        _change(self.context.record.notes, notes or {})

    def _with_changelog(
        self,
        journal: Journal,
        offsets: Mapping[Partition, int | None] | None,
        commit: Commit | None,
    ) -> Mapping[Partition, int | None] | None:
        """These offsets, and that up to which the changelog has what is staged: all of it, now."""
        next_offset = journal.send(commit)
        where = (journal.log.topic, journal.log.partition)
        known = self.context.record.offsets
        if next_offset == 0 or (offsets is None and known.get(where) == next_offset - 1):
            return offsets
        # None keeps those that there are, and an empty mapping would forget them.
        others = dict.fromkeys(known) if offsets == {} else offsets or {}
        return {**others, where: next_offset - 1}

    def checkpoint(self, place: Callable[[Path], Path]) -> None:
        """Copy what is committed, each database to where it is said to go by its path."""
        self._storage.checkpoint(place)

    def close(self) -> None:
        """Let go of the store's files; what is staged is forgotten. Closing twice is fine."""
        self.context.open = False
        if self in self._staging.stores:
            self._staging.stores.remove(self)
        if self.context.cache is not None:
            self.context.cache.discard()
        if self._journal is not None:
            self._journal.close()
        self._storage.close()


def _apply(known: dict[Partition, int], offsets: Mapping[Partition, int | None]) -> None:
    if not offsets:
        known.clear()
    _change(known, offsets)


def _change(known: dict[_Key, _Value], changes: Mapping[_Key, _Value | None]) -> None:
    """Set what is given; None removes."""
    for key, value in changes.items():
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value
