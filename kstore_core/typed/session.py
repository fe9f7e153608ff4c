"""The session store, which stores one aggregate for each key and session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from kstore_core.keys import MAX_TIME
from kstore_core.query.parts import StoreParts
from kstore_core.spec import StoreSpec
from kstore_core.stream_clock import StreamClock
from kstore_core.tables import Table
from kstore_core.tables.scan import Scan
from kstore_core.typed.bulk import columns_of, columns_of_format, encoded, times_of
from kstore_core.typed.segmented import SegmentedStore
from kstore_core.typed.store import StoreContext
from kstore_core.typed.values import values_of
from kstore_core.typed.windowed_rows import SessionPoints, SessionRows
from kstore_core.typed.writers import SessionWriter
from kstore_core.types import AggregationWithHeaders, Time, Windowed, to_millis

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SessionStore", "SessionStoreWithHeaders"]

K = TypeVar("K")
A = TypeVar("A")


class SessionStore(SessionPoints[K, A], SegmentedStore[K], Generic[K, A]):
    """A session store. ``A`` is the type of the aggregate, or of the record that contains it.

    A session lasts from the time of its first record to the time of its last record, both
    inclusive. Methods take and return a session as a :class:`~kstore_core.Windowed`. Stream time is
    the latest end of all sessions that were written. Reads return a session as long as stream time
    is before the session's end plus the retention.

    Ranges include both ends. If a limit is None, the range has no limit at this end. The sessions
    of one key are ordered by end and then by start. The sessions of several keys are ordered by the
    segment of their end, and then by key, end and start. In a time-ordered store the sessions of
    several keys are ordered by end, start and key. If a time-ordered store has an index, a range of
    keys is ordered by segment, key, end and start. A time must be an int (ms) or a datetime with a
    time zone.
    """

    def __init__(
        self, spec: StoreSpec, table: Table, context: StoreContext, clock: StreamClock
    ) -> None:
        super().__init__(spec, table, context, clock)
        values = self._encoder = values_of(spec, context.current_record)
        self._rows = SessionRows(values, self._keys)
        self._item = self._rows.item
        self._raw_key = values.raw_key
        self._writer = SessionWriter(
            values, table, clock, self._interval, context.touch, self._keys
        )
        self.parts = StoreParts(
            repr(self), spec, context, table, values, clock, self._rows, self._fetch
        )
        self._bound = (self._rows, self._reads, self._writer)
        self._bind(*self._bound)

    def put_many(
        self, keys: Any, aggregates: Any, starts: Any, ends: Any, headers: Any = None
    ) -> None:
        """Put many rows. The result is the same as after one put for each row, in order.

        Parameters
        ----------
        keys, aggregates : Arrow arrays, or sequences
            A null aggregate removes the session. Arrow arrays of types that built-in serdes accept
            are encoded without making an object for each row.
        starts, ends : Arrow array of int64 (ms) or of timestamps, or sequence
            The times of the first and the last record of each session, both inclusive.
        headers : Arrow array of list<struct<key: string, value: binary>>, or sequence, optional
            By default the headers of the current input record, or no headers without a record.

        Raises
        ------
        ValueError, TypeError
            The columns differ in length, a key or time is missing, a session ends before its start,
            or a value has a type that the serde or the format does not take. Nothing was put.
        UncommittedLimitError, StorageFullError
            See :meth:`put`. Rows are staged in chunks of 16,384. The rows of the chunks before the
            error stay staged.
        """
        begins = times_of(starts, "starts", len(keys))
        lasts = times_of(ends, "ends", len(keys))
        for begin, last in zip(begins, lasts, strict=True):
            if begin > last:
                raise ValueError(f"a session's end {last} lies before its start {begin}")
        chunks = encoded(self._encoder, keys, aggregates, None, headers)
        for first, raw_keys, raws in chunks:
            stop = first + len(raws)
            self._writer.set_many(raw_keys, raws, begins[first:stop], lasts[first:stop])

    def put_arrow(self, table: pa.Table | pa.RecordBatch) -> None:
        """Put the rows of a table with the columns of :meth:`Scan.to_arrow`.

        The columns are ``key``, ``start``, ``end`` and ``value``, and ``headers`` if the format has
        them. The errors are those of :meth:`KeyValueStore.put_arrow`.
        """
        found = columns_of(table, columns_of_format(self.spec, "start", "end"), (), self.name)
        self.put_many(
            found["key"], found["value"], found["start"], found["end"], found.get("headers")
        )

    def remove(self, session: Windowed[K]) -> None:
        """Remove a session if the store contains it."""
        self.put(session, None)

    def find_sessions_range(
        self,
        key_from: K | None,
        key_to: K | None,
        earliest_end: Time | None,
        latest_start: Time | None,
        *,
        reverse: bool = False,
    ) -> Scan[Windowed[K], A]:
        """Return the sessions with ``key_from <= key <= key_to`` that overlap a span of time.

        The order of the keys is that of their serialised bytes. The scan is empty if ``key_from``
        is after ``key_to``.
        """
        first = None if key_from is None else self._raw_key(key_from)
        last = None if key_to is None else self._raw_key(key_to)
        rows = self._rows
        return self._fetch(
            rows.item,
            rows.table,
            first,
            last,
            _millis(earliest_end, 0),
            MAX_TIME,
            latest_start=_millis(latest_start, MAX_TIME),
            reverse=reverse,
        )

    def find_sessions_between(
        self, earliest_end: Time | None, latest_end: Time | None, *, reverse: bool = False
    ) -> Scan[Windowed[K], A]:
        """Return the sessions of all keys with ``earliest_end <= end <= latest_end``.

        The scan is empty if ``earliest_end`` is after ``latest_end``.
        """
        rows = self._rows
        earliest, latest = _millis(earliest_end, 0), _millis(latest_end, MAX_TIME)
        return self._fetch(rows.item, rows.table, None, None, earliest, latest, reverse=reverse)

    def fetch_range(
        self, key_from: K | None, key_to: K | None, *, reverse: bool = False
    ) -> Scan[Windowed[K], A]:
        """Return all visible sessions of the keys ``key_from <= key <= key_to``."""
        return self.find_sessions_range(key_from, key_to, None, None, reverse=reverse)


def _millis(time: Time | None, otherwise: int) -> int:
    return otherwise if time is None else to_millis(time)


SessionStoreWithHeaders: TypeAlias = SessionStore[K, AggregationWithHeaders[A]]
"""A session store of aggregates with their headers (KIP-1271)."""
