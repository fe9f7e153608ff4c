"""The class `ChildSegments`: the segments of a store, each in a separate database.

This is the layout of Kafka Streams. kstore uses it on engines with ``capabilities.children``. A
segment with a separate database is called a child. The open of a store only lists the names of the
databases. A database is opened at the first use of its rows. If too many databases are open, the
least recently used database is closed.
"""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import RLock
from typing import Any, cast

from kstore_core.engine import Database, Engine
from kstore_core.errors import EngineError, InconsistentStateError
from kstore_core.offsets.entries import read_record
from kstore_core.spec import StoreSpec
from kstore_core.system.directories import sync_directory
from kstore_core.system.interrupts import uninterrupted
from kstore_core.tables import OFFSETS, NamespaceTable, StoredTable, Write
from kstore_core.tables.options import OpenOptions
from kstore_core.tables.segments.child import Child
from kstore_core.tables.segments.fitting import Fitting, end_keys
from kstore_core.tables.segments.names import by_id, name_of, starts
from kstore_core.tables.segments.progress import commit_of, lost_rows
from kstore_core.tables.segments.segment import Segment
from kstore_core.tables.segments.sleeping import SleepingDatabase
from kstore_core.tables.staging import StagedNamespace, Staging, reserve
from kstore_core.tables.upgrade.decision import check_namespaces, open_table

__all__ = ["MAX_OPEN", "ChildSegments", "max_open"]

MAX_OPEN = 64
"""The maximum number of databases of a store that are open at the same time."""

_LEAST_OPEN = 4
_SHARE = 32


