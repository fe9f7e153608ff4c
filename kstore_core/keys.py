"""Key schemas: the row keys of window and session stores, and the rows that a fetch reads.

A schema is a constant; docs/formats.md, Keys, has the layouts. Rows are stored by segment. The
*segment time* of a row decides its segment: a window's start, or a session's end. All ends of
ranges are inclusive, as in the public reads.
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
"""The greatest time, ms."""

_MAX_NUMBER = 2**31 - 1
_NO_PREFIX, _TIME_FIRST, _KEY_FIRST = -1, 0, 1

_window_times = struct.Struct(">qi").pack
_session_times = struct.Struct(">qq").pack
_time = struct.Struct(">q").pack


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range of rows that a scan reads, ``lo <= key < hi``, and the direction of the scan. None
    is an open end.

    Attributes
    ----------
    segment_lo, segment_hi : int or None
        For segmented tables: the first and the last segment to read, both inclusive. ``lo`` and
        ``hi`` apply within each segment.
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
    """The bounds of a fetch, and the filter of the rows within them."""

    bounds: Bounds
    rows: KeyFilter

    def scan(self, table: _Scanned) -> Iterator[Chunk]:
        """Return the chunks of exactly the requested rows, as of this call."""
        return self.rows.chunks(table.scan(self.bounds))


@dataclass(frozen=True, slots=True)
class IndexBounds(Bounds):
    """Bounds of index rows, with a filter of the requested ones: each index row costs a lookup."""

    rows: KeyFilter | None = None


@dataclass(frozen=True, slots=True)
class KeySchema:
    """The layout of row keys.

    Attributes
    ----------
    name : str
        A schema is pickled by its name.
    session : bool
        True: a key has a session's end and start. False: it has a window's start and the sequence
        number that distinguishes duplicates.
    prefix : int
        The first byte of a row's key: 0 if the times come first, 1 if the user's key does (the rows
        and the index of Kafka's time-ordered stores); -1 for no prefix.
    segment_time : callable
        ``segment_time(key)`` is the segment time (ms) of a row's key; FormatError for other bytes.
    split : callable
        ``split(key)`` is ``(the user's key, window start, sequence number)`` or ``(the user's key,
        session end, session start)``.
    layout : KeyLayout
        The places of the user's key and the times.
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
        """Return the rows of a range of keys and of segment times.

        Parameters
        ----------
        interval_ms : int
            The width of a segment.
        key_from, key_to : bytes or None
            The range of the user's keys; None for an open end.
        earliest, latest : int
            The range of segment times, ms; not negative, ``earliest <= latest``.
        latest_start : int
            The greatest start of a session, ms; not negative.
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
        """Return a half-open range of bytes that contains all requested rows, and perhaps other
        rows."""
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
        """The range if times come first: keys bound only rows of the first and the last time."""
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
    """Return the schema of this name.

    Raises
    ------
    SpecError
        No schema has this name.
    """
    return find_by_name("key schema", name, SCHEMAS)


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The layout of the row keys of a window or session store.

    Attributes
    ----------
    schema : KeySchema
        The schema of the rows; a fetch over all keys uses it.
    by_key : KeySchema
        The schema for a fetch of some keys: that of the index, if there is one.
    make : callable
        ``make(key, window start, number=0)`` or ``make(key, session start, session end)``: the key
        of a row.
    segment_time, split : callable
        As in :class:`KeySchema`, for rows and for index rows.
    pairs : RowPairs or None
        Makes index rows from rows; None without an index.
    hidden : int
        The number of milliseconds from the store's horizon on that reads skip: 1, but 0 for
        time-ordered windows, as in Kafka Streams.
    """

    schema: KeySchema
    by_key: KeySchema
    make: Callable[..., bytes]
    segment_time: Callable[[bytes], int]
    split: Callable[[bytes], tuple[bytes, int, int]]
    pairs: RowPairs | None = None
    hidden: int = 1


def rows_of(shape: str, *, time_ordered: bool = False, indexed: bool = False) -> RowKeys:
    """Return the key layout of a window or session store's rows.

    Parameters
    ----------
    shape : {"window", "session"}
    time_ordered : bool
        True if the times come first.
    indexed : bool
        True if there is an index by key.
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
