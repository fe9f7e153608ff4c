"""The rows of a window or session store in databases of the bare binding."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Database

from .workloads import open_lmdb

STORE = "bare"

Row = tuple[int, bytes, bytes]
"""A segment, a key in the form that the binding stores, and a value."""

Range = tuple[int, bytes, bytes]
"""A segment, and a half-open range of keys in the form that the binding stores."""

_prefix = struct.Struct(">q").pack


class BareSegments(ABC):
    """Segments by number, which are empty at first. The loops contain only the binding's calls."""

    def key(self, segment: int, key: bytes) -> bytes:
        """Return a key of the store in the form that the binding stores."""
        return _prefix(segment) + key

    @abstractmethod
    def put(self, rows: Iterable[Row]) -> None:
        """Write rows one by one, in one transaction if the binding has transactions."""

    def put_each(self, rows: Iterable[Row]) -> None:
        """Write rows one by one, each in its own transaction if the binding has transactions."""
        self.put(rows)

    @abstractmethod
    def settle(self) -> None:
        """Flush the written rows, and prepare to read them."""

    @abstractmethod
    def getter(self, segment: int) -> Callable[[bytes], bytes | None]:
        """Return the binding's own function for lookups in a segment."""

    @abstractmethod
    def scan(self, ranges: Iterable[Range]) -> int:
        """Read every key and value in the ranges, and return the number of rows."""

    @abstractmethod
    def close(self) -> None: ...


class RocksDictSegments(BareSegments):
    """Segments in ``rocksdict``, one database each, with the options of kstore's engine."""

    def __init__(self, root: Path, namespace: str) -> None:
        self.root = root
        self.namespace = namespace
        self.engine = make_engine("rocksdb")
        self.opened: dict[int, tuple[Database, Any]] = {}

    def native(self, segment: int) -> Any:
        if segment not in self.opened:
            database = self.engine.open_child(self.root, STORE, str(segment))
            rows: Any = database.namespace(self.namespace)
            self.opened[segment] = database, rows.native
        return self.opened[segment][1]

    def key(self, segment: int, key: bytes) -> bytes:
        return key

    def put(self, rows: Iterable[Row]) -> None:
        native = self.native
        puts = {segment: native(segment).put for segment, _, _ in rows}
        for segment, key, value in rows:
            puts[segment](key, value)

    def settle(self) -> None:
        segments = list(self.opened)
        self.close()
        for segment in segments:
            self.native(segment)

    def getter(self, segment: int) -> Callable[[bytes], bytes | None]:
        get: Callable[[bytes], bytes | None] = self.native(segment).get
        return get

    def scan(self, ranges: Iterable[Range]) -> int:
        count = 0
        opened = self.opened
        for segment, lo, hi in ranges:
            rows = opened[segment][1].iter()
            rows.seek(lo)
            key = rows.key()
            while key is not None and key < hi:
                rows.value()
                count += 1
                rows.next()
                key = rows.key()
        return count

    def close(self) -> None:
        while self.opened:
            self.opened.popitem()[1][0].close()


class LmdbSegments(BareSegments):
    """Segments in ``lmdb`` with the options of kstore's engine.

    All segments are in one database, and one transaction makes all reads.
    """

    def __init__(self, root: Path, namespace: str) -> None:
        self.environment, self.rows = open_lmdb(root, namespace)

    def put(self, rows: Iterable[Row]) -> None:
        with self.environment.begin(self.rows, write=True) as transaction:
            put = transaction.put
            for _, key, value in rows:
                put(key, value)

    def put_each(self, rows: Iterable[Row]) -> None:
        begin, handle = self.environment.begin, self.rows
        for _, key, value in rows:
            with begin(handle, write=True) as transaction:
                transaction.put(key, value)

    def settle(self) -> None:
        self.reader = self.environment.begin(self.rows)

    def getter(self, segment: int) -> Callable[[bytes], bytes | None]:
        get: Callable[[bytes], bytes | None] = self.reader.get
        return get

    def scan(self, ranges: Iterable[Range]) -> int:
        count = 0
        cursor = self.reader.cursor
        for _, lo, hi in ranges:
            rows = cursor()
            rows.set_range(lo)
            for key, _ in rows.iternext():
                if key >= hi:
                    break
                count += 1
        return count

    def close(self) -> None:
        self.environment.close()


class DictSegments(BareSegments):
    """Segments in a dict, with a sorted list of its keys for scans."""

    def __init__(self, root: Path, namespace: str) -> None:
        self.rows: dict[bytes, bytes] = {}

    def put(self, rows: Iterable[Row]) -> None:
        put = self.rows.__setitem__
        for _, key, value in rows:
            put(key, value)

    def settle(self) -> None:
        self.keys = sorted(self.rows)

    def getter(self, segment: int) -> Callable[[bytes], bytes | None]:
        return self.rows.get

    def scan(self, ranges: Iterable[Range]) -> int:
        count = 0
        keys, rows = self.keys, self.rows
        for _, lo, hi in ranges:
            for key in keys[bisect_left(keys, lo) : bisect_left(keys, hi)]:
                rows[key]
                count += 1
        return count

    def close(self) -> None:
        self.rows.clear()


BARE: dict[str, Callable[[Path, str], BareSegments]] = {
    "memory": DictSegments,
    "lmdb": LmdbSegments,
    "rocksdb": RocksDictSegments,
}