def max_open() -> int:
    """Return the maximum number of databases of a store that may be open at a time.

    More databases are open only while scans read them. The result is at most 1/32 of the process's
    limit of file descriptors, but at least 4. A database needs about eight file descriptors. So two
    stores normally use at most half of the file descriptors.
    """
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return MAX_OPEN
    return min(MAX_OPEN, max(_LEAST_OPEN, allowed // _SHARE))


_log = logging.getLogger("kstore_core")


class ChildSegments:
    """The segments of a store, each in a separate database.

    Parameters
    ----------
    engine : Engine
        An engine with ``capabilities.children``.
    root : Path
        The state directory.
    spec : StoreSpec
    staging : Staging
        The limit of the staged bytes of the state directory.
    options : OpenOptions

    Attributes
    ----------
    live : dict of int to Child
        The segments that have not expired, by id. A segment with staged rows may have no database
        yet.
    expired : list of Child
        The expired segments that no commit has dropped yet. Reads do not return their rows.
    first_live : int
        The lowest segment id that has not expired.
    rows : StagedNamespace
        An empty namespace that is closed together with the segments.
    key_overhead : int
        0, because the storage adds no bytes to a key.

    Raises
    ------
    InconsistentStateError
        The directory of the store contains a database that cannot be a segment of the store.
    """

    key_overhead = 0

    def __init__(
        self,
        engine: Engine,
        root: Path,
        spec: StoreSpec,
        staging: Staging,
        options: OpenOptions,
    ) -> None:
        assert spec.segment_interval_ms is not None
        self.path = root / spec.name
        self.marks = not (options.read_only or staging.transactional)
        self.loses_tails = options.loses_tails(engine)
        self.lock = RLock()
        self.read_only = options.read_only
        self.live: dict[int, Child] = {}
        self.expired: list[Child] = []
        self.first_live = 0
        self._engine = engine
        self._root = root
        self._spec = spec
        self._staging = staging
        self._options = options
        self._interval = spec.segment_interval_ms
        self._to_drop: list[Child] = []
        self._fitting: Fitting | None = None
        self._pid = os.getpid()
        nowhere = SleepingDatabase(_NoDatabase(), self.path)
        self.rows = StagedNamespace(staging, nowhere, spec.format.namespace, not options.read_only)
        self.find()

    def find(self) -> None:
        """Close all open segments, and list the segments in the directory again."""
        for child in self.live.values():
            child.close()
        found = starts(
            self._spec.name, self._engine.children(self._root, self._spec.name), self.path
        )
        names = by_id(self._spec.name, found, self.path, self._interval)
        self.live = {
            number: Child(number, name, self, exists=True) for number, name in names.items()
        }

    def _name(self, number: int) -> str:
        return name_of(self._spec.name, number * self._interval)

    def check_rows(self, *, vouched: bool) -> None:
        """Check that the rows of the segments fit the spec.

        The rows of open databases are checked now. The rows of any other database are checked when
        the database is opened.

        Parameters
        ----------
        vouched : bool
            True if the directory contains the store's spec. If False, the oldest segment is opened
            and checked too. A wrong segment interval then raises an error before segments expire.

        Raises
        ------
        InconsistentStateError
            The rows of a segment do not fit the spec.
        """
        starts = [number * self._interval for number in self.live]
        self._fitting = Fitting(self._spec, self.path, starts)
        for child in list(self.live.values()):
            if child.database is not None:
                self._check_rows(child, child.database)
        if self.live and not vouched:
            self.live[min(self.live)].wake()

    def _check_rows(self, child: Child, database: Database) -> None:
        if self._fitting is not None and not child.fits:
            self._fitting.check(end_keys(database), child.id)
            child.fits = True

    def rename(self) -> None:
        """Rename segments that have names of older versions of Kafka Streams.

        A read-only store is not changed.
        """
        for child in self.live.values():
            name = self._name(child.id)
            if child.name != name and not self.read_only:
                child.sleep()
                self._engine.rename_child(self._root, self._spec.name, child.name, name)
                child.name = name

    # The methods for a table.

    def segments(self) -> list[Segment]:
        """Return the live segments."""
        return list(self.live.values())

    def segment(self, number: int) -> Child:
        """Return the segment with this id. The first commit to a segment creates its database."""
        with self.lock:
            if number not in self.live:
                self.live[number] = Child(number, self._name(number), self, exists=False)
            return self.live[number]

    def write(self, groups: dict[Segment, list[Write]]) -> None:
        """Stage rows of several segments. If a row is refused, no row is staged."""
        parts = [(cast("StoredTable", segment.table), rows) for segment, rows in groups.items()]
        if len(parts) > 1:
            growths = reserve(
                [
                    (table.namespaces, {key: value for key, value, _ in rows})
                    for table, rows in parts
                ]
            )
            # Groups that reduce the staged size are written first. So no step needs more room than
            # all groups together.
            by_growth = sorted(zip(growths, parts, strict=True), key=itemgetter(0))
            parts = [part for _, part in by_growth]
        for table, rows in parts:
            table.write(rows)

    def expire(self, first_live: int) -> None:
        """Mark the segments before ``first_live`` as expired, and discard their staged rows."""
        with self.lock, uninterrupted():
            self.first_live = first_live
            for number in sorted(number for number in self.live if number < first_live):
                child = self.live.pop(number)
                for namespace in child.namespaces:
                    namespace.clear()
                self.expired.append(child)

    def approximate_count(self) -> int:
        """Return the approximate number of rows. This opens each database in turn."""
        return sum(child.open().approximate_count() for child in list(self.live.values()))

    # The methods for a segment.

    def open_database(self, child: Child) -> Database:
        """Open a segment's database. First close another database if too many are open."""
        self.rows.get_many([])  # Raise if the store is closed: nothing would close this database.
        self._make_room()
        database: Database | None = None
        try:
            database = self._engine.open_child(
                self._root,
                self._spec.name,
                child.name,
                durability=self._options.durability,
                read_only=self.read_only,
            )
            try:
                check_namespaces(database, self._spec.format, self._spec.family)
            except InconsistentStateError:
                self._check_spec(database)
                raise
            self._check_progress(child, database)
            self._check_rows(child, database)
        except BaseException:
            if database is not None:
                database.close()
            raise
        return database

    def _check_progress(self, child: Child, database: Database) -> None:
        """Raise an error if an older copy has replaced a database, so that commits are missing."""
        own = commit_of(database)
        if own < child.commit:
            raise lost_rows(
                self._spec.name,
                self.path,
                f"the last commit in {child.name} is number {own}, but the store has written the "
                f"commit {child.commit} to it",
            )
        child.commit = own

    def _check_spec(self, database: Database) -> None:
        """Raise an error if the spec in a segment's database does not fit the spec of the store."""
        if OFFSETS in database.namespaces():
            stored = read_record(database.namespace(OFFSETS)).spec
            if stored is not None:
                stored.check(self._spec, f"the store {self._spec.name!r} in {self._root}")

    def open_table(self, database: Database) -> StoredTable:
        """Return the table of the rows in a database."""
        writable = not self.read_only
        if isinstance(database, SleepingDatabase):
            return NamespaceTable(
                StagedNamespace(self._staging, database, self._spec.format.namespace, writable)
            )
        return open_table(
            database,
            self._staging,
            self._spec.format,
            writable=writable,
            migrate_on_read=self._options.migrate_on_read,
            shape=self._spec.family,
            store=self._spec.name,
        )

    def checkpoint(self, place: Callable[[Path], Path]) -> None:
        """Copy the database of each live segment. ``place`` returns the path of the copy.

        All copies are as of one point in time.
        """
        with self.lock:
            for child in list(self.live.values()):
                database = child.wake()
                if database is not None:
                    database.checkpoint(place(database.path))

    def _make_room(self, wanted: int = 1) -> None:
        """Close the least recently used databases until ``wanted`` more databases may be opened."""
        opened = [child for child in self._all() if child.database is not None]
        too_many = len(opened) + wanted - max_open()
        if too_many <= 0:
            return
        idle = [child for child in opened if not child.users]
        for child in sorted(idle, key=attrgetter("used")):
            too_many -= child.sleep()
            if not too_many:
                return

    def _all(self) -> Iterable[Child]:
        return [*self.live.values(), *self.expired, *self._to_drop]

    def sync(self, child: Child) -> None:
        """Sync a segment and its directories after the first write to the segment.

        The first write and the name of the database then survive a power cut. With the durability
        ``changelog`` the method syncs nothing: a crash loses the rows and their offsets together,
        so a restore from the changelog writes the lost rows again. At ``power`` nothing is synced
        either, because every write survives a power cut.
        """
        if self._options.durability == "process" and child.database is not None:
            child.database.sync()
            for folder in (self.path, self._root):
                sync_directory(folder)

    # Drops and close.

    @property
    def is_own(self) -> bool:
        """True if this process opened the segments. False in a forked child process."""
        return os.getpid() == self._pid

    def drop(self, children: Sequence[Child]) -> None:
        """Drop expired segments, except segments that a scan still reads.

        A later commit or the close drops the remaining segments. This call also closes databases if
        scans have opened more databases than the limit.
        """
        with self.lock:
            for child in children:
                self.expired.remove(child)
                self._to_drop.append(child)
            for child in [child for child in self._to_drop if not child.users]:
                self._to_drop.remove(child)
                child.dropped = True
                child.close()
                self._drop(child)
            self._make_room(0)

    def _drop(self, child: Child) -> None:
        if not child.exists:
            return
        try:
            self._engine.drop_child(self._root, self._spec.name, child.name)
        except (EngineError, OSError) as error:
            # The rows are committed, so do not raise an error. The first commit after the next open
            # of the store drops the segment.
            _log.warning(
                "The expired segment %s in %s could not be dropped: %s",
                child.name,
                self.path,
                error,
            )

    def close(self) -> None:
        """Close all databases. A second close does nothing."""
        if not self.is_own:
            self.lock = RLock()  # The owner of the old lock, a thread, is not in this process.
            self.marks = False
            self._to_drop = []
        with self.lock, uninterrupted(), ExitStack() as stack:
            for child in self._to_drop:
                stack.callback(self._drop, child)
            for child in self._all():
                stack.callback(child.close)
            stack.callback(self.rows.close)
            self._to_drop = []


class _NoDatabase:
    """The owner of a `SleepingDatabase` without a real database."""

    lock: AbstractContextManager[Any] = nullcontext()

    def wake(self, *, make: bool = False) -> None:
        return None
