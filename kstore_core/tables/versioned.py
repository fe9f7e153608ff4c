"""The versioned table: a key's history in rows of one namespace (KIP-889).

The latest version of a key is one row, its older versions are rows by segment of time: a version
lies in the segment of its *valid-to*. Rows, order of writes and results are Kafka's
``RocksDBVersionedStore``; docs/compatibility.md lists the corrections.

The table does not refuse late versions: the typed edge asks the store's clock before it writes.
"""

from __future__ import annotations

import heapq
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from kstore_core.clock import StreamClock, segment_id
from kstore_core.codec import decode_latest, encode_latest, segment_rows
from kstore_core.errors import InconsistentStateError
from kstore_core.tables import Bounds, Table, Write
from kstore_core.types import LATEST, NOT_PUT

__all__ = ["LATEST_PREFIX", "Version", "VersionedTable", "within"]

LATEST_PREFIX = b"\xff" * 8
"""The first bytes of the keys of latest rows: segment -1."""

_ID = struct.Struct(">q")
_FIRST_ID = _ID.pack(0)
_MAX_TIME = 2**63 - 1


Version = tuple[bytes, int, int | None]
"""Value, timestamp (ms, inclusive) and valid-to (ms, exclusive; None for the latest version). A
bare tuple, because reads make one for each record."""


VersionChunk = tuple[list[bytes], list[Version]]
"""Keys and a version of each, parallel."""


