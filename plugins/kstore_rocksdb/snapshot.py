"""Snapshots of a RocksDB database.

A snapshot of the library ``rocksdict`` is correct for lookups. But an iterator of the snapshot
returns the rows as of the creation of the iterator. So kstore uses a snapshot of the library only
for lookups. For scans, kstore uses an iterator that was created together with the snapshot.
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
    """An iterator that several scans use in turn. Each scan first moves it to a row."""

    def __init__(self, native: rocksdict.RdictIter) -> None:
        self.native: rocksdict.RdictIter | None = native
        self.lock = Lock()


class _SnapshotScan(Scan):
    """A scan that uses a shared iterator. The scan stores the range of its remaining rows."""

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
            if native is None:  # Another thread has ended the snapshot, perhaps before this scan.
                self._owner.check()
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
        """Do nothing, because the namespace releases the iterator."""


class SnapshotNamespace(Reader):
    """A column family as of a snapshot."""

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
        """Return the value of ``key``, or None if the key is missing."""
        try:
            return self._native[key]  # type: ignore[no-any-return, index]
        except Exception as error:  # noqa: BLE001
            if self._ended is not None:
                raise self._ended() from None
            if str(error) == _MISSING:
                return None
            reraise(error, f"read from {self.name!r}", self._path)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the order of ``keys``; None for a missing key."""
        return list(map(self.get, keys))

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Scan:
        """Return an iterator of chunks of the rows with ``lo <= key < hi``, as of the snapshot."""
        self.check()
        return _SnapshotScan(self, self._shared, lo, hi, reverse)

    def approximate_count(self) -> int:
        """Return RocksDB's estimate of the number of rows, as of the snapshot."""
        self.check()
        return self._count

    def end(self, reason: Reason, *, leaked: bool = False) -> None:
        """End all scans and lookups, and release the native objects.

        If ``leaked``, which is for a forked process, the native objects are never freed.
        """
        if leaked:
            leak(self._native)
            leak(self._shared.native)
        super().end(reason, leaked=leaked)
        self._native = None
        self._shared.native = None


class RocksDBSnapshot(Snapshot):
    """A snapshot of all namespaces of a database.

    The caller must create ``namespaces`` while no thread writes to the database.
    """

    def __init__(self, namespaces: dict[str, SnapshotNamespace], closed: Reason) -> None:
        self._namespaces = namespaces
        self._closed = closed
        self._ended: Reason | None = None

    def namespace(self, name: str) -> SnapshotNamespace:
        """Return the namespace with this name. Raise KeyError if the snapshot lacks it."""
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
        """End all namespaces. Later uses raise the error that ``reason`` returns."""
        self._ended = reason
        for namespace in self._namespaces.values():
            namespace.end(reason, leaked=leaked)
        self._namespaces = {}
