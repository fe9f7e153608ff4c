"""The databases of the memory engine. Each namespace has its rows in an ordered map."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kstore_core.engine import Chunk, Database, Namespace, Rows, Snapshot
from kstore_core.engine.ordered import OrderedRows, OrderedScan, OrderedView
from kstore_core.errors import ForkedHandleError, StoreClosedError, UnsupportedError
from kstore_core.system.interrupts import uninterrupted

__all__ = ["MemoryDatabase", "StoredRows"]


class StoredRows:
    """The rows of a store, which remain when its database is closed.

    Attributes
    ----------
    namespaces : dict of str to OrderedRows
        The rows of each namespace.
    holder : callable
        A function that returns the database that is open for writing, or None.
    lock : RLock
        The lock that a thread must hold while it writes a batch or creates a view. So a view
        contains either all changes of a batch or none. Lookups acquire no lock.
    """

    def __init__(self) -> None:
        self.namespaces: dict[str, OrderedRows] = {"default": OrderedRows(for_lookups=True)}
        self.holder: Callable[[], MemoryDatabase | None] = lambda: None
        self.lock = threading.RLock()


class Life:
    """The lifetime of a database or snapshot, which ends at a close and in a forked process."""

    def __init__(self, path: Path) -> None:
        self.over = False
        self._path = path
        self._pid = os.getpid()

    def check(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedHandleError(
                f"{self._path} was opened by the process {self._pid}, and its fork {os.getpid()} "
                "cannot use it, because no other process would see the changes of the fork. Open "
                "the state directory in the process that uses it"
            )
        if self.over:
            raise StoreClosedError(
                f"{self._path} of the memory engine, or a snapshot of it, has been closed; open "
                "the store again"
            )

    def chunks(self, scan: OrderedScan) -> Iterator[Chunk]:
        """Yield the chunks of a scan. Raise an error if the lifetime has ended."""
        while True:
            self.check()
            chunk = scan.next_chunk()
            if chunk is None:
                return
            yield chunk


class MemoryNamespace(Namespace):
    """A namespace of an open database."""

    def __init__(self, name: str, rows: OrderedRows, life: Life, lock: threading.RLock) -> None:
        self.name = name
        self.rows = rows
        self._life = life
        self._lock = lock

    @property
    def fast_get(self) -> Callable[[bytes], bytes | None]:
        return self.rows.table.get

    def get(self, key: bytes) -> bytes | None:
        self._life.check()
        value: bytes | None = self.rows.table.get(key)
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._life.check()
        return list(map(self.rows.table.get, keys))

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Chunk]:
        self._life.check()
        with self._lock:
            view = self.rows.view()
        return self._life.chunks(view.scan(lo, hi, reverse))

    def start(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[Chunk | None, Iterator[Chunk] | None]:
        self._life.check()
        with self._lock:
            view = self.rows.view()
        return self._started(view.scan(lo, hi, reverse))

    def starts(
        self, ranges: Sequence[tuple[bytes, bytes]], *, reverse: bool = False
    ) -> list[tuple[Chunk | None, Iterator[Chunk] | None]]:
        self._life.check()
        with self._lock:
            view = self.rows.view()
        return [self._started(view.scan(lo, hi, reverse)) for lo, hi in ranges]

    def _started(self, scan: OrderedScan) -> tuple[Chunk | None, Iterator[Chunk] | None]:
        chunk = scan.next_chunk()
        return chunk, None if scan.done else self._life.chunks(scan)

    def approximate_count(self) -> int:
        self._life.check()
        return len(self.rows)


class MemoryView(Namespace):
    """A namespace as of a snapshot."""

    def __init__(self, name: str, view: OrderedView, life: Life) -> None:
        self.name = name
        self._view = view
        self._life = life

    def get(self, key: bytes) -> bytes | None:
        self._life.check()
        chunk = self._view.scan(key, key + b"\0").next_chunk()
        return None if chunk is None else chunk[1][0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Chunk]:
        self._life.check()
        return self._life.chunks(self._view.scan(lo, hi, reverse))

    def approximate_count(self) -> int:
        return sum(len(keys) for keys, _ in self.scan())


class MemorySnapshot(Snapshot):
    """A snapshot of all namespaces of a memory database."""

    def __init__(self, stored: StoredRows, path: Path) -> None:
        with stored.lock:
            # Copy the items first, because other threads add and drop namespaces without the lock.
            self._views = {name: rows.view() for name, rows in list(stored.namespaces.items())}
        self._life = Life(path)

    def namespace(self, name: str) -> Namespace:
        self._life.check()
        return MemoryView(name, self._views[name], self._life)

    def close(self) -> None:
        self._life.over = True
        self._views = {}


class MemoryDatabase(Database):
    """An open database of the memory engine.

    A write checks the whole batch before it changes a row, so it writes all rows or none.
    """

    def __init__(
        self, path: Path, stored: StoredRows, siblings: dict[Path, StoredRows], *, read_only: bool
    ) -> None:
        self.path = path
        self._stored = stored
        self._siblings = siblings
        self._read_only = read_only
        self._handles: dict[str, MemoryNamespace] = {}
        self._life = Life(path)
        self._snapshots: weakref.WeakSet[MemorySnapshot] = weakref.WeakSet()
        if not read_only:
            stored.holder = weakref.ref(self)

    def namespaces(self) -> list[str]:
        self._life.check()
        return list(self._stored.namespaces)

    def namespace(self, name: str) -> Namespace:
        self._life.check()
        if name not in self._handles:
            stored = self._stored
            if name not in stored.namespaces:
                if self._read_only:
                    raise KeyError(name)
                stored.namespaces[name] = OrderedRows(for_lookups=True)
            rows = stored.namespaces[name]
            self._handles[name] = MemoryNamespace(name, rows, self._life, stored.lock)
        return self._handles[name]

    def drop_namespace(self, name: str) -> None:
        self._check_writable()
        if name == "default":
            raise UnsupportedError(f"the namespace 'default' of {self.path} cannot be dropped")
        if self._stored.namespaces.pop(name, None) is None:
            raise KeyError(name)
        handle = self._handles.pop(name, None)
        if handle is not None:
            handle.rows = OrderedRows(for_lookups=True)

    def write(self, batch: Mapping[str, Rows]) -> None:
        self._check_writable()
        for name, rows in batch.items():
            if name not in self._stored.namespaces:
                raise KeyError(name)
            if len(rows.keys) != len(rows.values):
                raise ValueError(
                    f"the batch has {len(rows.keys)} keys but {len(rows.values)} values"
                )
            _check_bytes(self.path, rows.keys)
            _check_bytes(self.path, rows.values, bytes, type(None))
            for lo, hi in rows.deleted_ranges:
                _check_bytes(self.path, (lo,) if hi is None else (lo, hi))
        with self._stored.lock, uninterrupted():
            for name, rows in batch.items():
                _apply(rows, self._stored.namespaces[name])

    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        self._check_writable()
        self.namespace(namespace)
        target = self._stored.namespaces[namespace]
        last: bytes | None = None
        count = 0
        for keys, values in chunks:
            _check_bytes(self.path, keys)
            _check_bytes(self.path, values)
            for key in keys:
                if last is not None and key <= last:
                    raise ValueError(
                        f"keys must be strictly ascending, but {key!r} follows {last!r}"
                    )
                last = key
            target.put_rows(list(keys), list(values))
            count += len(keys)
        return count

    def snapshot(self) -> Snapshot:
        self._life.check()
        snapshot = MemorySnapshot(self._stored, self.path)
        self._snapshots.add(snapshot)
        return snapshot

    def checkpoint(self, target: Path) -> None:
        """Copy the database to the path ``target`` of the same engine object, in memory."""
        self._life.check()
        target = Path(target).absolute()
        if target in self._siblings:
            raise FileExistsError(f"{target} already contains a store")
        copy = StoredRows()
        with self._stored.lock:
            for name, rows in list(self._stored.namespaces.items()):
                copy.namespaces[name] = rows.copy()
        self._siblings[target] = copy

    def sync(self) -> None:
        """Do nothing, because rows in memory cannot survive the process."""
        self._life.check()

    def close(self) -> None:
        self._life.over = True
        for snapshot in list(self._snapshots):
            snapshot.close()
        if self._stored.holder() is self:
            self._stored.holder = lambda: None

    def _check_writable(self) -> None:
        self._life.check()
        if self._read_only:
            raise UnsupportedError(
                f"cannot write to {self.path}, because it was opened read-only; open the state "
                "directory without read_only=True"
            )


def _check_bytes(path: Path, values: Iterable[object], *types: type) -> None:
    wrong = set(map(type, values)).difference(types or (bytes,))
    if wrong:
        raise TypeError(f"rows of {path} must be bytes, not {wrong.pop().__name__}")


def _apply(rows: Rows, target: OrderedRows) -> None:
    for lo, hi in rows.deleted_ranges:
        for keys, _ in target.view().scan(lo, hi):
            for key in keys:
                target.remove(key)
    target.put_rows(list(rows.keys), list(rows.values))
