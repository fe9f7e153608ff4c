"""An open database, with its namespaces, atomic batches, snapshots and checkpoints."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from kstore_core.engine import Database, Rows
from kstore_core.engine.handles import DEFAULT, check_droppable
from kstore_core.engine.paths import check_target
from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.system.interrupts import uninterrupted
from kstore_lmdb import environment
from kstore_lmdb.environment import Environment
from kstore_lmdb.errors import Reason, closed, dropped, foreign, forked, translating
from kstore_lmdb.files import place
from kstore_lmdb.forks import DATABASES
from kstore_lmdb.locks import DataLock
from kstore_lmdb.namespace import LMDBNamespace
from kstore_lmdb.snapshot import LMDBSnapshot
from kstore_lmdb.transaction import EMPTY, ReadTransaction
from kstore_lmdb.writing import apply, ascending

__all__ = ["LMDBDatabase"]

Result = TypeVar("Result")


class LMDBDatabase(Database):
    """A handle of an environment, which is its only writer or one of its readers.

    Lookups and scans share a read transaction. Each write replaces this transaction by a newer one.
    A read-only handle always uses the transaction that began at its open.

    Parameters
    ----------
    path : Path
        The environment's directory.
    shared : Environment
        The open environment. A close releases it.
    max_key_bytes : int
    lock : DataLock or None
        The lock of the writer, which a close releases. None for a read-only database.
    """

    def __init__(
        self, path: Path, shared: Environment, max_key_bytes: int, lock: DataLock | None
    ) -> None:
        self.path = path
        self.read_only = lock is None
        self._ended: Reason | None = None
        self._environment = shared
        self._max_key_bytes = max_key_bytes
        self._lock = lock
        self._writing = threading.RLock()
        self._namespaces: dict[str, LMDBNamespace] = {}
        self._transactions: weakref.WeakSet[ReadTransaction] = weakref.WeakSet()
        self._now: ReadTransaction | None = None
        try:
            with translating("open it", path):
                self._adopt(shared.look())
                if shared.handles and not {DEFAULT, EMPTY} <= shared.handles.keys():
                    raise foreign(path, f"its databases are {', '.join(sorted(shared.handles))}")
                if lock is not None:
                    shared.native.reader_check()
                    for name in {DEFAULT, EMPTY} - shared.handles.keys():
                        self._create(name)
        except BaseException:
            self._end(closed(path), ReadTransaction.end)
            raise
        DATABASES.add(self)

    def __repr__(self) -> str:
        kind = "read-only" if self.read_only else "read-write"
        return f"LMDBDatabase({str(self.path)!r}, {kind}{', closed' if self._ended else ''})"

    def __del__(self) -> None:
        if self._ended is None:
            try:
                warnings.warn(
                    f"{self!r} was never closed", ResourceWarning, stacklevel=2, source=self
                )
            finally:
                self.close()

    @property
    def guard(self) -> AbstractContextManager[Any]:
        """The lock that is held while a read transaction begins or is replaced."""
        return self._environment.guard

    def transaction(self) -> ReadTransaction:
        """Return the read transaction of the last commit, or of the open if this is read-only."""
        transaction = self._now
        if transaction is None:
            with self.guard, uninterrupted():
                self._check()
                transaction = self._now
                if transaction is None:
                    with translating("read", self.path):
                        transaction = self._adopt(self._environment.transaction())
        return transaction

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces."""
        self._check()
        return [name for name in self.transaction().handles if name != EMPTY]

    def namespace(self, name: str) -> LMDBNamespace:
        """Return the namespace of this name. A missing namespace is created if this is writable.

        Raises
        ------
        KeyError
            The namespace is missing and the database is read-only.
        SpecError
            LMDB does not allow the name.
        """
        self._check()
        with self._writing, uninterrupted():
            self._check()
            if name not in self._namespaces:
                if name == EMPTY or name not in self.transaction().handles:
                    if self.read_only:
                        raise KeyError(name)
                    self._check_name(name)
                    self._create(name)
                self._namespaces[name] = LMDBNamespace(name, self)
            return self._namespaces[name]

    def drop_namespace(self, name: str) -> None:
        """Remove a namespace and its rows. Open scans and snapshots still return the rows.

        Raises
        ------
        UnsupportedError
            The namespace is ``"default"``, or the database is read-only.
        KeyError
            No namespace has this name.
        """
        self._check(writing=True)
        check_droppable(name)
        with self._writing, uninterrupted():
            self._check()
            if name == EMPTY or name not in self._environment.handles:
                raise KeyError(name)
            native, key = self._environment.native, name.encode()

            def drop(transaction: lmdb.Transaction[bytes]) -> None:
                handles = self._environment.handles
                if EMPTY in handles:
                    transaction.delete(key, b"", handles[EMPTY])
                # Opened here, because an earlier attempt, in a full map, has closed it.
                transaction.drop(native.open_db(key, transaction, create=False))

            # The drop closes the handle, so no read transaction may begin with it meanwhile.
            with self.guard:
                try:
                    self._transact(f"drop namespace {name!r}", drop)
                finally:
                    # The handle is closed, even if the commit failed.
                    self._environment.handles.pop(name, None)
                    with translating("read", self.path):
                        self._adopt(self._environment.look())
            namespace = self._namespaces.pop(name, None)
            if namespace is not None:
                namespace.end(dropped(self.path, name))

    def write(self, batch: Mapping[str, Rows]) -> None:
        """Write to several existing namespaces atomically."""
        self._check(writing=True)
        with self._writing, uninterrupted():
            self._check()
            handles = self._environment.handles
            for name in batch:
                if name not in handles or name == EMPTY:
                    raise KeyError(name)
            self._transact(
                "write a batch",
                lambda transaction: apply(transaction, handles, self._max_key_bytes, batch),
            )

    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        """Bulk load strictly ascending rows in several transactions."""
        self._check(writing=True)
        self.namespace(namespace)
        count = 0
        for rows in ascending(chunks):
            self.write({namespace: rows})
            count += len(rows.keys)
        return count

    def snapshot(self) -> LMDBSnapshot:
        """Return a snapshot of all namespaces."""
        self._check()
        return LMDBSnapshot(self.path, self.guard, self.transaction())

    def checkpoint(self, target: Path) -> None:
        """Make a compact copy in ``target`` of the rows that this handle sees."""
        self._check()
        check_target(target)
        with self._writing, translating(f"make a checkpoint in {target}", self.path):
            self._check()
            target.parent.mkdir(parents=True, exist_ok=True)
            place(target, self._copy)

    def sync(self) -> None:
        """Make all written rows survive a power cut."""
        self._check()
        if not self.read_only:
            with self._writing, translating("sync", self.path):
                self._check()
                self._environment.native.sync(True)

    def close(self) -> None:
        """End scans and snapshots, then close the files."""
        DATABASES.notice_fork()
        with self._writing, uninterrupted():
            if self._ended is None:
                with self.guard:
                    self._end(closed(self.path), ReadTransaction.end)
                with translating("close", self.path):
                    environment.release(self._environment)
                    if self._lock is not None:
                        self._lock.release()

    def abandon(self) -> None:
        """End all handles in a forked child, without freeing native objects."""
        if self._ended is None:
            self._writing = threading.RLock()  # its holder is not in this process
            self._end(forked(self.path), ReadTransaction.abandon)

    def _check(self, *, writing: bool = False) -> None:
        DATABASES.notice_fork()
        if self._ended is not None:
            raise self._ended()
        if writing and self.read_only:
            raise UnsupportedError(
                f"lmdb database {self.path} was opened read-only; open it without read_only=True"
            )

    def _check_name(self, name: str) -> None:
        size = len(name.encode())
        if not 0 < size < self._max_key_bytes or "\0" in name or name == EMPTY:
            raise SpecError(f"lmdb database {self.path} cannot have a namespace named {name!r}")

    def _end(self, reason: Reason, end: Callable[[ReadTransaction, Reason], None]) -> None:
        self._ended = reason
        for namespace in self._namespaces.values():
            namespace.end(reason)
        for transaction in list(self._transactions):
            end(transaction, reason)
        self._namespaces = {}
        self._now = None

    def _adopt(self, transaction: ReadTransaction) -> ReadTransaction:
        """Make this the current read transaction."""
        self._transactions.add(transaction)
        self._now = transaction
        for namespace in self._namespaces.values():
            namespace.renew()
        return transaction

    def _create(self, name: str) -> None:
        def create(transaction: lmdb.Transaction[bytes]) -> Any:
            return self._environment.native.open_db(name.encode(), transaction)

        handle = self._transact(f"create namespace {name!r}", create)
        with self.guard:
            self._environment.handles[name] = handle

    def _transact(self, action: str, work: Callable[[lmdb.Transaction[bytes]], Result]) -> Result:
        """Do ``work`` in a write transaction. If the map is full, enlarge the map and repeat."""
        assert self._lock is not None
        assert self._lock.fd is not None
        native = self._environment.native
        with translating(action, self.path):
            while True:
                try:
                    with native.begin(write=True) as transaction:
                        result = work(transaction)
                except lmdb.MapFullError:
                    self._environment.grow()
                else:
                    break
            self._environment.lengthen_file(self._lock.fd)
        with self.guard:
            self._now = None
            for namespace in self._namespaces.values():
                namespace.renew()
        return result

    def _copy(self, directory: Path) -> None:
        transaction = self.transaction()
        with transaction.lock:
            (transaction.copy or self._environment.native).copy(
                str(directory), compact=True, txn=transaction.read()
            )
