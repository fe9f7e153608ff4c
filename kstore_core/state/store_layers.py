"""The layers between a store's stored rows and its user. Only this module defines their order."""

from __future__ import annotations

from typing import Any

from kstore_core.clock import segment_id
from kstore_core.codec.keys.row_pairs import RowPairs
from kstore_core.discovery.entry_points import wrap_table
from kstore_core.keys import KeySchema, rows_of
from kstore_core.layers import CacheBudget, Cached
from kstore_core.layers.logged import Journal, Logged
from kstore_core.layers.noted import LoggedVersions
from kstore_core.spec import StoreSpec
from kstore_core.stream_clock import StreamClock
from kstore_core.tables import Table
from kstore_core.tables.segments import IndexedTable, SegmentedTable
from kstore_core.tables.versioned import VersionedTable
from kstore_core.typed.key_value import KeyValueStore
from kstore_core.typed.session import SessionStore
from kstore_core.typed.store import StoreContext
from kstore_core.typed.versioned import VersionedStore
from kstore_core.typed.window import WindowStore

__all__ = ["StoreLayers"]


class StoreLayers:
    """The layers of one store; docs/layers.md has the reasons for their order.

    Parameters
    ----------
    spec : StoreSpec
    context : StoreContext
        The data of the store. Its attribute ``cache`` is set if the store has a cache.
    stored : Table
        The lowest layer, which stores the rows.
    clock : StreamClock or None
    repair_index : bool
        If True, a scan that finds an index row without a row removes the index row.

    Attributes
    ----------
    table : Table
        The stored table with its index and the layers of plug-ins. A restore writes to it.
    schema : KeySchema or None
        The schema of the row keys of a window or session store; None for other stores.
    """

    def __init__(
        self,
        spec: StoreSpec,
        context: StoreContext,
        stored: Table,
        clock: StreamClock | None,
        *,
        repair_index: bool,
    ) -> None:
        self._spec = spec
        self._context = context
        self._stored = stored
        self._clock = clock
        self.schema: KeySchema | None = None
        self._pairs: RowPairs | None = None
        if spec.shape in ("window", "session"):
            keys = rows_of(spec.shape, time_ordered=spec.time_ordered, indexed=spec.indexed)
            self.schema, self._pairs = keys.schema, keys.pairs
        table = stored
        if self._pairs is not None:
            assert isinstance(stored, SegmentedTable)
            table = IndexedTable(stored, self._pairs, repair_index=repair_index)
        self.table = wrap_table(table, spec)

    def store(self, journal: Journal | None, shared_cache: CacheBudget | None) -> Any:
        """Return the store object, with a cache and a changelog below it if the store has them.

        Parameters
        ----------
        shared_cache : CacheBudget or None
            The budget of the caches that stores share; no store is cached if None.
        """
        spec, clock = self._spec, self._clock
        if spec.shape == "versioned":
            assert clock is not None
            assert spec.segment_interval_ms is not None
            where = (self._cached(self.table, shared_cache), spec.segment_interval_ms, clock)
            # A changelog contains the put versions, not the rows in which the table stores them.
            versions = (
                VersionedTable(*where) if journal is None else LoggedVersions(*where, journal)
            )
            return VersionedStore(spec, versions, self._context)
        logged = self.table if journal is None else Logged(self.table, journal)
        table = self._cached(logged, shared_cache)
        if clock is None:
            return KeyValueStore(spec, table, self._context)
        assert spec.segment_interval_ms is not None
        # Drop segments that had expired at a commit, but that a crash left on disk.
        assert self._stored.expire is not None
        self._stored.expire(segment_id(clock.horizon, spec.segment_interval_ms))
        shape = WindowStore if spec.shape == "window" else SessionStore
        return shape(spec, table, self._context, clock)

    def _cached(self, table: Table, shared: CacheBudget | None) -> Table:
        """Return a cache over ``table``; only ``table`` if there is no cache or no budget."""
        size = self._spec.cache
        if size is not None and shared is not None:
            self._context.cache = table = Cached(
                table,
                shared if size == "shared" else CacheBudget(size),
                self._context.current_record,
                pairs=self._pairs,
            )
        return table
