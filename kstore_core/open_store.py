"""Putting one store together: database, table, shape. The only place that knows the order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from kstore_core.clock import START, StreamClock
from kstore_core.engine import Durability, Engine, Rows
from kstore_core.errors import EngineError, StateError, StorageFullError, StoreClosedError
from kstore_core.offsets import (
    CLOSED,
    OPEN,
    STATUS,
    Partition,
    StoreRecord,
    commit_rows,
    read_record,
)
from kstore_core.opening import open_table
from kstore_core.plugins import wrap_table
from kstore_core.position import merge_positions
from kstore_core.spec import StoreSpec
from kstore_core.staging import Staging, take
from kstore_core.tables import OFFSETS, StoredTable, Table
from kstore_core.typed.key_value import KeyValueStore
from kstore_core.typed.store import StoreHome
from kstore_core.typed.values import RecordSlot
from kstore_core.typed.versioned import VersionedStore
from kstore_core.versioned import VersionedTable

__all__ = ["OpenStore"]


class OpenStore:
    """A store that is open: its database, what is committed, and the face that its user sees.

    Attributes
    ----------
    spec : StoreSpec
    migrate_on_read : bool
    home : StoreHome
    store : KeyValueStore or VersionedStore
    """

    def __init__(
        self,
        spec: StoreSpec,
        root: Path,
        engine: Engine,
        staging: Staging,
        slot: RecordSlot,
        *,
        durability: Durability,
        read_only: bool,
        migrate_on_read: bool,
    ) -> None:
        self.spec = spec
        self.migrate_on_read = migrate_on_read
        self._staging = staging
        self._read_only = read_only
        self._pid = os.getpid()
        self._marks = not (read_only or staging.transactional)
        self._open_database = partial(
            engine.open, root, spec.name, durability=durability, read_only=read_only
        )
        self._was_full = False
        try:
            self._database = self._open_database()
        except FileNotFoundError as error:
            raise StateError(f"{root} has no store {spec.name!r}: {error}") from error
        self._stored: StoredTable | None = None
        try:
            record = self._read_record()
            if record.spec is not None:
                record.spec.check(spec, f"the store {spec.name!r} in {root}")
            self._stored = open_table(
                self._database,
                staging,
                spec.format,
                writable=not read_only,
                migrate_on_read=migrate_on_read,
            )
            position: dict[str, dict[int, int]] = {}
            merge_positions(position, record.position or {})
            self.home = StoreHome(slot, record, position)
            self._clock = self._make_clock(record)
            self.store = self._make_store(wrap_table(self._stored, spec))
            if self._marks:
                self._database.write({OFFSETS: Rows([STATUS], [OPEN])})
        except BaseException:
            self._marks = False
            self.close()
            raise
        self._written_stream_time: int | None = None
        if self._clock is not None:
            self._written_stream_time = self._clock.observed
        staging.stores.append(self)
        self._spec_is_stored = record.spec is not None and record.spec.describes(spec)

    def _read_record(self) -> StoreRecord:
        if self._read_only and OFFSETS not in self._database.namespaces():
            return StoreRecord()
        return read_record(self._database.namespace(OFFSETS))

    def _make_clock(self, record: StoreRecord) -> StreamClock | None:
        if self.spec.history_retention_ms is None:
            return None
        observed = START if record.stream_time is None else record.stream_time
        return StreamClock(self.spec.history_retention_ms, observed)

    def _make_store(self, table: Table) -> KeyValueStore | VersionedStore:  # type: ignore[type-arg]
        if self._clock is None:
            return KeyValueStore(self.spec, table, self.home)
        assert self.spec.segment_interval_ms is not None
        versions = VersionedTable(table, self.spec.segment_interval_ms, self._clock)
        return VersionedStore(self.spec, versions, self.home)

    def commit(self, offsets: Mapping[Partition, int | None] | None) -> None:
        """Write what is staged, and the entries beside it, in one batch."""
        home = self.home
        # Taken before the rows are, so that what another thread puts meanwhile is seen as moved.
        moved, home.moved = home.moved, False
        position = {topic: dict(known) for topic, known in home.position.items()}
        try:
            # Kafka writes a position with the first commit, even an empty one.
            self._write(offsets, position if moved or home.record.position is None else None)
        except BaseException:
            home.moved = moved
            raise
        home.record.position = position
        if offsets is not None:
            _apply(home.record.offsets, offsets)

    def spill(self) -> None:
        """Write what is staged before its commit: rows, what they are, their stream time."""
        self._write(None, None)

    def _write(
        self,
        offsets: Mapping[Partition, int | None] | None,
        position: Mapping[str, Mapping[int, int]] | None,
    ) -> None:
        assert self._stored is not None
        observed = None if self._clock is None else self._clock.observed
        namespaces = self._stored.namespaces
        staged = take(namespaces)
        batch = {space.name: rows for space, rows in zip(namespaces, staged, strict=True) if rows}
        entries = commit_rows(
            self.home.record,
            offsets=offsets,
            position=position,
            stream_time=None if observed == self._written_stream_time else observed,
            spec=None if self._spec_is_stored else self.spec,
        )
        if entries:
            batch[OFFSETS] = entries
        if batch:
            if self._was_full:
                self._open_again(self._stored)
            try:
                self._database.write(batch)
            except StorageFullError:
                self._was_full = True
                raise
            for namespace, rows in zip(namespaces, staged, strict=True):
                namespace.clear(rows)
            self._spec_is_stored = True
        self._written_stream_time = observed

    def _open_again(self, table: StoredTable) -> None:
        """Open the database anew, for a full disk may have left it unable to write for good."""
        with contextlib.suppress(EngineError):
            self._database.close()
        self._database = self._open_database()
        for namespace in table.namespaces:
            namespace.rebase(self._database)
        self._was_full = False

    def close(self) -> None:
        """Mark the store as closed cleanly and let go of its files. Closing twice is fine."""
        try:
            for namespace in () if self._stored is None else self._stored.namespaces:
                namespace.close()
            if self in self._staging.stores:
                self._staging.stores.remove(self)
            if self._marks and self._pid == os.getpid():
                self._marks = False
                # At the interpreter's exit the engine may have been closed already.
                with contextlib.suppress(StoreClosedError):
                    self._database.write({OFFSETS: Rows([STATUS], [CLOSED])})
        finally:
            self._database.close()


def _apply(known: dict[Partition, int], offsets: Mapping[Partition, int | None]) -> None:
    if not offsets:
        known.clear()
    for partition, offset in offsets.items():
        if offset is None:
            known.pop(partition, None)
        else:
            known[partition] = offset
