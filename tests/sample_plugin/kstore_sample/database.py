"""A database: rows in memory, in order, and the log that they come back from."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kstore_core.engine import Chunk, Database, Namespace, Rows, Snapshot
from kstore_core.engine.ordered import OrderedRows, OrderedView
from kstore_core.errors import ForkedHandleError, StoreClosedError, UnsupportedError
from kstore_sample import log

Check = Callable[[], None]


class Moment(Namespace):
    """A namespace as some view has it."""

    def __init__(self, name: str, view: Callable[[], OrderedView], check: Check) -> None:
        self.name = name
        self._view = view
        self._check = check

    def get(self, key: bytes) -> bytes | None:
        self._check()
        chunk = self._view().scan(key, key + b"\0").next_chunk()
        return None if chunk is None else chunk[1][0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check()
        return [self.get(key) for key in keys]

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Chunk]:
        self._check()
        scan = self._view().scan(lo, hi, reverse)

        def next_chunk() -> Chunk | None:
            self._check()
            return scan.next_chunk()

        return iter(next_chunk, None)

    def approximate_count(self) -> int:
        return sum(len(keys) for keys, _ in self.scan())


class Present(Moment):
    """A namespace as it is now; empty once it was dropped."""

    def __init__(self, name: str, rows: OrderedRows, check: Check) -> None:
        super().__init__(name, lambda: self._rows.view(), check)
        self._rows = rows

    def drop(self) -> None:
        self._rows = OrderedRows()

    def get(self, key: bytes) -> bytes | None:
        self._check()
        return self._rows.rows.get(key)

    def approximate_count(self) -> int:
        self._check()
        return len(self._rows)


class SampleSnapshot(Snapshot):
    """One view of every namespace."""

    def __init__(self, path: Path, views: dict[str, OrderedView], check: Check) -> None:
        self._path = path
        self._views = views
        self._database_check = check
        self._closed = False

    def namespace(self, name: str) -> Namespace:
        self._check()
        view = self._views[name]
        return Moment(name, lambda: view, self._check)

    def close(self) -> None:
        self._closed = True

    def _check(self) -> None:
        self._database_check()
        if self._closed:
            raise StoreClosedError(f"a snapshot of {self._path} has been closed")


class SampleDatabase(Database):
    """Namespaces of one store. A batch is in the log before it is in memory."""

    def __init__(self, path: Path, writing: log.Log | None) -> None:
        self.path = path
        self._log = writing
        self._rows = {"default": OrderedRows()}
        self._handles: dict[str, Present] = {}
        self._batches = 0
        self._lock = threading.Lock()
        self._closed = False
        self._pid = os.getpid()

    @classmethod
    def opened(cls, path: Path, entries: Iterable[Any], writing: log.Log | None) -> SampleDatabase:
        """A database with the rows of its log."""
        database = cls(path, writing)
        try:
            for entry in entries:
                database._apply(entry)
        except BaseException:
            database.close()
            raise
        return database

    def namespaces(self) -> list[str]:
        self._check()
        return list(self._rows)

    def namespace(self, name: str) -> Namespace:
        self._check()
        with self._lock:
            if name not in self._rows:
                if self._log is None:
                    raise KeyError(name)
                self._add({"make": name})
            if name not in self._handles:
                self._handles[name] = Present(name, self._rows[name], self._check)
            return self._handles[name]

    def drop_namespace(self, name: str) -> None:
        self._check_writable()
        if name == "default":
            raise UnsupportedError("the namespace 'default' cannot be dropped")
        if name not in self._rows:
            raise KeyError(name)
        with self._lock:
            self._add({"drop": name})

    def write(self, batch: Mapping[str, Rows]) -> None:
        self._check_writable()
        for name in batch:
            if name not in self._rows:
                raise KeyError(name)
        entry = {"write": {name: _to_json(rows) for name, rows in batch.items()}}
        with self._lock:
            self._add(entry)

    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        self._check_writable()
        self.namespace(namespace)
        last: bytes | None = None
        count = 0
        for keys, values in chunks:
            for key, value in zip(keys, values, strict=True):
                if last is not None and key <= last:
                    raise ValueError(f"keys are not ascending: {key!r} after {last!r}")
                _hex(value)
                last = key
            self.write({namespace: Rows(list(keys), list(values))})
            count += len(keys)
        return count

    def snapshot(self) -> Snapshot:
        self._check()
        with self._lock:
            views = {name: rows.view() for name, rows in self._rows.items()}
        return SampleSnapshot(self.path, views, self._check)

    def checkpoint(self, target: Path) -> None:
        self._check()
        target.mkdir(parents=True)
        with self._lock:
            log.write_new(target / log.FILE, self._entries())

    def sync(self) -> None:
        self._check()
        if self._log is not None:
            self._log.sync()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._log is not None:
            forked = os.getpid() != self._pid
            if not forked and self._batches > 100 + sum(map(len, self._rows.values())):
                self._log.replace(self._entries())
            self._log.close(forked=forked)

    def _add(self, entry: Any) -> None:
        assert self._log is not None
        self._log.append(entry)
        self._apply(entry)

    def _apply(self, entry: Any) -> None:
        self._batches += 1
        match entry:
            case {"make": name}:
                self._rows.setdefault(name, OrderedRows())
            case {"drop": name}:
                del self._rows[name]
                if handle := self._handles.pop(name, None):
                    handle.drop()
            case {"write": batch}:
                for name, rows in batch.items():
                    _write(self._rows[name], rows)

    def _entries(self) -> Iterator[Any]:
        """The fewest entries that make the rows of now."""
        for name, rows in self._rows.items():
            yield {"make": name}
            for keys, values in rows.view().scan():
                yield {"write": {name: _to_json(Rows(keys, list(values)))}}

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedHandleError(
                f"{self.path} was opened by process {self._pid} and is used in {os.getpid()}, a "
                "fork of it; open a state directory in the process that uses it"
            )
        if self._closed:
            raise StoreClosedError(f"{self.path} has been closed; open it again")

    def _check_writable(self) -> None:
        self._check()
        if self._log is None:
            raise UnsupportedError(f"{self.path} was opened read-only")


def _to_json(rows: Rows) -> dict[str, Any]:
    return {
        "deleted": [(_hex(lo), None if hi is None else _hex(hi)) for lo, hi in rows.deleted_ranges],
        "rows": [
            (_hex(key), None if value is None else _hex(value))
            for key, value in zip(rows.keys, rows.values, strict=True)
        ],
    }


def _hex(data: bytes) -> str:
    if type(data) is not bytes:
        raise TypeError(f"rows are bytes, not {type(data).__name__}")
    return data.hex()


def _write(target: OrderedRows, rows: dict[str, Any]) -> None:
    for lo, hi in rows["deleted"]:
        end = None if hi is None else bytes.fromhex(hi)
        for keys, _ in target.view().scan(bytes.fromhex(lo), end):
            for key in keys:
                target.remove(key)
    for key, value in rows["rows"]:
        if value is None:
            target.remove(bytes.fromhex(key))
        else:
            target.put(bytes.fromhex(key), bytes.fromhex(value))
