"""What window and session stores share: what is too late, and what can still be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kstore_core.clock import StreamClock
from kstore_core.keys import rows_of
from kstore_core.spec import StoreSpec
from kstore_core.tables import Table
from kstore_core.typed.reads import Reads
from kstore_core.typed.store import Store, StoreContext

__all__ = ["SegmentedStore"]

K = TypeVar("K")


class SegmentedStore(Store[K]):
    """A store whose rows lie in segments of time, which expire whole.

    A row has a *time*: a window's start, a session's end. It is refused when its segment has
    expired, that is, ends before stream time less the retention. It is seen as long as its time is
    later than that, so a store may hold rows that no read shows, as Kafka's do. A time-ordered
    window store shows that very time too.

    Attributes
    ----------
    table : Table
        The bytes below.
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
        """Writes that were refused since the store was opened, for their segment has expired."""
        return self.clock.dropped_late

    def _change(self, row: bytes, raw: bytes) -> tuple[Any, Any]:
        found: tuple[Any, Any] = self._item(row, raw)
        return found
