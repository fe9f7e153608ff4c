"""Key schemas, which define the row keys of window and session stores and the bounds of a fetch.

Each schema is a constant; docs/formats.md, Keys, describes the layouts. Rows are stored in
segments, one for each interval of time. The *segment time* of a row, which is the start of a window
or the end of a session, determines the segment of the row. Both ends of a range of keys or times
are inclusive, as in the methods of the stores.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kstore_core.checks import find_by_name
from kstore_core.clock import segment_id
from kstore_core.codec import (
    session_key,
    time_first_session_key,
    time_first_window_key,
    window_key,
)
from kstore_core.codec.keys.ranges import KeyFilter, KeyLayout, last_row_of
from kstore_core.codec.keys.row_pairs import RowPairs
from kstore_core.engine import Chunk

__all__ = [
    "MAX_TIME",
    "SCHEMAS",
    "SESSION",
    "SESSION_KEY_FIRST",
    "SESSION_TIME_FIRST",
    "WINDOW",
    "WINDOW_KEY_FIRST",
    "WINDOW_TIME_FIRST",
    "Bounds",
    "Fetch",
    "IndexBounds",
    "KeySchema",
    "RowKeys",
    "by_name",
    "rows_of",
]

MAX_TIME = 2**63 - 1
"""The greatest possible time (ms)."""

_MAX_NUMBER = 2**31 - 1
_NO_PREFIX, _TIME_FIRST, _KEY_FIRST = -1, 0, 1

_window_times = struct.Struct(">qi").pack
_session_times = struct.Struct(">qq").pack
_time = struct.Struct(">q").pack


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range of rows that a scan reads, and the direction of the scan.

    Attributes
    ----------
    lo, hi : bytes or None
        The first row key (inclusive) and the end of the row keys (exclusive). None means no limit.
        In a segmented table, the limits apply within each segment.
    reverse : bool
        True to read the rows in descending order.
    segment_lo, segment_hi : int or None
        The first and the last segment to read, both inclusive. Only for segmented tables. None
        means no limit.
    """

    lo: bytes | None = None
    hi: bytes | None = None
    reverse: bool = False
    segment_lo: int | None = None
    segment_hi: int | None = None


class _Scanned(Protocol):
    """A table that can be scanned."""

    def scan(self, bounds: Bounds, /) -> Iterator[Chunk]: ...


class Fetch(NamedTuple):
    """The bounds of a fetch, and the filter that passes only the requested rows in the bounds."""

    bounds: Bounds
    rows: KeyFilter

    def scan(self, table: _Scanned) -> Iterator[Chunk]:
        """Return an iterator over chunks of the requested rows in a snapshot of the table."""
        return self.rows.chunks(table.scan(self.bounds))


@dataclass(frozen=True, slots=True)
class IndexBounds(Bounds):
    """The bounds of index rows, and a filter that passes only the requested index rows.

    For each index row that passes the filter, the scan looks up the row itself. So the filter saves
    lookups.
    """

    rows: KeyFilter | None = None


@dataclass(frozen=True, slots=True)
class KeySchema:
    """The layout of row keys.

    Attributes
    ----------
    name : str
        The name of the schema. A pickled schema contains only its name.
    session : bool
        True if a row key contains the end and the start of a session. False if it contains the
        start of a window and the sequence number that distinguishes duplicates.
    prefix : int
        The first byte of the row keys in a time-ordered store. It is 0 if the time comes before the
        user's key, as in the rows themselves. It is 1 if the user's key comes first, as in the rows
        of the index. Other stores have no such byte, so ``prefix`` is -1.
    segment_time : callable
        A function that takes a row key and returns its segment time (ms). It raises a FormatError
        if the bytes do not have this layout.
    split : callable
        A function that takes a row key and returns ``(user's key, window start, sequence number)``
        or ``(user's key, session end, session start)``.
    layout : KeyLayout
        The positions of the user's key and the times in a row key.
    """

    name: str
    session: bool
    prefix: int = _NO_PREFIX
    segment_time: Callable[[bytes], int] = field(init=False, repr=False, compare=False)
    split: Callable[[bytes], tuple[bytes, int, int]] = field(init=False, repr=False, compare=False)
    layout: KeyLayout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        layout = KeyLayout(session=self.session, prefix=self.prefix)
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "segment_time", layout.segment_time)
        object.__setattr__(self, "split", layout.split)

    def fetch(
        self,
        interval_ms: int,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest: int,
        latest: int,
        *,
        latest_start: int = MAX_TIME,
        reverse: bool = False,
    ) -> Fetch:
        """Return the bounds and the filter for a range of keys and segment times.

        Parameters
        ----------
        interval_ms : int
            The width of a segment (ms).
        key_from, key_to : bytes or None
            The first and the last of the user's keys, both inclusive. None means no limit.
        earliest, latest : int
            The first and the last segment time (ms), both inclusive. They must not be negative, and
            ``latest`` must not be less than ``earliest``.
        latest_start : int
            The greatest start of a session (ms), inclusive. It must not be negative.
        reverse : bool
            True to read the rows in descending order.
        """
        lo, hi = self._byte_bounds(key_from, key_to, earliest, latest, latest_start)
        segments = segment_id(earliest, interval_ms), segment_id(latest, interval_ms)
        rows = KeyFilter(self.layout, key_from, key_to, earliest, latest, latest_start)
        if self.prefix == _KEY_FIRST:
            return Fetch(IndexBounds(lo, hi, reverse, *segments, rows), rows)
        return Fetch(Bounds(lo, hi, reverse, *segments), rows)

    def _byte_bounds(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest: int,
        latest: int,
        latest_start: int,
    ) -> tuple[bytes | None, bytes | None]:
        """Return the first row key (inclusive) and the end of the row keys (exclusive) of a range.

        The range contains all requested rows, and it may contain other rows.
        """
        if self.session:
            last_times = _session_times(latest, latest_start)
            first_times = _session_times(earliest, 0)
        else:
            last_times = _window_times(latest, _MAX_NUMBER)
            first_times = _window_times(earliest, 0)
        if self.prefix == _TIME_FIRST:
            return self._by_time(key_from, key_to, earliest, latest, last_times)
        lo, hi = key_from, None
        if key_from is not None and key_from == key_to:
            lo, hi = key_from + first_times, key_from + last_times + b"\0"
        elif key_to is not None:
            hi = last_row_of(key_to, last_times) + b"\0"
        if self.prefix == _NO_PREFIX:
            return lo, hi
        return b"\1" + (lo or b""), b"\2" if hi is None else b"\1" + hi

    def _by_time(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        earliest: int,
        latest: int,
        last_times: bytes,
    ) -> tuple[bytes, bytes]:
        """Return the range of row keys if the times precede the user's key.

        ``key_from`` and ``key_to`` then limit only the rows of the first and the last time.
        """
        lo = b"\0" + _time(earliest)
        if self.session:
            lo += _time(0)
        lo += key_from or b""
        if key_to is None:
            return lo, b"\1" if latest == MAX_TIME else b"\0" + _time(latest + 1)
        if self.session:
            return lo, b"\0" + last_times + key_to + b"\0"
        return lo, b"\0" + last_times[:8] + last_row_of(key_to, last_times[8:]) + b"\0"

    def __reduce__(self) -> tuple[Callable[[str], KeySchema], tuple[str]]:
        return (by_name, (self.name,))


