"""The open environments of this process. The handles of a directory share one environment.

LMDB's locks belong to the process, so it must not open an environment twice. A read-only handle
uses the open environment. A writing handle may reopen it in another mode. All read transactions
then continue with the same data.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from kstore_core.engine.handles import leak
from kstore_core.errors import StorageFullError
from kstore_lmdb.errors import foreign, forked
from kstore_lmdb.files import DATA, LOCKS, check_length, stored_format
from kstore_lmdb.forks import DATABASES
from kstore_lmdb.locks import DataLock
from kstore_lmdb.native import Mode, added_bytes, database_names, open_native
from kstore_lmdb.options import LMDBOptions
from kstore_lmdb.transaction import ReadTransaction

__all__ = ["Environment", "acquire", "release"]

Begun = TypeVar("Begun")


class Environment:
    """One open environment.

    Attributes
    ----------
    native : lmdb.Environment
    handles : dict
        The handles of its named databases, by name.
    guard : RLock
        The lock that is held while transactions begin or move.
    users : int
        The number of database handles that share it.
    """

    def __init__(self, path: Path, options: LMDBOptions, mode: Mode) -> None:
        self.path = path
        self.guard = threading.RLock()
        self.users = 0
        self.handles: dict[str, Any] = {}
        self._options = options
        self._mode = mode
        self._transactions: weakref.WeakSet[ReadTransaction] = weakref.WeakSet()
        self._format = stored_format(path)
        self._registered = mode.writable or os.access(path / LOCKS, os.W_OK)
        # LMDB runs without its lock file if that cannot be written: then no process may write.
        self._lock = None if self._registered else DataLock(path, path / DATA, shared=True)
        try:
            self.native = self._open()
        except BaseException:
            self._unlock()
            raise

    def transaction(self) -> ReadTransaction:
        """Return a read transaction of the last commit, with the present handles."""
        with self.guard:
            transaction = self._begun(lambda: ReadTransaction(self.native, self.handles))
            self._transactions.add(transaction)
            return transaction

    def look(self) -> ReadTransaction:
        """Update the handles, and return a read transaction of the last commit.

        The handles may be out of date, because another process created or dropped databases.
        """
        with self.guard:
            while True:
                native = self._begun(self.native.begin)
                number, names = native.id(), database_names(native)
                del native  # opening handles may need a transaction of its own
                if names == self.handles.keys():
                    transaction = self.transaction()
                    if transaction.read().id() == number:
                        return transaction
                else:
                    self._open_handles(names)

    def use(self, options: LMDBOptions, mode: Mode) -> None:
        """Reopen the environment if its mode or options are different."""
        enough = max(options.max_namespaces, len(self.handles))
        options = replace(options, max_namespaces=enough)
        if (options, mode) == (self._options, self._mode):
            return

        before = self._options, self._mode
        failure: Exception | None = None

        def change() -> None:
            nonlocal failure
            self.native.close()
            try:
                self._options, self._mode = options, mode
                self.native = self._open()
            except Exception as error:  # noqa: BLE001 - raised when the read transactions continue
                failure = error
                self._options, self._mode = before
                self.native = self._open()

        self._move(change)
        if failure is not None:
            raise failure

    def grow(self) -> None:
        """Enlarge the map, unless pages become free when dead readers are removed.

        Raises
        ------
        StorageFullError
            The process has no address space left.
        """
        if self.native.reader_check():
            return
        size = self.native.info()["map_size"]
        more = added_bytes(size)
        if more:
            with suppress(lmdb.MemoryError):
                self._move(partial(self.native.set_mapsize, size + more))
                return
        raise StorageFullError(
            f"lmdb database {self.path} has filled its map of {size} bytes, and the process has no "
            "address space left for a larger one. Nothing of the batch was written: allow more "
            "(ulimit -v) and commit again"
        )

    def lengthen_file(self, fd: int) -> None:
        """Extend the file to its full length, because LMDB does not write pages that were freed."""
        needed = (self.native.info()["last_pgno"] + 1) * self._page_bytes
        if os.fstat(fd).st_size < needed:
            os.ftruncate(fd, needed)

    def close(self) -> None:
        """Close the files."""
        self.native.close()
        self._unlock()

    def abandon(self) -> None:
        """Leak the native environment in a forked child, or the parent's readers would end."""
        leak(self.native)
        self.guard = threading.RLock()

    def _open(self) -> lmdb.Environment:
        native = open_native(
            self.path, self._options, self._format, mode=self._mode, lock=self._registered
        )
        try:
            check_length(self.path, native)
        except BaseException:
            native.close()
            raise
        self._page_bytes = native.stat()["psize"]
        return native

    def _move(self, change: Callable[[], object]) -> None:
        """Make a change that ends LMDB's transactions, and then continue each read transaction."""
        with self.guard, ExitStack() as stack:
            transactions = [t for t in self._transactions if t.ended is None and t.copy is None]
            for transaction in transactions:
                stack.enter_context(transaction.lock)
            newest = self.native.info()["last_txnid"]
            for transaction in transactions:
                if transaction.read().id() != newest:
                    transaction.copy_aside(self.native)
                transaction.generation += 1
            change()
            names, self.handles = set(self.handles), {}
            self._open_handles(names)
            for transaction in transactions:
                if transaction.copy is None:
                    transaction.begin(self.native, self.handles)

    def _begun(self, begin: Callable[[], Begun]) -> Begun:
        """Return ``begin()``. If necessary, adapt to a resized map or remove dead readers first."""
        while True:
            try:
                return begin()
            except lmdb.MapResizedError:
                self._move(lambda: self.native.set_mapsize(0))
            except lmdb.ReadersFullError:
                if not self.native.reader_check():
                    raise

    def _open_handles(self, names: set[str]) -> None:
        """Open handles of these databases, and close all other handles."""
        handles = {name: self.handles[name] for name in names & self.handles.keys()}
        missing = names - handles.keys()
        # Otherwise the binding would wait for another process's write with the GIL held.
        transaction = self.native.begin(write=True) if self._mode.writable else None
        with transaction or nullcontext(), suppress(lmdb.NotFoundError):
            for name in missing:
                handle = self.native.open_db(name.encode(), transaction, create=False)
                odd = [flag for flag, is_set in handle.flags().items() if is_set]
                if odd:
                    raise foreign(self.path, f"its database {name!r} has {', '.join(odd)}")
                handles[name] = handle
        self.handles = handles

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()