class VersionedTable:
    """Versions of byte keys over a table of rows.

    Parameters
    ----------
    rows : Table
        The table of the physical rows.
    segment_interval_ms : int
        Width of a segment.
    clock : StreamClock
        The store's clock; segments before its horizon have expired.
    """

    def __init__(self, rows: Table, segment_interval_ms: int, clock: StreamClock) -> None:
        self.rows = rows
        self.segment_interval_ms = segment_interval_ms
        self.clock = clock
        self._prefixes: dict[int, bytes] = {}
        self._ids: list[int] = []  # replaced, never changed in place: other threads may read it
        self.find_segments()

    @property
    def segments(self) -> Sequence[int]:
        """The ids of the segments that may hold rows, ascending."""
        return tuple(self._ids)

    def find_segments(self) -> None:
        """List the segments by skipping from one to the next: a seek each."""
        ids: list[int] = []
        lo: bytes | None = None
        while (row := self.rows.first(lo, LATEST_PREFIX)) is not None:
            _check_has_segment(row[0])
            (found,) = _ID.unpack_from(row[0])
            if found < 0:
                break
            ids.append(found)
            if found == _MAX_TIME:
                break
            lo = _ID.pack(found + 1)
        self._ids = ids

    def _segment_of(self, timestamp: int) -> int:
        return segment_id(timestamp, self.segment_interval_ms)

    def _prefix(self, segment: int) -> bytes:
        prefix = self._prefixes.get(segment)
        if prefix is None:
            if len(self._prefixes) > 100_000:
                self._prefixes.clear()
            prefix = self._prefixes[segment] = _ID.pack(segment)
        return prefix

    def _live(self, segment: int) -> bool:
        """Make ``segment`` a live one, unless it has expired."""
        if segment < self._segment_of(self.clock.horizon):
            return False
        ids = self._ids
        if not ids or segment > ids[-1]:
            self._ids = [*ids, segment]
        else:
            at = bisect_left(ids, segment)
            if ids[at] != segment:
                self._ids = [*ids[:at], segment, *ids[at:]]
        return True

    def _expire(self) -> None:
        first_live = self._segment_of(self.clock.horizon)
        ids = self._ids
        if ids and ids[0] < first_live:
            self._ids = ids[bisect_left(ids, first_live) :]
            self.rows.delete_range(_FIRST_ID, _ID.pack(first_live))

    # Writes. A put collects its rows and writes them together, older rows first, so that the rows
    # below never contain only some of them.

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Put the version of ``key`` that begins at ``timestamp``; None is a tombstone.

        The clock must have accepted and observed the timestamp.

        Returns
        -------
        int
            The new version's valid-to in ms, LATEST (-1) or NOT_PUT (-2**63).
        """
        writes: list[Write] = []
        code = self._plan(key, value, timestamp, writes)
        self.rows.write(writes)
        self._expire()
        return code

    def _plan(self, key: bytes, value: bytes | None, timestamp: int, writes: list[Write]) -> int:
        newer = None
        latest_key = LATEST_PREFIX + key
        latest = self.rows.get(latest_key)
        if latest is not None:
            latest_ts, latest_value = decode_latest(latest)
            if timestamp >= latest_ts:
                if timestamp > latest_ts:
                    self._retire(key, latest_value, latest_ts, timestamp, writes)
                elif value is None:
                    self._bury(key, timestamp, writes)
                row = None if value is None else encode_latest(timestamp, value)
                writes.append(Write(latest_key, row))
                return LATEST
            newer = latest_ts
        return self._plan_in_history(key, value, timestamp, newer, writes)

    def _plan_in_history(
        self,
        key: bytes,
        value: bytes | None,
        timestamp: int,
        newer: int | None,
        writes: list[Write],
    ) -> int:
        ids = self._ids
        own = self._segment_of(timestamp)
        for segment in ids[bisect_left(ids, own) :][::-1]:
            row_key = self._prefix(segment) + key
            row = self.rows.get(row_key)
            if row is None:
                continue
            if segment_rows.next_timestamp(row) <= timestamp:
                break
            oldest = segment_rows.min_timestamp(row)
            if oldest <= timestamp:
                index, valid_from, valid_to, older = segment_rows.find(row, timestamp)
                if valid_from == timestamp:
                    row = segment_rows.update(row, timestamp, value, index)
                elif own != segment:
                    self._retire(key, older, valid_from, timestamp, writes)
                    row = segment_rows.update(row, timestamp, value, index)
                else:
                    row = segment_rows.insert(row, timestamp, value, index)
                writes.append(Write(row_key, row))
                return valid_to
            if oldest < self.clock.horizon:
                return NOT_PUT
            newer = oldest
        if newer is not None:
            return self._plan_before(key, value, timestamp, newer, writes)
        if value is None:
            return LATEST if self._bury(key, timestamp, writes) else NOT_PUT
        writes.append(Write(LATEST_PREFIX + key, encode_latest(timestamp, value)))
        return LATEST

    def _retire(
        self,
        key: bytes,
        value: bytes | None,
        valid_from: int,
        valid_to: int,
        writes: list[Write],
    ) -> None:
        """Add a version that has ended, as the newest in the segment of its valid-to."""
        segment = self._segment_of(valid_to)
        if not self._live(segment):
            return
        row_key = self._prefix(segment) + key
        row = self.rows.get(row_key)
        if row is None:
            row = segment_rows.new_row(value, valid_from, valid_to)
        else:
            row = segment_rows.insert_as_latest(row, valid_from, valid_to, value)
        writes.append(Write(row_key, row))

    def _bury(self, key: bytes, timestamp: int, writes: list[Write]) -> bool:
        """Record a tombstone without a newer version. Return False if its segment has expired."""
        segment = self._segment_of(timestamp)
        if not self._live(segment):
            return False
        row_key = self._prefix(segment) + key
        row = self.rows.get(row_key)
        if row is None:
            writes.append(Write(row_key, segment_rows.degenerate_row(timestamp)))
        else:
            end = segment_rows.next_timestamp(row)
            if end != timestamp:
                row = segment_rows.insert_as_latest(row, end, timestamp, None)
                writes.append(Write(row_key, row))
        return True

    def _plan_before(
        self, key: bytes, value: bytes | None, timestamp: int, newer: int, writes: list[Write]
    ) -> int:
        """Put a version whose valid-to is the timestamp of the next newer version."""
        segment = self._segment_of(newer)
        if not self._live(segment):
            return NOT_PUT
        row_key = self._prefix(segment) + key
        row = self.rows.get(row_key)
        if row is None:
            row = segment_rows.new_row(value, timestamp, newer)
        elif segment_rows.next_timestamp(row) <= timestamp:
            row = segment_rows.insert_as_latest(row, timestamp, newer, value)
        else:
            row = segment_rows.insert_as_earliest(row, timestamp, value)
        writes.append(Write(row_key, row))
        return newer

    def load(self, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]) -> int:
        """Bulk load physical rows, ascending, into an empty table, and return their number."""
        count = self.rows.load(chunks)
        self.find_segments()
        return count

    # Reads.

    def expired(self, timestamp: int) -> bool:
        """Return True if ``timestamp`` lies before the history."""
        return timestamp < self.clock.horizon

    def get(self, key: bytes) -> Version | None:
        """The latest version, unless it is a tombstone."""
        row = self.rows.get(LATEST_PREFIX + key)
        if row is None:
            return None
        timestamp, value = decode_latest(row)
        return value, timestamp, None

    def latest_of(self, row_key: bytes, row: bytes) -> Version | None:
        """The version of a physical row that is a key's latest; None for any other row."""
        if not row_key.startswith(LATEST_PREFIX):
            return None
        timestamp, value = decode_latest(row)
        return value, timestamp, None

    def get_as_of(self, key: bytes, as_of: int) -> Version | None:
        """The version that was valid at ``as_of`` (ms)."""
        get = self.rows.get
        latest = get(LATEST_PREFIX + key)
        if latest is not None:
            timestamp, value = decode_latest(latest)
            if timestamp <= as_of:
                return value, timestamp, None
        if as_of < self.clock.horizon:
            return None
        ids = self._ids
        for at in range(bisect_left(ids, self._segment_of(as_of)), len(ids)):
            row = get(self._prefix(ids[at]) + key)
            if row is not None and segment_rows.next_timestamp(row) > as_of:
                return _version_at(row, as_of) if segment_rows.min_timestamp(row) <= as_of else None
        return None

    def get_many(self, keys: list[bytes], as_of: int | None = None) -> list[Version | None]:
        """The versions of many keys, latest or as of one time (ms), in their order."""
        found: list[Version | None] = []
        for row in self.rows.get_many([LATEST_PREFIX + key for key in keys]):
            version = None
            if row is not None:
                timestamp, value = decode_latest(row)
                if as_of is None or timestamp <= as_of:
                    version = (value, timestamp, None)
            found.append(version)
        if as_of is None or self.expired(as_of):
            return found
        wanted = [index for index, version in enumerate(found) if version is None]
        ids = self._ids
        for segment in ids[bisect_left(ids, self._segment_of(as_of)) :]:
            if not wanted:
                break
            prefix = self._prefix(segment)
            rows = self.rows.get_many([prefix + keys[index] for index in wanted])
            later = []
            for index, row in zip(wanted, rows, strict=True):
                if row is None or segment_rows.next_timestamp(row) <= as_of:
                    later.append(index)
                elif segment_rows.min_timestamp(row) <= as_of:
                    found[index] = _version_at(row, as_of)
            wanted = later
        return found

    def history(
        self, key: bytes, from_ts: int | None, to_ts: int | None, *, reverse: bool
    ) -> list[Version]:
        """The versions valid at some time in ``[from_ts, to_ts]`` (ms, inclusive, None open).

        Oldest first; newest first with ``reverse``. Tombstones are left out.
        """
        lo = -(2**63) if from_ts is None else from_ts
        hi = _MAX_TIME if to_ts is None else to_ts
        versions: list[Version] = []
        latest = self.get(key)
        if latest is not None and latest[1] <= hi:
            versions.append(latest)
        if not self.expired(hi):
            for segment in reversed(self._ids):
                row = self.rows.get(self._prefix(segment) + key)
                if row is not None:
                    found = segment_rows.find_all(row, lo, hi)
                    # A version that another thread ends meanwhile moves to an older row, and is
                    # found there again.
                    while versions and found and found[0][0] >= versions[-1][1]:
                        del found[0]
                    versions += [
                        (value, valid_from, valid_to) for valid_from, valid_to, value in found
                    ]
        if not reverse:
            versions.reverse()
        return versions

    def scan_latest(self, bounds: Bounds) -> Iterator[VersionChunk]:
        """Keys with their latest versions, in key order, as of this call."""
        chunks = self.rows.scan(within(LATEST_PREFIX, bounds))
        return (
            (
                [key[8:] for key in keys],
                [(value, timestamp, None) for timestamp, value in map(decode_latest, rows)],
            )
            for keys, rows in chunks
        )

    def scan_as_of(self, bounds: Bounds, as_of: int) -> Iterator[VersionChunk]:
        """Keys with the versions valid at ``as_of`` (ms), in key order, as of this call."""
        segments: list[int] = []
        if not self.expired(as_of):
            first = self._segment_of(as_of)
            segments = [segment for segment in reversed(self._ids) if segment >= first]
        streams = [
            _stream(order, self.rows.scan(within(prefix, bounds)))
            for order, prefix in enumerate([LATEST_PREFIX, *map(self._prefix, segments)])
        ]
        return _pick(_merge(streams, reverse=bounds.reverse), as_of)