WINDOW = KeySchema("window", session=False)
SESSION = KeySchema("session", session=True)
WINDOW_TIME_FIRST = KeySchema("window_time_first", session=False, prefix=_TIME_FIRST)
WINDOW_KEY_FIRST = KeySchema("window_key_first", session=False, prefix=_KEY_FIRST)
SESSION_TIME_FIRST = KeySchema("session_time_first", session=True, prefix=_TIME_FIRST)
SESSION_KEY_FIRST = KeySchema("session_key_first", session=True, prefix=_KEY_FIRST)

SCHEMAS: dict[str, KeySchema] = {
    schema.name: schema
    for schema in (
        WINDOW,
        SESSION,
        WINDOW_TIME_FIRST,
        WINDOW_KEY_FIRST,
        SESSION_TIME_FIRST,
        SESSION_KEY_FIRST,
    )
}


def by_name(name: str) -> KeySchema:
    """Return the schema with this name. Raise SpecError if no schema has this name."""
    return find_by_name("key schema", name, SCHEMAS)


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The layout of the row keys of a window or session store.

    Attributes
    ----------
    schema : KeySchema
        The schema of the rows, which a fetch over all keys uses.
    by_key : KeySchema
        The schema that a fetch of some keys uses. It is the schema of the index rows if the store
        has an index, otherwise the schema of the rows.
    make : callable
        A function that returns a row key. Its parameters are ``(key, window start, number=0)`` or
        ``(key, session start, session end)``.
    segment_time, split : callable
        The functions of :class:`KeySchema`. They accept the keys of rows and of index rows.
    pairs : RowPairs or None
        The converter between rows and index rows. None if the store has no index.
    hidden : int
        The number of ms from the store's horizon (stream time minus the retention) to the earliest
        segment time that a read returns. As in Kafka Streams, this is 0 for time-ordered windows
        and 1 for all other stores.
    """

    schema: KeySchema
    by_key: KeySchema
    make: Callable[..., bytes]
    segment_time: Callable[[bytes], int]
    split: Callable[[bytes], tuple[bytes, int, int]]
    pairs: RowPairs | None = None
    hidden: int = 1


def rows_of(shape: str, *, time_ordered: bool = False, indexed: bool = False) -> RowKeys:
    """Return the layout of the row keys of a window or session store.

    Parameters
    ----------
    shape : {"window", "session"}
        The shape of the store.
    time_ordered : bool
        True if the store is time-ordered, so that the times precede the user's key.
    indexed : bool
        True if the store has index rows. Only for a time-ordered store.
    """
    session = shape == "session"
    if not time_ordered:
        schema, make = (SESSION, session_key) if session else (WINDOW, window_key)
        return RowKeys(schema, schema, make, schema.segment_time, schema.split)
    pairs = RowPairs(session=session)
    schema, index, make = (
        (SESSION_TIME_FIRST, SESSION_KEY_FIRST, time_first_session_key)
        if session
        else (WINDOW_TIME_FIRST, WINDOW_KEY_FIRST, time_first_window_key)
    )
    return RowKeys(
        schema,
        index if indexed else schema,
        make,
        pairs.segment_time,
        pairs.split,
        pairs if indexed else None,
        hidden=1 if session else 0,
    )