_environments: dict[tuple[int, int], Environment] = {}
_inherited: set[tuple[int, int]] = set()
_guard = threading.RLock()


def acquire(path: Path, options: LMDBOptions, mode: Mode) -> Environment:
    """Return the environment of a directory, and count one more user of it.

    For a writable environment the caller must have the lock of the directory.

    Raises
    ------
    ForkedHandleError
        A parent of this forked process had it open, so LMDB treats it as open here too.
    """
    key = _identity(path)
    if key in _inherited:
        reason = forked(path)
        raise reason()
    with _guard:
        environment = _environments.get(key)
        if environment is None:
            environment = _environments[key] = Environment(path, options, mode)
        elif mode.writable:
            environment.use(options, mode)
        environment.users += 1
        return environment


def release(environment: Environment) -> None:
    """Count one user less. If there is no user left, close the environment."""
    with _guard:
        environment.users -= 1
        if environment.users == 0:
            for key, known in list(_environments.items()):
                if known is environment:
                    del _environments[key]
            environment.close()


@DATABASES.after_fork
def _forget() -> None:
    """Drop the environments of the parent in a forked child."""
    global _guard
    _guard = threading.RLock()
    for environment in _environments.values():
        environment.abandon()
    _inherited.update(_environments)
    _environments.clear()


def _identity(path: Path) -> tuple[int, int]:
    status = (path / DATA).stat()
    return status.st_dev, status.st_ino
