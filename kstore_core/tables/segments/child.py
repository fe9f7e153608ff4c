"""A child is a segment with a separate database. The database is opened only when it is needed.

While the database of a child is closed, a
:class:`~kstore_core.tables.segments.sleeping.SleepingDatabase` takes its place. The next use opens
the database again. In names, "wake" means to open the database, and "sleep" to close it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from kstore_core.engine import Database, Rows
from kstore_core.errors import EngineError, StorageFullError, StoreClosedError
from kstore_core.offsets.entries import CLOSED, OPEN, STATUS, sorted_rows
from kstore_core.system.interrupts import uninterrupted
from kstore_core.tables import OFFSETS, StoredTable
from kstore_core.tables.segments.segment import Segment
from kstore_core.tables.segments.sleeping import SleepingDatabase
from kstore_core.tables.staging import StagedNamespace

__all__ = ["Child", "ChildHome", "full_without_log"]


class ChildHome(Protocol):
    """The owner of a store's segments, with the state that the segments share.

    Attributes
    ----------
    path : Path
        The directory of the segments.
    marks : bool
        True if databases have a status. The first write to a database then also writes the status
        "open", and a close of the database writes the status "closed cleanly".
    loses_tails : bool
        True if a crash may lose rows that were written since the last sync.
    lock : context manager
        The lock that a thread must hold while it opens, closes or writes to a database.
    """

    path: Path
    marks: bool
    loses_tails: bool

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    def open_database(self, child: Child) -> Database:
        """Open the database of a segment. First close other databases if too many are open."""

    def open_table(self, database: Database) -> StoredTable:
        """Return the table of the rows in a database."""


class Child(Segment):
    """A segment that is stored in a separate database.

    Attributes
    ----------
    name : str
        The name of the database.
    exists : bool
        True if the database exists. The first write to a new segment creates the database.
    database : Database or None
        The database; None while it is closed.
    unsynced : bool
        True if a crash may lose some of the database's rows.
    commit : int
        The number of the last commit that wrote to the database; 0 if there was no commit or its
        number is unknown. If an open finds a lower number in the database, rows have been lost.
    sealed : bool
        True if the database was closed cleanly after its last write.
    loaded : bool
        True if rows were loaded without staging since the last commit to the database.
    fits : bool
        True if the times of the stored rows were checked and fit the spec.
    """

    def __init__(self, number: int, name: str, home: ChildHome, *, exists: bool) -> None:
        super().__init__(number)
        self.name = name
        self.exists = exists
        self.database: Database | None = None
        self.unsynced = False
        self.commit = 0
        self.dropped = False
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
        """The namespaces of the segment's table; empty before the first use of the segment."""
        return () if self._stored is None else self._stored.namespaces

    def open(self) -> StoredTable:
        with self.lock:
            if self._stored is None:
                self._stored = self._home.open_table(self.wake() or self._asleep)
            return self._stored

    def wake(self, *, make: bool = False) -> Database | None:
        """Open the database if it is closed, and return the database.

        If the database does not exist, create it if ``make`` is True; otherwise return None. After
        the segment was dropped, return None. A lookup that began before that may still call this.
        """
        with self.lock:
            if self.dropped:
                return None
            if self._leaving:  # An interrupt has stopped an earlier close. Finish the close first.
                self._leave()
            if self.database is None and (self.exists or make):
                with uninterrupted():
                    try:
                        self.database = self._home.open_database(self)
                    except FileNotFoundError:  # The writer process has dropped the segment.
                        self.exists = False
                        return None
                    self.exists = True
                    self._stand_on(self.database)
            return self.database

    def sleep(self) -> bool:
        """Close the database. The next use opens it again.

        If a call or scan uses the database, leave it open and return False.
        """
        with self.lock, uninterrupted():
            database = self.database
            if database is None or self._leaving:
                self._leave()
                return True
            self._stand_on(self._asleep)
            try:
                if self.users:  # Another thread has just begun to use the database.
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
        """Close the database. If an earlier close was interrupted, finish it."""
        if self.database is not None:
            self.database.close()
            self.database = None
        self._leaving = False

    def write(self, batch: Mapping[str, Rows]) -> None:
        """Write rows to several namespaces in one batch. Missing namespaces are created."""
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
            if self._home.loses_tails and batch.keys() != {OFFSETS}:
                self.unsynced = True

    def write_large(self, name: str, rows: Rows) -> bool:
        """Write many rows in a faster way than `write`, if the engine has one; see `Database`."""
        with self.lock, uninterrupted():
            if self._home.marks and not self._marked:
                self.write({})
            database = self._writable()
            database.namespace(name)
            with self._noticing_full(database):
                done = database.write_large(name, rows)
            if done and self._home.loses_tails:
                self.unsynced = True  # until the commit number of these rows is flushed, too
            return done

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
        self.write({})  # Create the database, and write its status "open".
        self.unsynced = self._home.loses_tails
        self.loaded = True
        return super().load(chunks)

    def sync(self) -> None:
        """Sync the database if a crash may lose some of its rows."""
        if self.unsynced and self.database is not None:
            try:
                self.database.sync()
            except StorageFullError as error:
                raise full_without_log(self.database) from error
            self.unsynced = False

    def close(self) -> None:
        """Close the database and discard the segment's staged rows."""
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
        """Close the database after the disk was full, because it may be unable to write.

        The next use opens the database again.
        """
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
    """Return the error for a full disk at the durability ``changelog``.

    At the other levels kstore closes the database and opens it again. At ``changelog`` the database
    would then lack the rows of commits that were not flushed, so kstore raises this error instead.
    """
    return StorageFullError(
        f"{database.path}: there is no space left on the disk. At the level 'changelog', rows that "
        "were not flushed are only in memory, and the database may be unable to write them. Make "
        "room on the disk. If a commit still fails, close the state directory and open it again. "
        "The store then has the rows and offsets of an earlier commit. Process the input again "
        "from these offsets"
    )


def _marked(entries: Rows | None) -> Rows:
    """Return entries of the offsets namespace with the status "open" added."""
    rows = dict(zip(entries.keys, entries.values, strict=True)) if entries else {}
    return sorted_rows({**rows, STATUS: OPEN})
