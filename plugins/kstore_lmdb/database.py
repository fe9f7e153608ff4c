"""An open LMDB database, which has namespaces, atomic batches, snapshots and checkpoints."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from kstore_core.engine import Rows
from kstore_core.engine.handles import DEFAULT, HandleDatabase, check_droppable
from kstore_core.engine.paths import check_target
from kstore_core.errors import SpecError
from kstore_core.system.interrupts import uninterrupted
from kstore_lmdb import environment
from kstore_lmdb.environment import Environment
from kstore_lmdb.errors import Reason, foreign, forked, translating
from kstore_lmdb.files import place
from kstore_lmdb.forks import DATABASES
from kstore_lmdb.locks import DataLock
from kstore_lmdb.namespace import LMDBNamespace
from kstore_lmdb.snapshot import LMDBSnapshot
from kstore_lmdb.transaction import EMPTY, ReadTransaction
from kstore_lmdb.writing import apply, ascending

__all__ = ["LMDBDatabase"]

Result = TypeVar("Result")


class LMDBDatabase(HandleDatabase):
    """A handle of an LMDB environment. A handle is read-only or the only writer of the environment.

    All lookups and scans of a handle use one read transaction. After each write, the handle begins
    a newer read transaction. A read-only handle always shows the state at the time of its open.

    Parameters
    ----------
    path : Path
        The directory of the environment.
    shared : Environment
        The open environment, which :meth:`close` releases.
    max_key_bytes : int
        The size of the longest key that the environment allows, in bytes.
    lock : DataLock or None
        The lock of the writer, which :meth:`close` releases; None for a read-only database.
    """

    engine = "lmdb"
    databases = DATABASES

    def __init__(
        self, path: Path, shared: Environment, max_key_bytes: int, lock: DataLock | None
    ) -> None:
        self.path = path
        self.read_only = lock is None
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
                    raise foreign(
                        path,
                        f"its named databases are {', '.join(sorted(shared.handles))}, but kstore "
                        f"always creates the named databases {DEFAULT} and {EMPTY}",
                    )
                if lock is not None:
                    shared.native.reader_check()
                    for name in {DEFAULT, EMPTY} - shared.handles.keys():
                        self._create(name)
        except BaseException:
            self._end(translating.closed(path), ReadTransaction.end)
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
        """The lock that a thread must hold while it begins or replaces a read transaction."""
        return self._environment.guard

    def transaction(self) -> ReadTransaction:
        """Return the current read transaction.

        This transaction shows the last commit or, in a read-only database, the state at the open.
        """
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
        """Return the names of all namespaces."""
        self._check()
        return [name for name in self.transaction().handles if name != EMPTY]

    def namespace(self, name: str) -> LMDBNamespace:
        """Return the namespace with this name. A writable database creates a missing namespace.

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
        """Remove a namespace and its rows. Open scans and snapshots still return the rows."""
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
                # Open the handle in each attempt, because an attempt that failed has closed it.
                transaction.drop(native.open_db(key, transaction, create=False))

            # The drop closes the handle, so no read transaction may use the handle meanwhile.
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
                namespace.end(translating.dropped(self.path, name))

    def write(self, batch: Mapping[str, Rows]) -> None:
        """Write a batch of changes to one or more existing namespaces atomically."""
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
        """Load rows with strictly ascending keys in several transactions. Return their number."""
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
        """Write to ``target`` a compact copy of the rows that this handle can read."""
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
        """End all scans and snapshots, then release the environment and the writer's lock.

        A second close does nothing.
        """
        DATABASES.notice_fork()
        with self._writing, uninterrupted():
            if self._ended is None:
                with self.guard:
                    self._end(translating.closed(self.path), ReadTransaction.end)
                with translating("close", self.path):
                    environment.release(self._environment)
                    if self._lock is not None:
                        self._lock.release()

    def abandon(self) -> None:
        """Make the database unusable in a forked process, without freeing a native object."""
        if self._ended is None:
            self._writing = threading.RLock()  # the parent process may hold the old lock
            self._end(forked(self.path), ReadTransaction.abandon)

    def _check_name(self, name: str) -> None:
        size = len(name.encode())
        if not 0 < size < self._max_key_bytes or "\0" in name or name == EMPTY:
            raise SpecError(
                f"lmdb database {self.path} cannot have a namespace named {name!r}: a name must "
                f"not be {EMPTY!r}, must not contain a zero byte, and must have from 1 to "
                f"{self._max_key_bytes - 1} bytes"
            )

    def _end(self, reason: Reason, end: Callable[[ReadTransaction, Reason], None]) -> None:
        self._ended = reason
        for namespace in self._namespaces.values():
            namespace.end(reason)
        for transaction in list(self._transactions):
            end(transaction, reason)
        self._namespaces = {}
        self._now = None

    def _adopt(self, transaction: ReadTransaction) -> ReadTransaction:
        """Make ``transaction`` the current read transaction, and return it."""
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
        """Run ``work`` in a write transaction. If the map is full, enlarge the map and retry."""
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
