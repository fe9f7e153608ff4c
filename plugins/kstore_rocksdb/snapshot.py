"""Snapshots of a whole database.

A lookup in a snapshot of the binding is right, but an iterator of it returns the newest rows. So
the snapshot of a column family here has two parts. Lookups use the snapshot of the binding. Scans
share an iterator that was created at the same time, because an iterator returns the rows as of its
creation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from weakref import ref

import rocksdict

from kstore_core.engine import Snapshot
from kstore_core.engine.handles import leak
from kstore_rocksdb.errors import Reason, reraise
from kstore_rocksdb.forks import DATABASES
from kstore_rocksdb.reader import Reader
from kstore_rocksdb.scan import (
    SMALLEST_CHUNK,
    Owner,
    Scan,
    seek_before,
    take_backward,
    take_below,
    take_forward,
)

__all__ = ["RocksDBSnapshot", "SnapshotNamespace"]


_MISSING = "key not found"


class _SharedIterator:
    """An iterator that several scans use in turn. Each scan first moves it to its own position."""

    def __init__(self, native: rocksdict.RdictIter) -> None:
        self.native: rocksdict.RdictIter | None = native
        self.lock = Lock()


class _SnapshotScan(Scan):
    """A scan that uses a shared iterator. Each chunk advances the bounds of the scan."""

    __slots__ = ("_shared",)

    def __init__(
        self,
        owner: Owner,
        shared: _SharedIterator,
        lo: bytes | None,
        hi: bytes | None,
        reverse: bool,
    ) -> None:
        self._owner = owner
        self._shared = shared
        self._reason = None
        self._size = SMALLEST_CHUNK
        self._reverse = reverse
        self._hi = hi
        self._lo = lo or b""
        self._reading = hi is None or self._lo < hi
        owner.scans[id(self)] = ref(self)

    def _take(self, size: int, keys: list[bytes], values: list[bytes]) -> bool:
        with self._shared.lock:
            native = self._shared.native
            if native is None:  # another thread has ended the snapshot
                return False
            if self._reverse:
                seek_before(native, self._hi)
                more = take_backward(native, size, keys, values, self._lo)
                self._hi = keys[-1] if more else None
            else:
                native.seek(self._lo)
                if self._hi is None:
                    more = take_forward(native, size, keys, values)
                else:
                    more = take_below(native, size, keys, values, self._hi)
                self._lo = keys[-1] + b"\0" if more else b""
        return more

    def _free(self, *, leaked: bool) -> None:
        """Do nothing, because the iterator belongs to the namespace."""


class SnapshotNamespace(Reader):
    """A column family in a snapshot."""

    def __init__(
        self,
        name: str,
        path: Path,
        native: rocksdict.Snapshot,
        iterator: rocksdict.RdictIter,
        count: int,
    ) -> None:
        super().__init__(name, path)
        self._native: rocksdict.Snapshot | None = native
        self._shared = _SharedIterator(iterator)
        self._count = count

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        try:
            return self._native[key]  # type: ignore[no-any-return, index]
        except Exception as error:  # noqa: BLE001
            if self._ended is not None:
                raise self._ended() from None
            if str(error) == _MISSING:
                return None
            reraise(error, f"read from {self.name!r}", self._path)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys``, in their order."""
        return list(map(self.get, keys))

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Scan:
        """Chunks of the rows with ``lo <= key < hi``, as of the snapshot."""
        self.check()
        return _SnapshotScan(self, self._shared, lo, hi, reverse)

    def approximate_count(self) -> int:
        """Return the estimate as of the snapshot."""
        self.check()
        return self._count

    def end(self, reason: Reason, *, leaked: bool = False) -> None:
        """End scans and lookups, and drop the native objects."""
        if leaked:
            leak(self._native)
            leak(self._shared.native)
        super().end(reason, leaked=leaked)
        self._native = None
        self._shared.native = None


class RocksDBSnapshot(Snapshot):
    """The namespaces of a database at one time.

    The column families are captured one after the other, while no thread can write.
    """

    def __init__(self, namespaces: dict[str, SnapshotNamespace], closed: Reason) -> None:
        self._namespaces = namespaces
        self._closed = closed
        self._ended: Reason | None = None

    def namespace(self, name: str) -> SnapshotNamespace:
        """Return a namespace of the snapshot. Raise KeyError if the snapshot does not have it."""
        DATABASES.notice_fork()
        if self._ended is not None:
            raise self._ended()
        return self._namespaces[name]

    def close(self) -> None:
        """Release the snapshot. A second close does nothing."""
        DATABASES.notice_fork()
        if self._ended is None:
            self.end(self._closed)

    def end(self, reason: Reason, *, leaked: bool = False) -> None:
        """End all namespaces; every later use raises ``reason``."""
        self._ended = reason
        for namespace in self._namespaces.values():
            namespace.end(reason, leaked=leaked)
        self._namespaces = {}
