"""Snapshots. A snapshot reads all namespaces of a database in one read transaction."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from weakref import WeakSet

from kstore_core.engine import Snapshot
from kstore_lmdb.errors import Reason, translating
from kstore_lmdb.forks import DATABASES
from kstore_lmdb.namespace import LMDBNamespace, Source
from kstore_lmdb.scan import Scan
from kstore_lmdb.transaction import EMPTY, ReadTransaction

__all__ = ["LMDBSnapshot"]


class SnapshotNamespace(LMDBNamespace):
    """A namespace of a snapshot. Its scans end when the snapshot is closed."""

    def __init__(self, name: str, source: Source) -> None:
        super().__init__(name, source)
        self._scans: WeakSet[Scan] = WeakSet()

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Scan:
        """Return an iterator of chunks of the rows with ``lo <= key < hi``, as of the snapshot."""
        scan = super().scan(lo, hi, reverse=reverse)
        self._scans.add(scan)
        return scan

    def end(self, reason: Reason) -> None:
        """End the namespace and its scans. Every later use raises the error of ``reason``.

        The caller must hold the lock of the transaction.
        """
        super().end(reason)
        for scan in self._scans:
            scan.end(reason)


class LMDBSnapshot(Snapshot):
    """A snapshot of all namespaces of a database."""

    def __init__(
        self, path: Path, guard: AbstractContextManager[Any], transaction: ReadTransaction
    ) -> None:
        self.path = path
        self.guard = guard
        self._transaction: ReadTransaction | None = transaction
        self._namespaces: dict[str, SnapshotNamespace] = {}

    def transaction(self) -> ReadTransaction:
        """Return the read transaction. Raise StoreClosedError if the snapshot was closed."""
        if self._transaction is None:
            reason = translating.closed(self.path)
            raise reason()
        return self._transaction

    def namespace(self, name: str) -> SnapshotNamespace:
        """Return the namespace with this name. Raise KeyError if the snapshot lacks it."""
        DATABASES.notice_fork()
        transaction = self.transaction()
        transaction.read()
        if name == EMPTY or name not in transaction.handles:
            raise KeyError(name)
        return self._namespaces.setdefault(name, SnapshotNamespace(name, self))

    def close(self) -> None:
        """Release the snapshot. A second close does nothing."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            with transaction.lock:
                for namespace in self._namespaces.values():
                    namespace.end(translating.closed(self.path))
            self._namespaces = {}
