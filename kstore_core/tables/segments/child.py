"""A segment that has a database of its own, which need not be open.

Its staged rows are based on the database if that is open, else on a stand-in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from kstore_core.engine import Database, Rows
from kstore_core.errors import EngineError, StorageFullError, StoreClosedError
from kstore_core.offsets.entries import CLOSED, COMMIT, OPEN, STATUS, sorted_rows
from kstore_core.system.interrupts import uninterrupted
from kstore_core.tables import OFFSETS, StoredTable
from kstore_core.tables.segments.segment import Segment
from kstore_core.tables.segments.sleeping import SleepingDatabase
from kstore_core.tables.staging import StagedNamespace

__all__ = ["Child", "ChildHome", "full_without_log"]


class ChildHome(Protocol):
    """The state that the segments of a store share.

    Attributes
    ----------
    path : Path
        Directory of the segments.
    marks : bool
        A database is marked as open from its first write to its close.
    loses_tails : bool
        A crash may lose rows that were written but not synced.
    lock : context manager
        Held while databases are opened, closed and written to.
    """

    path: Path
    marks: bool
    loses_tails: bool

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    def open_database(self, child: Child) -> Database:
        """Open the database, after closing others if too many are open."""

    def open_table(self, database: Database) -> StoredTable:
        """Return the table of the rows in a database."""


class Child(Segment):
    """A segment with a database of its own.

    Attributes
    ----------
    name : str
        The name of the database.
    exists : bool
        True if the database exists. A new segment has none until its first write.
    database : Database or None
        The database if it is open.
    unsynced : bool
        True if a crash may lose some of its rows.
    commit : int
        The number of the last commit that wrote to it; 0 if there was none or it is unknown. If the
        database has a lower number when it is opened, it has lost rows.
    sealed : bool
        True if the database was closed cleanly after its last write.
    loaded : bool
        True if rows were loaded without staging since its last commit.
    fits : bool
        True if the check of the times of its rows has passed.
    """

    def __init__(self, number: int, name: str, home: ChildHome, *, exists: bool) -> None:
        super().__init__(number)
        self.name = name
        self.exists = exists
        self.database: Database | None = None
        self.unsynced = False
        self.commit = 0
        self.sealed = True
        self.loaded = False
        self.fits = False
        self._home = home
        self._stored: StoredTable | None = None
        self._asleep = SleepingDatabase(self, home.path / name)
        self._marked = False
        self._was_full = False
        self._leaving = False

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock that all segments of the store share."""
        return self._home.lock

    @property
    def namespaces(self) -> tuple[StagedNamespace, ...]:
        """The namespaces of the rows; empty before the first use."""
        return () if self._stored is None else self._stored.namespaces

    def open(self) -> StoredTable:
        with self.lock:
            if self._stored is None:
                self._stored = self._home.open_table(self.wake() or self._asleep)
            return self._stored

    def wake(self, *, make: bool = False) -> Database | None:
        """Open the database and return it; None if it is missing and ``make`` is not set."""
        with self.lock:
            if self._leaving:  # an interrupt came in between
                self._leave()
            if self.database is None and (self.exists or make):
                with uninterrupted():
                    try:
                        self.database = self._home.open_database(self)
                    except FileNotFoundError:  # read-only, and the writer has dropped it
                        self.exists = False
                        return None
                    self.exists = True
                    self._stand_on(self.database)
            return self.database

    def sleep(self) -> bool:
        """Close the database until its next use. Return False if it is in use."""
        with self.lock, uninterrupted():
            database = self.database
            if database is None or self._leaving:
                self._leave()
                return True
            self._stand_on(self._asleep)
            try:
                if self.users:  # another thread has just begun to use it
                    return False
                self.sync()
                self._unmark(database)
                self._leaving = True
            finally:
                if not self._leaving:
                    self._stand_on(database)
            self._leave()
            self.sealed = True
            return True

    def _leave(self) -> None:
        """Close a database that no namespace is based on, or finish its interrupted close."""
        if self.database is not None:
            self.database.close()
            self.database = None
        self._leaving = False

    def write(self, batch: Mapping[str, Rows]) -> None:
        """Write to the namespaces at once, all of it or nothing. Missing ones are made."""
        with self.lock, uninterrupted():
            database = self._writable()
            batch = dict(batch)
            if self._home.marks and not self._marked:
                batch[OFFSETS] = _marked(batch.get(OFFSETS))
            for name in batch:
                database.namespace(name)
            with self._noticing_full(database):
                database.write(batch)
            self._marked = self._home.marks
            # A lost copy of the store's record does no harm; a lost entry of a commit does.
            is_copy = batch.keys() == {OFFSETS} and COMMIT not in batch[OFFSETS].keys
            if self._home.loses_tails and not is_copy:
                self.unsynced = True

    def write_large(self, name: str, rows: Rows) -> bool:
        """Write many rows, if the engine has a faster way; see :class:`Database`."""
        with self.lock, uninterrupted():
            if self._home.marks and not self._marked:
                self.write({})
            database = self._writable()
            database.namespace(name)
            with self._noticing_full(database):
                return database.write_large(name, rows)

    def _writable(self) -> Database:
        """Return the database, opened for a write."""
        if self._was_full and not self._home.loses_tails:
            self._open_again()
        database = self.wake(make=True)
        assert database is not None
        self.sealed = False
        return database

    @contextmanager
    def _noticing_full(self, database: Database) -> Iterator[None]:
        try:
            yield
        except StorageFullError as error:
            self._was_full = True
            if self._home.loses_tails:
                raise full_without_log(database) from error
            raise

    def load(self, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]) -> int:
        self.write({})  # makes the database and marks it
        self.unsynced = self._home.loses_tails
        self.loaded = True
        return super().load(chunks)

    def sync(self) -> None:
        """Sync the database, if a crash may lose rows of it."""
        if self.unsynced and self.database is not None:
            try:
                self.database.sync()
            except StorageFullError as error:
                raise full_without_log(self.database) from error
            self.unsynced = False

    def close(self) -> None:
        """Close the database and discard staged rows."""
        for namespace in self.namespaces:
            namespace.close()
        database = self.database
        if database is not None:
            try:
                # At the interpreter's exit the engine may have been closed already.
                with suppress(StoreClosedError):
                    self._unmark(database)
            finally:
                database.close()
                self.database = None

    def _open_again(self) -> None:
        """Close a database that may be unable to write after a full disk; its next use opens it."""
        database, self.database = self.database, None
        self._stand_on(self._asleep)
        if database is not None:
            with suppress(EngineError):
                database.close()
        self._marked = self._was_full = False

    def _unmark(self, database: Database) -> None:
        if self._marked and self._home.marks:
            database.write({OFFSETS: Rows([STATUS], [CLOSED])})
        self._marked = False

    def _stand_on(self, database: Database) -> None:
        if self.database is not None:
            self._asleep.names = self.database.namespaces()
        for namespace in self.namespaces:
            namespace.rebase(database)


def full_without_log(database: Database) -> StorageFullError:
    """Return the error of a full disk where a reopened database would lack unflushed rows.

    The database is not reopened, because its caller relies on those commits.
    """
    return StorageFullError(
        f"{database.path}: no space left. At the level 'changelog' the rows that were not flushed "
        "are in memory only, and may not be writable any more. Make room. If a commit still fails, "
        "close the state directory and open it again: it is then as of its offsets; process the "
        "input again from there"
    )


def _marked(entries: Rows | None) -> Rows:
    """Entries of the offsets namespace, with the mark of an open database."""
    rows = dict(zip(entries.keys, entries.values, strict=True)) if entries else {}
    return sorted_rows({**rows, STATUS: OPEN})
