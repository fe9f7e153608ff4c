"""The open LMDB environments of this process.

A process must not open an environment twice, because the locks of LMDB belong to the process. So
all handles of a directory in a process share one environment. When a handle for writing is opened,
the environment may be reopened in another mode. All read transactions then still show the same
data.
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
    """An open LMDB environment, which all database handles of a directory share.

    Attributes
    ----------
    native : lmdb.Environment
        The environment of the Python library ``lmdb``.
    handles : dict
        The handles of the environment's named databases, by name.
    guard : RLock
        The lock that a thread must hold while it begins or restarts a read transaction.
    users : int
        The number of database handles that share the environment.
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
        # A process that cannot write LMDB's lock file cannot register as a reader. Such a process
        # takes a shared lock on the data file, which keeps all writers away.
        self._lock = None if self._registered else DataLock(path, path / DATA, shared=True)
        try:
            self.native = self._open()
        except BaseException:
            self._unlock()
            raise

    def transaction(self) -> ReadTransaction:
        """Begin a read transaction that shows the last commit, and return the transaction."""
        with self.guard:
            transaction = self._begun(lambda: ReadTransaction(self.native, self.handles))
            self._transactions.add(transaction)
            return transaction

    def look(self) -> ReadTransaction:
        """Update ``handles``, and return a read transaction that shows the last commit.

        ``handles`` is out of date if another process has created or dropped a named database.
        """
        with self.guard:
            while True:
                native = self._begun(self.native.begin)
                number, names = native.id(), database_names(native)
                del native  # opening handles may need a separate transaction
                if names == self.handles.keys():
                    transaction = self.transaction()
                    if transaction.read().id() == number:
                        return transaction
                else:
                    self._open_handles(names)

    def use(self, options: LMDBOptions, mode: Mode) -> None:
        """Reopen the environment if its mode or options differ from the parameters."""
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
        """Make space in the map of the environment.

        First remove the reader slots of ended processes, because such slots prevent LMDB from
        using free pages again. If no process has left a slot, enlarge the map.

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
            "address space left for a larger map. Nothing of the batch was written. Allow the "
            "process more address space (ulimit -v), and commit again"
        )

    def lengthen_file(self, fd: int) -> None:
        """Extend the data file so that it has room for all pages.

        The file may be shorter, because LMDB does not write a page that one transaction both
        allocates and frees.
        """
        needed = (self.native.info()["last_pgno"] + 1) * self._page_bytes
        if os.fstat(fd).st_size < needed:
            os.ftruncate(fd, needed)

    def close(self) -> None:
        """Close the files of the environment, and release its lock."""
        self.native.close()
        self._unlock()

    def abandon(self) -> None:
        """Never free the native environment in a forked process.

        If the process freed the environment, the read transactions of its parent would end.
        """
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
        """Call ``change``, which ends LMDB's transactions, and restart each read transaction."""
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
        """Call ``begin``, and return the transaction that it begins.

        If the call fails, repair the cause and call ``begin`` again. If another process has resized
        the map, adapt to the new size. If no reader slot is free, remove the slots of ended
        processes.
        """
        while True:
            try:
                return begin()
            except lmdb.MapResizedError:
                self._move(lambda: self.native.set_mapsize(0))
            except lmdb.ReadersFullError:
                if not self.native.reader_check():
                    raise

    def _open_handles(self, names: set[str]) -> None:
        """Set ``handles`` to handles of the databases with these names."""
        handles = {name: self.handles[name] for name in names & self.handles.keys()}
        missing = names - handles.keys()
        # Without this write transaction, ``open_db`` would begin one. ``open_db`` would then hold
        # the GIL while it waits for the writer of another process.
        transaction = self.native.begin(write=True) if self._mode.writable else None
        with transaction or nullcontext(), suppress(lmdb.NotFoundError):
            for name in missing:
                handle = self.native.open_db(name.encode(), transaction, create=False)
                odd = [flag for flag, is_set in handle.flags().items() if is_set]
                if odd:
                    raise foreign(
                        self.path,
                        f"its database {name!r} has the flags {', '.join(odd)}, which kstore never "
                        "sets",
                    )
                handles[name] = handle
        self.handles = handles

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()


_environments: dict[tuple[int, int], Environment] = {}
_inherited: set[tuple[int, int]] = set()
_guard = threading.RLock()


def acquire(path: Path, options: LMDBOptions, mode: Mode) -> Environment:
    """Return the environment of a directory, and increase its number of users by 1.

    For a writable mode, the caller must hold the :class:`DataLock` of the directory.

    Raises
    ------
    ForkedHandleError
        This process was forked while its parent had the environment open.
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
    """Decrease the number of users by 1, and close an environment that has no more users."""
    with _guard:
        environment.users -= 1
        if environment.users == 0:
            for key, known in list(_environments.items()):
                if known is environment:
                    del _environments[key]
            environment.close()


@DATABASES.after_fork
def _forget() -> None:
    """Make the environments of the parent unusable in a forked process."""
    global _guard
    _guard = threading.RLock()
    for environment in _environments.values():
        environment.abandon()
    _inherited.update(_environments)
    _environments.clear()


def _identity(path: Path) -> tuple[int, int]:
    status = (path / DATA).stat()
    return status.st_dev, status.st_ino