def _check_has_segment(key: bytes) -> None:
    if len(key) < len(LATEST_PREFIX):
        raise InconsistentStateError(
            f"the key {key!r} does not begin with a segment id, so these are not the rows of a "
            "versioned store; open it as the kind of store that it is"
        )


class _Row(NamedTuple):
    key: bytes
    order: int  # 0 is the latest row, then segments newest first
    row: bytes


def within(prefix: bytes, bounds: Bounds) -> Bounds:
    """Bounds of user keys as bounds of physical keys under one prefix."""
    end = None if prefix == LATEST_PREFIX else (_ID.unpack(prefix)[0] + 1).to_bytes(8, "big")
    return Bounds(
        prefix + (bounds.lo or b""),
        end if bounds.hi is None else prefix + bounds.hi,
        bounds.reverse,
    )


def _stream(order: int, chunks: Iterator[tuple[list[bytes], list[bytes]]]) -> Iterator[_Row]:
    for keys, rows in chunks:
        for key, row in zip(keys, rows, strict=True):
            yield _Row(key[8:], order, row)


def _merge(streams: list[Iterator[_Row]], *, reverse: bool) -> Iterator[list[_Row]]:
    """Rows grouped by key, in key order; within a group the newest row first."""
    by_key, by_order = attrgetter("key"), attrgetter("order")
    for _, group in groupby(heapq.merge(*streams, key=by_key, reverse=reverse), by_key):
        yield sorted(group, key=by_order)


def _pick(groups: Iterator[list[_Row]], as_of: int) -> Iterator[VersionChunk]:
    for group in groups:
        for key, order, row in group:
            if order == 0:
                timestamp, value = decode_latest(row)
                if timestamp <= as_of:
                    yield [key], [(value, timestamp, None)]
                    break
            elif segment_rows.next_timestamp(row) <= as_of:
                break
            elif segment_rows.min_timestamp(row) <= as_of:
                version = _version_at(row, as_of)
                if version is not None:
                    yield [key], [version]
                break


def _version_at(row: bytes, as_of: int) -> Version | None:
    _, valid_from, valid_to, value = segment_rows.find(row, as_of)
    return None if value is None else (value, valid_from, valid_to)
