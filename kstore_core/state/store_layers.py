"""What stands between a store's stored rows and its user: the only place that knows the order."""

from __future__ import annotations

from typing import Any

from kstore_core.clock import StreamClock, segment_id
from kstore_core.codec.keys.row_pairs import RowPairs
from kstore_core.discovery.entry_points import wrap_table
from kstore_core.keys import KeySchema, rows_of
from kstore_core.layers import CacheBudget, Cached
from kstore_core.layers.logged import Journal, Logged, LoggedVersions
from kstore_core.spec import StoreSpec
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
    """The layers of one store; docs/layers.md tells why they stand so.

    Parameters
    ----------
    spec : StoreSpec
    context : StoreContext
        Is told of the cache.
    stored : Table
        The lowest one.
    clock : StreamClock or None
    repair_index : bool
        Whether a scan of an index removes index rows without a row.

    Attributes
    ----------
    table : Table
        With its index and behind plug-ins: what is restored goes there.
    schema : KeySchema or None
        Of a window or session store: how its rows are keyed.
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
        """The shape, above its log and its cache, where it has them.

        Parameters
        ----------
        shared_cache : CacheBudget or None
            None where nothing is to be cached.
        """
        spec, clock = self._spec, self._clock
        if spec.shape == "versioned":
            assert clock is not None
            assert spec.segment_interval_ms is not None
            where = (self._cached(self.table, shared_cache), spec.segment_interval_ms, clock)
            # A log has the versions that are put, not the rows that they lie in.
            versions = (
                VersionedTable(*where) if journal is None else LoggedVersions(*where, journal)
            )
            return VersionedStore(spec, versions, self._context)
        logged = self.table if journal is None else Logged(self.table, journal)
        table = self._cached(logged, shared_cache)
        if clock is None:
            return KeyValueStore(spec, table, self._context)
        assert spec.segment_interval_ms is not None
        # What a commit has let go of, and a crash has left.
        assert self._stored.expire is not None
        self._stored.expire(segment_id(clock.horizon, spec.segment_interval_ms))
        shape = WindowStore if spec.shape == "window" else SessionStore
        return shape(spec, table, self._context, clock)

    def _cached(self, table: Table, shared: CacheBudget | None) -> Table:
        """The table that the shape sees: what leaves the cache goes to the log."""
        size = self._spec.cache
        if size is not None and shared is not None:
            self._context.cache = table = Cached(
                table,
                shared if size == "shared" else CacheBudget(size),
                self._context.current_record,
                pairs=self._pairs,
            )
        return table
