"""The window store: a value, or many, for each key and window."""

from __future__ import annotations

from typing import Any, Generic, TypeAlias, TypeVar

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

    A window has a start, not negative; its end, exclusive, is the start and the store's window
    size, at most 2**63 - 1. A window can be read until stream time, the greatest start written, has
    passed its start by the retention.

    Ranges are inclusive at both ends; None leaves an end open. The windows of one key come by
    start, those of many by segment, then in the order of their rows: key, start. In a time-ordered
    store those of all keys come by start, then key; those of a range of keys come by segment, key
    and start where there is an index, else by start too. Times are int milliseconds or aware
    datetimes.
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
        self._bind(self._rows, self._reads, spec.retain_duplicates)
        numbers = DuplicateNumbers(self._highest) if spec.retain_duplicates else None
        self._write = WindowWriter(
            values, table, clock, self._interval, context.touch, self._keys.make, numbers
        ).put
        self.parts = StoreParts(
            repr(self), spec, context, table, values, clock, self._rows, self._fetch
        )

    def put(
        self,
        key: K,
        value: Any,
        *,
        window_start: Time,
        timestamp: Time | None = None,
        headers: Any = None,
    ) -> None:
        """Set ``key`` to ``value`` in the window from ``window_start``; None deletes.

        In a store that retains duplicates the value is added to those that there are, and None is
        ignored. What comes too late is counted in :attr:`late`, and nothing else.

        Parameters
        ----------
        value
            The wrapper of the store's format, or the bare value with ``timestamp`` and ``headers``
            beside it.
        timestamp : int or datetime, optional
            Left out, it is the input record's, where there is one.
        headers : Headers or iterable of (str, bytes or None), optional
            Left out, they are the input record's, or none.

        Raises
        ------
        TypeError
            ``key`` is None; a timestamp is missing; the format does not keep what was given.
        ValueError
            The window's start is negative.
        UncommittedLimitError
            The state is transactional and holds too much.
        """
        self._write(key, value, window_start, timestamp, headers)

    def fetch_range(
        self,
        key_from: K | None,
        key_to: K | None,
        from_ts: Time | None = None,
        to_ts: Time | None = None,
        *,
        reverse: bool = False,
    ) -> Scan[Windowed[K], V]:
        """The windows of the keys ``key_from <= key <= key_to``, as (Windowed, value).

        None where ``key_from`` lies after ``key_to``. Keys are compared as they are serialised.

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
        """All windows that can be seen, as (Windowed, value)."""
        return self.fetch_range(None, None, reverse=reverse)

    def _highest(self, raw_key: bytes, start: int) -> int | None:
        """The highest number stored for a key and window, also where no read shows it."""
        schema = self._keys.schema
        window = schema.fetch(self._interval, raw_key, raw_key, start, start, reverse=True)
        for rows, _ in window.scan(self.table):
            _, _, number = schema.split(rows[0])
            return number
        return None


def _times(earliest: Time | None, latest: Time | None) -> tuple[int, int]:
    """A range of window starts, ms, inclusive at both ends."""
    first = 0 if earliest is None else to_millis(earliest)
    last = MAX_TIME if latest is None else to_millis(latest)
    if first > last and earliest is not None:
        raise ValueError(f"from_ts {first} lies after to_ts {last}")
    return first, last


TimestampedWindowStore: TypeAlias = WindowStore[K, ValueAndTimestamp[V]]
"""A window store of values with their time (KIP-258)."""

TimestampedWindowStoreWithHeaders: TypeAlias = WindowStore[K, ValueTimestampHeaders[V]]
"""A window store of values with their time and headers (KIP-1271)."""
