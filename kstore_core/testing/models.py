"""Simple models of databases and stores, which are compared with the real ones in tests."""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from kstore_core.clock import segment_id
from kstore_core.engine import Rows

__all__ = ["EngineModel", "KeyValueModel", "SessionModel", "VersionedModel", "WindowModel"]

MAX_TIME = 2**63 - 1


class EngineModel:
    """The rows of a database as a dict of dicts."""

    def __init__(self, names: Iterable[str] = ("default",)) -> None:
        self.namespaces: dict[str, dict[bytes, bytes]] = {name: {} for name in names}

    def copy(self) -> Self:
        """Return a deep copy."""
        return copy.deepcopy(self)

    def write(self, batch: Mapping[str, Rows]) -> None:
        """Delete the ranges, then write the rows. See :meth:`kstore_core.engine.Database.write`."""
        for name, rows in batch.items():
            stored = self.namespaces[name]
            for lo, hi in rows.deleted_ranges:
                for key in [key for key in stored if lo <= key and (hi is None or key < hi)]:
                    del stored[key]
            for key, value in zip(rows.keys, rows.values, strict=True):
                if value is None:
                    stored.pop(key, None)
                else:
                    stored[key] = value


@dataclass
class KeyValueModel:
    """The model of a key-value store, which is a dict."""

    rows: dict[bytes, Any] = field(default_factory=dict)

    def copy(self) -> Self:
        return copy.deepcopy(self)

    def put(self, key: bytes, value: Any) -> None:
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value

    def range(self, lo: bytes | None, hi: bytes | None, *, reverse: bool) -> list[Any]:
        return [
            (key, self.rows[key])
            for key in sorted(self.rows, reverse=reverse)
            if (lo is None or lo <= key) and (hi is None or key <= hi)
        ]

    def prefix(self, prefix: bytes) -> list[Any]:
        return [(key, self.rows[key]) for key in sorted(self.rows) if key.startswith(prefix)]


@dataclass
class VersionedModel:
    """The model of a versioned store, which keeps all versions and hides the expired versions."""

    retention: int
    interval: int
    versions: dict[bytes, dict[int, Any]] = field(default_factory=dict)
    observed: int = -1

    def copy(self) -> Self:
        return copy.deepcopy(self)

    @property
    def horizon(self) -> int:
        return self.observed - self.retention

    def put(self, key: bytes, value: Any, timestamp: int) -> int:
        if timestamp < self.horizon:
            return -(2**63)
        self.observed = max(self.observed, timestamp)
        self.versions.setdefault(key, {})[timestamp] = value
        valid_to = self._valid_to(key, timestamp)
        return -1 if valid_to is None else valid_to

    def _valid_to(self, key: bytes, timestamp: int) -> int | None:
        return min((other for other in self.versions[key] if other > timestamp), default=None)

    def _records(self, key: bytes) -> list[Any]:
        """Return ``(value, timestamp, valid_to)`` of each live version, oldest first."""
        first_live = segment_id(self.horizon, self.interval)
        records = []
        for timestamp, value in sorted(self.versions.get(key, {}).items()):
            valid_to = self._valid_to(key, timestamp)
            alive = valid_to is None or segment_id(valid_to, self.interval) >= first_live
            if value is not None and alive:
                records.append((value, timestamp, valid_to))
        return records

    def get(self, key: bytes, as_of: int | None = None) -> Any:
        records = self._records(key)
        latest = records[-1] if records and records[-1][2] is None else None
        if as_of is None:
            return latest
        if latest is not None and latest[1] <= as_of:
            return latest
        if as_of < self.horizon:
            return None
        for value, timestamp, valid_to in records:
            if timestamp <= as_of and (valid_to is None or as_of < valid_to):
                return value, timestamp, valid_to
        return None

    def history(self, key: bytes, lo: int | None, hi: int | None, *, reverse: bool) -> list[Any]:
        first = -(2**63) if lo is None else lo
        last = MAX_TIME if hi is None else hi
        found = [
            (value, timestamp, valid_to)
            for value, timestamp, valid_to in self._records(key)
            if timestamp <= last and (valid_to is None or valid_to > first)
        ]
        if last < self.horizon:
            found = [record for record in found if record[2] is None]
        return found[::-1] if reverse else found

    def range(self, lo: bytes | None, hi: bytes | None, as_of: int | None, *, reverse: bool) -> Any:
        return [
            (key, record)
            for key in sorted(self.versions, reverse=reverse)
            if (lo is None or lo <= key) and (hi is None or key <= hi)
            if (record := self.get(key, as_of)) is not None
        ]


