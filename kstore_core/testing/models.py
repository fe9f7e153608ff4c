"""Plain models of the stores: what an engineer would write if speed and disks did not matter."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from kstore_core.clock import segment_id
from kstore_core.engine import Rows

__all__ = ["EngineModel", "KeyValueModel", "VersionedModel"]

MAX_TIME = 2**63 - 1


class EngineModel:
    """A dict of dicts: what a database holds."""

    def __init__(self, names: Iterable[str] = ("default",)) -> None:
        self.namespaces: dict[str, dict[bytes, bytes]] = {name: {} for name in names}

    def copy(self) -> Self:
        """The same rows, apart from these."""
        return copy.deepcopy(self)

    def write(self, batch: Mapping[str, Rows]) -> None:
        """What :meth:`kstore_core.engine.Database.write` does: ranges first, then rows."""
        for name, rows in batch.items():
            held = self.namespaces[name]
            for lo, hi in rows.deleted_ranges:
                for key in [key for key in held if lo <= key and (hi is None or key < hi)]:
                    del held[key]
            for key, value in zip(rows.keys, rows.values, strict=True):
                if value is None:
                    held.pop(key, None)
                else:
                    held[key] = value


@dataclass
class KeyValueModel:
    """A dict."""

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
    """Every version of every key for ever, and a rule for which of them can still be seen."""

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
        """(value, timestamp, valid_to) of what can be seen, oldest first, without tombstones."""
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
