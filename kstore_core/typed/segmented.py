"""The base class of window and session stores. It drops late writes and hides old rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kstore_core.keys import rows_of
from kstore_core.spec import StoreSpec
from kstore_core.stream_clock import StreamClock
from kstore_core.tables import Table
from kstore_core.typed.reads import Reads
from kstore_core.typed.store import Store, StoreContext

__all__ = ["SegmentedStore"]

K = TypeVar("K")


class SegmentedStore(Store[K]):
    """A store whose rows are divided into segments of time, which expire as a whole.

    The *time* of a row is the start of a window or the end of a session. The horizon is stream time
    minus the retention. A write is dropped if the segment of its time ends before the horizon. A
    read returns only rows whose time is after the horizon. So a store may contain rows that no read
    returns, as in Kafka Streams. A read of a time-ordered window store also returns a row whose
    time equals the horizon.

    Attributes
    ----------
    table : Table
        The table of serialised keys and values.
    clock : StreamClock
    """

    _item: Callable[[bytes, Any], tuple[Any, Any]]

    def __init__(
        self, spec: StoreSpec, table: Table, context: StoreContext, clock: StreamClock
    ) -> None:
        super().__init__(spec, context)
        assert spec.segment_interval_ms is not None
        self.table = table
        self.clock = clock
        self._interval = spec.segment_interval_ms
        self._keys = rows_of(spec.shape, time_ordered=spec.time_ordered, indexed=spec.indexed)
        self._reads = Reads(table, clock, self._keys, self._interval)
        self._fetch = self._reads.fetch

    @property
    def late(self) -> int:
        """The number of writes that were dropped because their segment had expired.

        The count begins at 0 when the store is opened.
        """
        return self.clock.dropped_late

    def _change(self, row: bytes, raw: bytes) -> tuple[Any, Any]:
        found: tuple[Any, Any] = self._item(row, raw)
        return found
