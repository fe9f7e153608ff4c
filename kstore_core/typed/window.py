"""The window store, which stores one or several values for each key and window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from kstore_core.keys import MAX_TIME
from kstore_core.query.parts import StoreParts
from kstore_core.spec import StoreSpec
from kstore_core.stream_clock import StreamClock
from kstore_core.tables import Table
from kstore_core.tables.scan import Scan
from kstore_core.typed.bulk import columns_of, columns_of_format, encoded, times_of
from kstore_core.typed.duplicates import DuplicateNumbers
from kstore_core.typed.segmented import SegmentedStore
from kstore_core.typed.store import StoreContext
from kstore_core.typed.values import values_of
from kstore_core.typed.windowed_rows import WindowPoints, WindowRows
from kstore_core.typed.writers import WindowWriter, window_start
from kstore_core.types import (
    Time,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Windowed,
    to_millis,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TimestampedWindowStore", "TimestampedWindowStoreWithHeaders", "WindowStore"]

K = TypeVar("K")
V = TypeVar("V")


class WindowStore(WindowPoints[K, V], SegmentedStore[K], Generic[K, V]):
    """A window store. ``V`` is the type of the value, or of the record that contains the value.

    The start of a window must not be negative. The end of a window is exclusive: it is the start
    plus the window size of the store, but at most 2**63 - 1. Stream time is the latest start of all
    windows that were written. Reads return a window as long as stream time is before the window's
    start plus the retention. Reads of a time-ordered store also return a window when stream time
    equals this sum.

    Ranges include both ends. If a limit is None, the range has no limit at this end. The windows of
    one key are ordered by start. The windows of several keys are ordered by segment, key and start.
    In a time-ordered store the windows of several keys are ordered by start and key. If a
    time-ordered store has an index, a range of keys is ordered by segment, key and start. A time
    must be an int (ms) or a datetime with a time zone.
    """

    def __init__(
        self, spec: StoreSpec, table: Table, context: StoreContext, clock: StreamClock
    ) -> None:
        super().__init__(spec, table, context, clock)
        assert spec.window_size_ms is not None
        values = self._encoder = values_of(spec, context.current_record)
        self._rows = WindowRows(values, self._keys, spec.window_size_ms)
        self._item = self._rows.item
        self._raw_key = values.raw_key
        numbers = DuplicateNumbers(self._highest) if spec.retain_duplicates else None
        self._writer = WindowWriter(
            values, table, clock, self._interval, context.touch, self._keys, numbers
        )
        self._bound = (self._rows, self._reads, self._writer, spec.retain_duplicates)
        self._bind(*self._bound)
        self.parts = StoreParts(
            repr(self), spec, context, table, values, clock, self._rows, self._fetch
        )

    def put_many(
        self,
        keys: Any,
        values: Any,
        window_starts: Any,
        timestamps: Any = None,
        headers: Any = None,
    ) -> None:
        """Put many rows. The result is the same as after one put for each row, in order.

        Parameters
        ----------
        keys, values : Arrow arrays, or sequences
            A null value deletes the value of its window. Arrow arrays of types that built-in serdes
            accept are encoded without making an object for each row.
        window_starts : Arrow array of int64 (ms) or of timestamps, or sequence
            The starts of the windows, which must not be negative.
        timestamps, headers
            As in :meth:`KeyValueStore.put_many`, which also describes the errors.
        """
        starts = times_of(window_starts, "window_starts", len(keys))
        if starts:
            window_start(min(starts))  # raises if a start is negative
        chunks = encoded(self._encoder, keys, values, timestamps, headers)
        for first, raw_keys, raws in chunks:
            self._writer.set_many(raw_keys, raws, starts[first : first + len(raws)])

    def put_arrow(self, table: pa.Table | pa.RecordBatch) -> None:
        """Put the rows of a table with the columns of :meth:`Scan.to_arrow`.

        The columns are ``key``, ``start`` and ``value``, and ``timestamp`` and ``headers`` if the
        format has them. A column ``end`` is ignored. The errors are those of
        :meth:`KeyValueStore.put_arrow`.
        """
        found = columns_of(table, columns_of_format(self.spec, "start"), ("end",), self.name)
        self.put_many(
            found["key"],
            found["value"],
            found["start"],
            found.get("timestamp"),
            found.get("headers"),
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

        The order of the keys is that of their serialised bytes. The scan is empty if ``key_from``
        is after ``key_to``.

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
        """Return a scan of the windows of all keys with ``from_ts <= start <= to_ts``.

        An item of the scan is a tuple (Windowed, value).
        """
        return self.fetch_range(None, None, from_ts, to_ts, reverse=reverse)

    def all(self, *, reverse: bool = False) -> Scan[Windowed[K], V]:
        """Return all visible windows, as (Windowed, value)."""
        return self.fetch_range(None, None, reverse=reverse)

    def _highest(self, raw_key: bytes, start: int) -> int | None:
        """Return the highest sequence number of a key and window, or None if they have no row.

        Rows that are too old to be read count too.
        """
        schema = self._keys.schema
        window = schema.fetch(self._interval, raw_key, raw_key, start, start, reverse=True)
        for rows, _ in window.scan(self.table):
            _, _, number = schema.split(rows[0])
            return number
        return None


def _times(earliest: Time | None, latest: Time | None) -> tuple[int, int]:
    """Return the first and the last window start of a range in ms, both inclusive."""
    first = 0 if earliest is None else to_millis(earliest)
    last = MAX_TIME if latest is None else to_millis(latest)
    if first > last and earliest is not None:
        raise ValueError(f"from_ts {first} lies after to_ts {last}")
    return first, last


TimestampedWindowStore: TypeAlias = WindowStore[K, ValueAndTimestamp[V]]
"""A window store of values with their time (KIP-258)."""

TimestampedWindowStoreWithHeaders: TypeAlias = WindowStore[K, ValueTimestampHeaders[V]]
"""A window store of values with their time and headers (KIP-1271)."""
