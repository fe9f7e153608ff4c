"""The window store: one value, or several, for each key and window."""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

from kstore_core.clock import StreamClock
from kstore_core.keys import MAX_TIME
from kstore_core.query.parts import StoreParts
from kstore_core.spec import StoreSpec
from kstore_core.tables import Table
from kstore_core.tables.scan import Scan
from kstore_core.typed.duplicates import DuplicateNumbers
from kstore_core.typed.segmented import SegmentedStore
from kstore_core.typed.store import StoreContext
from kstore_core.typed.values import values_of
from kstore_core.typed.windowed_rows import WindowPoints, WindowRows
from kstore_core.typed.writers import WindowWriter
from kstore_core.types import (
    Time,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Windowed,
    to_millis,
)

__all__ = ["TimestampedWindowStore", "TimestampedWindowStoreWithHeaders", "WindowStore"]

K = TypeVar("K")
V = TypeVar("V")


class WindowStore(WindowPoints[K, V], SegmentedStore[K], Generic[K, V]):
    """A window store. ``V`` is the value, or the wrapper that its format gives it.

    A window has a start, which is not negative. Its end, exclusive, is the start plus the store's
    window size, at most 2**63 - 1. Stream time is the greatest start written. A window is visible
    until stream time has passed its start by the retention.

    Ranges are inclusive at both ends; None leaves an end open. The windows of one key are in the
    order of their starts. The windows of several keys are in the order of segment, key and start;
    in a time-ordered store of start and key, except for a range of keys in a store with an index:
    then of segment, key and start. Times are int milliseconds or aware datetimes.
    """

    def __init__(
        self, spec: StoreSpec, table: Table, context: StoreContext, clock: StreamClock
    ) -> None:
        super().__init__(spec, table, context, clock)
        assert spec.window_size_ms is not None
        values = values_of(spec, context.current_record)
        self._rows = WindowRows(values, self._keys, spec.window_size_ms)
        self._item = self._rows.item
        self._raw_key = values.raw_key
        numbers = DuplicateNumbers(self._highest) if spec.retain_duplicates else None
        writer = WindowWriter(
            values, table, clock, self._interval, context.touch, self._keys, numbers
        )
        self._bind(self._rows, self._reads, writer, spec.retain_duplicates)
        self.parts = StoreParts(
            repr(self), spec, context, table, values, clock, self._rows, self._fetch
        )

    def fetch_range(
        self,
        key_from: K | None,
        key_to: K | None,
        from_ts: Time | None = None,
        to_ts: Time | None = None,
        *,
        reverse: bool = False,
    ) -> Scan[Windowed[K], V]:
        """Return the windows of the keys ``key_from <= key <= key_to``, as (Windowed, value).

        The scan is empty if ``key_from`` lies after ``key_to``. Serialised keys are compared.

        Raises
        ------
        ValueError
            ``from_ts`` lies after ``to_ts``.
        """
        earliest, latest = _times(from_ts, to_ts)
        first = None if key_from is None else self._raw_key(key_from)
        last = None if key_to is None else self._raw_key(key_to)
        rows = self._rows
        return self._fetch(rows.item, rows.table, first, last, earliest, latest, reverse=reverse)

    def fetch_all(
        self, from_ts: Time | None = None, to_ts: Time | None = None, *, reverse: bool = False
    ) -> Scan[Windowed[K], V]:
        """The windows of all keys with ``from_ts <= start <= to_ts``, as (Windowed, value)."""
        return self.fetch_range(None, None, from_ts, to_ts, reverse=reverse)

    def all(self, *, reverse: bool = False) -> Scan[Windowed[K], V]:
        """Return all visible windows, as (Windowed, value)."""
        return self.fetch_range(None, None, reverse=reverse)

    def _highest(self, raw_key: bytes, start: int) -> int | None:
        """The highest sequence number of a key and window, including rows that reads hide."""
        schema = self._keys.schema
        window = schema.fetch(self._interval, raw_key, raw_key, start, start, reverse=True)
        for rows, _ in window.scan(self.table):
            _, _, number = schema.split(rows[0])
            return number
        return None


def _times(earliest: Time | None, latest: Time | None) -> tuple[int, int]:
    """Return a range of window starts, ms, inclusive at both ends."""
    first = 0 if earliest is None else to_millis(earliest)
    last = MAX_TIME if latest is None else to_millis(latest)
    if first > last and earliest is not None:
        raise ValueError(f"from_ts {first} lies after to_ts {last}")
    return first, last


TimestampedWindowStore: TypeAlias = WindowStore[K, ValueAndTimestamp[V]]
"""A window store of values with their time (KIP-258)."""

TimestampedWindowStoreWithHeaders: TypeAlias = WindowStore[K, ValueTimestampHeaders[V]]
"""A window store of values with their time and headers (KIP-1271)."""
