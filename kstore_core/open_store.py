"""Putting one store together: storage, table, shape. The only place that knows the order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from kstore_core.clock import START, StreamClock, segment_id
from kstore_core.engine import Durability, Engine
from kstore_core.keys import rows_of
from kstore_core.offsets import Entries, Partition, StoreRecord
from kstore_core.plugins import wrap_table
from kstore_core.position import merge_positions
from kstore_core.segments import IndexedTable, SegmentedTable
from kstore_core.spec import StoreSpec
from kstore_core.staging import Staging
from kstore_core.storage import open_storage
from kstore_core.tables import Table
from kstore_core.typed.key_value import KeyValueStore
from kstore_core.typed.segmented import ExpiringTable
from kstore_core.typed.session import SessionStore
from kstore_core.typed.store import StoreHome
from kstore_core.typed.values import RecordSlot
from kstore_core.typed.versioned import VersionedStore
from kstore_core.typed.window import WindowStore
from kstore_core.versioned import VersionedTable

__all__ = ["OpenStore"]


class OpenStore:
    """A store that is open: its storage, what is committed, and the face that its user sees.

    Attributes
    ----------
    spec : StoreSpec
    migrate_on_read : bool
    home : StoreHome
    store : KeyValueStore, VersionedStore, WindowStore or SessionStore
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
            self.home = StoreHome(slot, record, position)
            self._clock = self._make_clock(record)
            self.store = self._make_store(self._storage.open())
        except BaseException:
            self._storage.close()
            raise
        self._written_stream_time: int | None = None
        if self._clock is not None:
            self._written_stream_time = self._clock.observed
        staging.stores.append(self)
        self._spec_is_stored = record.spec is not None and record.spec.describes(spec)

    def _make_clock(self, record: StoreRecord) -> StreamClock | None:
        retention = self.spec.retention_ms
        if retention is None:
            retention = self.spec.history_retention_ms
        if retention is None:
            return None
        return StreamClock(retention, START if record.stream_time is None else record.stream_time)

    def _make_store(self, stored: Table) -> Any:
        spec, clock = self.spec, self._clock
        if clock is None:
            return KeyValueStore(spec, wrap_table(stored, spec), self.home)
        assert spec.segment_interval_ms is not None
        if spec.shape == "versioned":
            versions = VersionedTable(wrap_table(stored, spec), spec.segment_interval_ms, clock)
            return VersionedStore(spec, versions, self.home)
        # What a commit has let go of, and a crash has left.
        segments = cast("SegmentedTable", stored)
        segments.expire(segment_id(clock.horizon, spec.segment_interval_ms))
        pairs = rows_of(spec.shape, time_ordered=spec.time_ordered, indexed=spec.indexed).pairs
        if pairs is not None:
            stored = IndexedTable(segments, pairs, mends=self.migrate_on_read)
        shape = WindowStore if spec.shape == "window" else SessionStore
        return shape(spec, cast("ExpiringTable", wrap_table(stored, spec)), self.home, clock)

    def commit(self, offsets: Mapping[Partition, int | None] | None) -> None:
        """Write what is staged, and the entries beside it."""
        home = self.home
        # Taken before the rows are, so that what another thread puts meanwhile is seen as moved.
        moved, home.moved = home.moved, False
        expired = self._storage.expired
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
        self._storage.drop(expired)

    def spill(self) -> None:
        """Write what is staged before its commit: rows, what they are, their stream time."""
        self._write(None, None)

    def _write(
        self,
        offsets: Mapping[Partition, int | None] | None,
        position: Mapping[str, Mapping[int, int]] | None,
    ) -> None:
        observed = None if self._clock is None else self._clock.observed
        entries = Entries(
            offsets=offsets,
            position=position,
            stream_time=None if observed == self._written_stream_time else observed,
            spec=None if self._spec_is_stored else self.spec,
        )
        self._storage.write(self.home.record, entries)
        self._spec_is_stored = True
        self._written_stream_time = observed

    def close(self) -> None:
        """Let go of the store's files; what is staged is forgotten. Closing twice is fine."""
        if self in self._staging.stores:
            self._staging.stores.remove(self)
        self._storage.close()


def _apply(known: dict[Partition, int], offsets: Mapping[Partition, int | None]) -> None:
    if not offsets:
        known.clear()
    for partition, offset in offsets.items():
        if offset is None:
            known.pop(partition, None)
        else:
            known[partition] = offset
