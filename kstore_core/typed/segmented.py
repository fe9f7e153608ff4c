"""What window and session stores share: what is too late, what can still be seen, and scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from kstore_core.clock import StreamClock
from kstore_core.engine import Chunk
from kstore_core.keys import MAX_TIME, rows_of
from kstore_core.spec import StoreSpec
from kstore_core.tables import Table
from kstore_core.typed.scan import Scan
from kstore_core.typed.store import Store, StoreHome

__all__ = ["ExpiringTable", "SegmentedStore"]

K = TypeVar("K")
Columns = Callable[[list[bytes], list[Any]], Any]


class ExpiringTable(Table, Protocol):
    """A table whose rows lie in segments of time."""

    @property
    def expire(self) -> Callable[[int], None]:
        """Take the segments before one away."""


class SegmentedStore(Store[K]):
    """A store whose rows lie in segments of time, which expire whole.

    A row has a *time*: a window's start, a session's end. It is refused when its segment has
    expired, that is, ends before stream time less the retention. It is seen as long as its time is
    later than that, so a store may hold rows that no read shows, as Kafka's do. A time-ordered
    window store shows that very time too.

    Attributes
    ----------
    table : ExpiringTable
        The bytes below.
    clock : StreamClock
    """

    def __init__(
        self, spec: StoreSpec, table: ExpiringTable, home: StoreHome, clock: StreamClock
    ) -> None:
        super().__init__(spec, home)
        assert spec.segment_interval_ms is not None
        self.table = table
        self.clock = clock
        self._interval = spec.segment_interval_ms
        self._get = table.get
        self._keys = rows_of(spec.shape, time_ordered=spec.time_ordered, indexed=spec.indexed)

    def _clock(self) -> StreamClock:
        return self.clock

    @property
    def late(self) -> int:
        """Writes that were refused since the store was opened, for their segment has expired."""
        return self.clock.late

    def _first_seen(self) -> int:
        """The earliest time of a row that can be seen, ms."""
        return self.clock.horizon + self._keys.hidden

    def _fetch(
        self,
        item: Callable[[bytes, Any], tuple[Any, Any]],
        columns: Columns,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest: int,
        latest: int,
        *,
        latest_start: int = MAX_TIME,
        reverse: bool = False,
    ) -> Scan[Any, Any]:
        """A scan of the rows that can be seen of a range of keys and times."""
        earliest = max(earliest, self._first_seen(), 0)
        chunks: Iterator[Chunk]
        if (
            earliest > latest
            or latest_start < 0
            or (key_from is not None and key_to is not None and key_from > key_to)
        ):
            chunks = iter(())
        else:
            everyone = key_from is None and key_to is None
            schema = self._keys.schema if everyone else self._keys.by_key
            chunks = schema.fetch(
                self._interval, key_from, key_to, earliest, latest,
                latest_start=latest_start, reverse=reverse,
            ).scan(self.table)  # fmt: skip
        return Scan(self.table.rows, chunks, item, columns)
