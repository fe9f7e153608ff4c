"""A segment that has a database of its own, which need not be open.

What is staged in it stands on the database while that is open, and on a stand-in while it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
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
    """The state that the segments of a store share.

    Attributes
    ----------
    path : Path
        Directory of the segments.
    marks : bool
        Whether a database is marked as open from its first write to its close.
    loses_tails : bool
        Whether a crash may lose what was written and not synced.
    lock : context manager
        Held while databases are opened, closed and written to.
    """

    path: Path
    marks: bool
    loses_tails: bool

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    def open_database(self, child: Child) -> Database:
        """Open it, making room for it."""

    def open_table(self, database: Database) -> StoredTable:
        """The table of the rows that a database holds."""


class Child(Segment):
    """A segment with a database of its own.

    Attributes
    ----------
    name : str
        Of its database.
    exists : bool
        Whether there is a database; a new segment has none until it is written to.
    database : Database or None
        While it is open.
    unsynced : bool
        A crash may lose rows of it.
    commit : int
        The number of the last commit that wrote to it; 0 where there was none, or it is not known
        yet: a database that turns out to have less when it is opened has lost rows.
    sealed : bool
        Its database was closed cleanly since it was written to last.
    loaded : bool
        Rows were loaded past the staging since its last commit.
    fits : bool
        Its rows have been seen to be of its time.
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
        """The home's."""
        return self._home.lock

    @property
    def namespaces(self) -> tuple[StagedNamespace, ...]:
        """Those of the rows, once somebody has asked for them."""
        return () if self._stored is None else self._stored.namespaces

    def open(self) -> StoredTable:
        with self.lock:
            if self._stored is None:
                self._stored = self._home.open_table(self.wake() or self._asleep)
            return self._stored

    def wake(self, *, make: bool = False) -> Database | None:
        """The database, opened; None where there is none, and none is to be made."""
        with self.lock:
            if self._leaving:  # by an interrupt that came in between
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
        """Close the database for now; tells whether that was possible, for nobody uses it."""
        with self.lock, uninterrupted():
            database = self.database
            if database is None or self._leaving:
                self._leave()
                return True
            self._stand_on(self._asleep)
            try:
                if self.users:  # somebody has just come
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
        """Close a database on which nothing stands any more, or go on with that."""
        if self.database is not None:
            self.database.close()
            self.database = None
        self._leaving = False

    def write(self, batch: Mapping[str, Rows]) -> None:
        """Write to the namespaces, made where they are missing, at once: all of it or nothing."""
        with self.lock, uninterrupted():
            loses_tails = self._home.loses_tails
            if self._was_full and not loses_tails:
                self._open_again()
            database = self.wake(make=True)
            assert database is not None
            batch = dict(batch)
            if self._home.marks and not self._marked:
                batch[OFFSETS] = _marked(batch.get(OFFSETS))
            for name in batch:
                database.namespace(name)
            self.sealed = False
            try:
                database.write(batch)
            except StorageFullError as error:
                self._was_full = True
                if loses_tails:
                    raise full_without_log(database) from error
                raise
            self._marked = self._home.marks
            if loses_tails and batch.keys() != {OFFSETS}:
                self.unsynced = True

    def load(self, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]) -> int:
        self.write({})  # makes it and marks it
        self.unsynced = self._home.loses_tails
        self.loaded = True
        return super().load(chunks)

    def sync(self) -> None:
        """Have what was written survive a crash, where it would not."""
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
        """Close what a full disk may have left unable to write for good; it is opened when used."""
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
        f"{database.path}: no space left. At the level 'changelog' what was not flushed is in "
        "memory only, and may not be writable any more. Make room; if a commit fails even so, "
        "close the state directory and open it again: it is then as of the offsets that it tells, "
        "and what follows them is to be processed again"
    )


def _marked(entries: Rows | None) -> Rows:
    """Entries of the offsets namespace, and the mark of a database that is open."""
    rows = dict(zip(entries.keys, entries.values, strict=True)) if entries else {}
    return sorted_rows({**rows, STATUS: OPEN})
