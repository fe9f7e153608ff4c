"""The session store: an aggregate for each key and session."""

from __future__ import annotations

from typing import Any, Generic, TypeAlias, TypeVar

from kstore_core.clock import StreamClock
from kstore_core.keys import MAX_TIME
from kstore_core.query.parts import StoreParts
from kstore_core.spec import StoreSpec
from kstore_core.tables import Table
from kstore_core.tables.scan import Scan
from kstore_core.typed.segmented import SegmentedStore
from kstore_core.typed.store import StoreContext
from kstore_core.typed.values import values_of
from kstore_core.typed.windowed_rows import SessionPoints, SessionRows
from kstore_core.typed.writers import SessionWriter
from kstore_core.types import AggregationWithHeaders, Time, Windowed, to_millis

__all__ = ["SessionStore", "SessionStoreWithHeaders"]

K = TypeVar("K")
A = TypeVar("A")


class SessionStore(SessionPoints[K, A], SegmentedStore[K], Generic[K, A]):
    """A session store. ``A`` is the aggregate, or the wrapper that its format gives it.

    A session reaches from the time of its first record to that of its last, both inclusive; it is
    given and returned as a :class:`~kstore_core.Windowed`. It can be read until stream time, the
    greatest end written, has passed its end by the retention.

    Ranges are inclusive at both ends; None leaves an end open. The sessions of one key come by end,
    then start; those of many by segment of the end, then in the order of their rows: key, end,
    start. In a time-ordered store those of all keys come by end, start and key; those of a range of
    keys come by segment, key, end and start where there is an index, else by end, start and key
    too. Times are int milliseconds or aware datetimes.
    """

    def __init__(
        self, spec: StoreSpec, table: Table, context: StoreContext, clock: StreamClock
    ) -> None:
        super().__init__(spec, table, context, clock)
        values = values_of(spec, context.current_record)
        self._rows = SessionRows(values, self._keys)
        self._item = self._rows.item
        self._raw_key = values.raw_key
        self._write = SessionWriter(
            values, table, clock, self._interval, context.touch, self._keys.make
        ).put
        self.parts = StoreParts(
            repr(self), spec, context, table, values, clock, self._rows, self._fetch
        )
        self._bind(self._rows, self._reads)

    def put(self, session: Windowed[K], aggregate: Any, *, headers: Any = None) -> None:
        """Set the aggregate of a session; None removes it.

        What comes too late is counted in :attr:`late`, and nothing else.

        Parameters
        ----------
        aggregate
            The wrapper of the store's format, or the bare aggregate with ``headers`` beside it.
        headers : Headers or iterable of (str, bytes or None), optional
            Left out, they are the input record's, or none.

        Raises
        ------
        TypeError
            ``session`` is no Windowed, or its key is None; the format does not keep what was given.
        UncommittedLimitError
            The state is transactional and holds too much.
        """
        self._write(session, aggregate, headers)

    def remove(self, session: Windowed[K]) -> None:
        """Remove a session; one that is not there is no fault."""
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
        """As :meth:`find_sessions`, of the keys with ``key_from <= key <= key_to``.

        None where ``key_from`` lies after ``key_to``. Keys are compared as they are serialised.
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
        """The sessions of all keys that end from ``earliest_end`` to ``latest_end``.

        None where ``earliest_end`` lies after ``latest_end``.
        """
        rows = self._rows
        earliest, latest = _millis(earliest_end, 0), _millis(latest_end, MAX_TIME)
        return self._fetch(rows.item, rows.table, None, None, earliest, latest, reverse=reverse)

    def fetch_range(
        self, key_from: K | None, key_to: K | None, *, reverse: bool = False
    ) -> Scan[Windowed[K], A]:
        """All sessions of the keys ``key_from <= key <= key_to`` that can be seen."""
        return self.find_sessions_range(key_from, key_to, None, None, reverse=reverse)


def _millis(time: Time | None, otherwise: int) -> int:
    return otherwise if time is None else to_millis(time)


SessionStoreWithHeaders: TypeAlias = SessionStore[K, AggregationWithHeaders[A]]
"""A session store of aggregates with their headers (KIP-1271)."""