@dataclass
class SegmentedModel:
    """The base class of the models of window and session stores.

    A model of a time-ordered store sorts rows by time. But if the store has an index, the rows of a
    range of keys are sorted by key.
    """

    retention: int
    interval: int
    observed: int = -1
    late: int = 0
    time_ordered: bool = False
    indexed: bool = False

    def copy(self) -> Self:
        return copy.deepcopy(self)

    def accepts(self, time: int) -> bool:
        """Advance the stream time, and return True if a write of this time is not late."""
        self.observed = max(self.observed, time)
        if self.is_live(time):
            return True
        self.late += 1
        return False

    def is_live(self, time: int) -> bool:
        first_live = segment_id(self.observed - self.retention, self.interval)
        return segment_id(time, self.interval) >= first_live

    def can_be_seen(self, time: int) -> bool:
        return time > self.observed - self.retention

    def comes_by_time(self, key_from: bytes | None, key_to: bytes | None) -> bool:
        everyone = key_from is None and key_to is None
        return self.time_ordered and (everyone or not self.indexed)

    def sorted(self, rows: Iterable[tuple[int, bytes, Any]], *, reverse: bool) -> list[Any]:
        """Return the visible items of tuples ``(time, row, item)``, in the order of the store."""
        seen = [row for row in rows if self.can_be_seen(row[0])]
        seen.sort(key=lambda row: (segment_id(row[0], self.interval), row[1]), reverse=reverse)
        return [item for _, _, item in seen]


@dataclass
class WindowModel(SegmentedModel):
    """The model of a window store, which has the numbered values of each key and window.

    If the store retains duplicates, each put gets a sequence number. The number is one more than
    the number of the previous put, or one more than the highest stored number of the key and window
    if this number is greater.
    """

    size: int = 10
    duplicates: bool = False
    values: dict[tuple[bytes, int], list[tuple[int, Any]]] = field(default_factory=dict)
    number: int = 0

    def can_be_seen(self, time: int) -> bool:
        return super().can_be_seen(time + self.time_ordered)

    def opened(self) -> None:
        """Reset the sequence number to 0. Call this method when the store is opened."""
        self.number = 0

    def put(self, key: bytes, value: Any, start: int) -> None:
        if self.duplicates:
            if value is not None:
                self.add(key, value, start)
        elif self.accepts(start):
            self.values.pop((key, start), None)
            if value is not None:
                self.values[key, start] = [(0, value)]

    def add(self, key: bytes, value: Any, start: int) -> None:
        stored = self.values.get((key, start), []) if self.is_live(start) else []
        self.number = max([self.number, *(number for number, _ in stored)]) + 1
        if self.accepts(start):
            self.values[key, start] = [*stored, (self.number, value)]

    def fetch_one(self, key: bytes, start: int) -> Any:
        stored = self.values.get((key, start))
        return stored[0][1] if stored and self.can_be_seen(start) else None

    def fetch(self, key: bytes, lo: int | None, hi: int | None, *, reverse: bool) -> list[Any]:
        found = self.range(key, key, lo, hi, reverse=reverse)
        return [(start, value) for (_, start, _), value in found]

    def range(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        lo: int | None,
        hi: int | None,
        *,
        reverse: bool,
    ) -> list[Any]:
        """Return the windows in a range as tuples ``((key, start, end), value)``."""

        def row(key: bytes, start: int, number: int) -> bytes:
            if by_time:
                return struct.pack(">q", start) + key + struct.pack(">i", number)
            return key + struct.pack(">qi", start, number)

        by_time = self.comes_by_time(key_from, key_to)
        rows = [
            (
                start,
                row(key, start, number),
                ((key, start, min(start + self.size, MAX_TIME)), value),
            )
            for (key, start), stored in self.values.items()
            for number, value in stored
            if (key_from is None or key_from <= key)
            and (key_to is None or key <= key_to)
            and (lo is None or lo <= start)
            and (hi is None or start <= hi)
        ]
        return self.sorted(rows, reverse=reverse)


@dataclass
class SessionModel(SegmentedModel):
    """The model of a session store, which has the aggregate of each key and session."""

    aggregates: dict[tuple[bytes, int, int], Any] = field(default_factory=dict)

    def put(self, key: bytes, start: int, end: int, aggregate: Any) -> None:
        if self.accepts(end):
            self.aggregates.pop((key, start, end), None)
            if aggregate is not None:
                self.aggregates[key, start, end] = aggregate

    def fetch_session(self, key: bytes, start: int, end: int) -> Any:
        return self.aggregates.get((key, start, end)) if self.can_be_seen(end) else None

    def find(
        self,
        key_from: bytes | None = None,
        key_to: bytes | None = None,
        *,
        earliest_end: int | None = None,
        latest_end: int | None = None,
        latest_start: int | None = None,
        reverse: bool = False,
    ) -> list[Any]:
        """Return the sessions in a range as tuples ``((key, start, end), aggregate)``."""

        def row(key: bytes, start: int, end: int) -> bytes:
            times = struct.pack(">qq", end, start)
            return times + key if by_time else key + times

        by_time = self.comes_by_time(key_from, key_to)
        rows = [
            (end, row(key, start, end), ((key, start, end), aggregate))
            for (key, start, end), aggregate in self.aggregates.items()
            if (key_from is None or key_from <= key)
            and (key_to is None or key <= key_to)
            and (earliest_end is None or earliest_end <= end)
            and (latest_end is None or end <= latest_end)
            and (latest_start is None or start <= latest_start)
        ]
        return self.sorted(rows, reverse=reverse)
