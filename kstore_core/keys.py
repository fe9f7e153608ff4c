"""Key schemas: how rows of window and session stores are keyed, and which of them a fetch reads.

A schema is a constant; the layouts stand in docs/formats.md, Keys. Rows are kept by segment, which
a schema tells by one time of the row: a window's start, a session's end. That time is the *segment
time* here. Every end is inclusive, as in the public reads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

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
from kstore_core.errors import SpecError

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
"""The last time that there is, ms."""

_MAX_NUMBER = 2**31 - 1
_NO_PREFIX, _TIME_FIRST, _KEY_FIRST = -1, 0, 1

_window_times = struct.Struct(">qi").pack
_session_times = struct.Struct(">qq").pack
_time = struct.Struct(">q").pack


@dataclass(frozen=True, slots=True)
class Bounds:
    """The rows that a scan reads: ``lo <= key < hi``, None leaving an end open; and its direction.

    Attributes
    ----------
    segment_lo, segment_hi : int or None
        Of a segmented table only: the first and the last segment that is read, both inclusive.
        Within each of them ``lo`` and ``hi`` hold.
    """

    lo: bytes | None = None
    hi: bytes | None = None
    reverse: bool = False
    segment_lo: int | None = None
    segment_hi: int | None = None


class _Scanned(Protocol):
    """A table that rows are fetched from."""

    def scan(self, bounds: Bounds, /) -> Iterator[Chunk]: ...


class Fetch(NamedTuple):
    """The bounds of a fetch, and the filter of the rows within them."""

    bounds: Bounds
    rows: KeyFilter

    def scan(self, table: _Scanned) -> Iterator[Chunk]:
        """The chunks of exactly the rows that are asked for, as of this call."""
        return self.rows.chunks(table.scan(self.bounds))


@dataclass(frozen=True, slots=True)
class IndexBounds(Bounds):
    """Bounds of index rows, and which of those within are asked for: each costs a lookup."""

    rows: KeyFilter | None = None


@dataclass(frozen=True, slots=True)
class KeySchema:
    """The layout of row keys.

    Attributes
    ----------
    name : str
        A schema is pickled by it.
    session : bool
        The times are a session's end and start; otherwise a window's start and the sequence number
        that tells duplicates apart.
    prefix : int
        The first byte of a row: 0 where the times come first, 1 where the key does (the rows and
        the index of Kafka's time-ordered stores); -1 without one.
    segment_time : callable
        The segment time (ms) of a row's key, ``segment_time(key)``; bytes that are no such key are
        a FormatError.
    split : callable
        ``split(key)`` is ``(the user's key, window start, sequence number)`` or ``(the user's key,
        session end, session start)``.
    layout : KeyLayout
        Where the key and the times stand.
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
        """The rows of a range of keys and of segment times.

        Parameters
        ----------
        interval_ms : int
            Width of a segment.
        key_from, key_to : bytes or None
            The user's keys; None leaves an end open.
        earliest, latest : int
            Of the segment time, ms; not negative, and not the wrong way round.
        latest_start : int
            Of a session's start, ms; not negative.
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
        """The half-open range of bytes in which all such rows lie, and strangers too."""
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
        """The range where times come first: keys only bound the rows of the first and last time."""
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
    """The schema of this name.

    Raises
    ------
    SpecError
        There is none.
    """
    try:
        return SCHEMAS[name]
    except KeyError:
        raise SpecError(f"no key schema {name!r}; there are: {', '.join(SCHEMAS)}") from None


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The keys of a window or session store's rows, in one of the orders that there are.

    Attributes
    ----------
    schema : KeySchema
        Of the rows; by these a fetch over all keys goes.
    by_key : KeySchema
        By which a fetch of some keys goes: that of the index where there is one.
    make : callable
        ``make(key, window start, number=0)`` or ``make(key, session start, session end)``: the key
        of a row.
    segment_time, split : callable
        Those of a schema, for rows and index rows alike.
    pairs : RowPairs or None
        Makes index rows of rows; None where there is no index.
    hidden : int
        How many milliseconds from the horizon of the store's clock on are not seen: 1, but 0 for
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
    """The key layout of a window or session store's rows.

    Parameters
    ----------
    shape : {"window", "session"}
    time_ordered : bool
        Whether the times come first.
    indexed : bool
        Whether there is an index by key beside them.
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
