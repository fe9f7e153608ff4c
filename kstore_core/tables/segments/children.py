"""Segments that have a database each, of which few are open at a time.

So they lie on engines that can have databases beside each other: Kafka's layout. Opening a store
lists names; a database is opened when somebody comes to its rows, and the one that was used longest
ago is closed for it.
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
"""How many databases of a store are open at a time at most, however many files may be open."""

_LEAST_OPEN = 4
_SHARE = 32


def max_open() -> int:
    """How many databases of a store are open at a time, unless more of them are read at once.

    One takes some eight file descriptors, so it is at most a 32nd of those that the process may
    have: two stores with all of theirs open leave half of them.
    """
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return MAX_OPEN
    return min(MAX_OPEN, max(_LEAST_OPEN, allowed // _SHARE))


_log = logging.getLogger("kstore_core")


class ChildSegments:
    """The segments of a store, in databases beside each other.

    Parameters
    ----------
    engine : Engine
        One with ``capabilities.children``.
    root : Path
        The state directory.
    spec : StoreSpec
    staging : Staging
    options : OpenOptions

    Attributes
    ----------
    live : dict of int to Child
        By id: those that exist, and new ones that rows may be staged in.
    expired : list of Child
        Those that are not to be seen any more, and that no commit has let go of.
    first_live : int
        The least id that has not expired.
    rows : StagedNamespace
        Closed with them; nothing is ever in it.
    key_overhead : int
        Keys are stored as they are.

    Raises
    ------
    InconsistentStateError
        There is what cannot be a segment of this store.
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
        nowhere = SleepingDatabase(_Nobody(), self.path)
        self.rows = StagedNamespace(staging, nowhere, spec.format.namespace, not options.read_only)
        self.find()

    def find(self) -> None:
        """Find the segments by their names; those that are open are closed first."""
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
        """Refuse rows of another store: now where a database is open, else when it is opened.

        Parameters
        ----------
        vouched : bool
            Whether the directory itself tells what the store is. If not, the oldest segment is
            looked at too: a wrong interval is to be refused before anything expires.

        Raises
        ------
        InconsistentStateError
            A row that this store cannot have there.
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
        """Give segments with names of older versions those of today, if this is not read-only."""
        for child in self.live.values():
            name = self._name(child.id)
            if child.name != name and not self.read_only:
                child.sleep()
                self._engine.rename_child(self._root, self._spec.name, child.name, name)
                child.name = name

    # What a table asks for.

    def segments(self) -> list[Segment]:
        """Those that exist."""
        return list(self.live.values())

    def segment(self, number: int) -> Child:
        """The segment of this id; a new one has no database until it is written to."""
        with self.lock:
            if number not in self.live:
                self.live[number] = Child(number, self._name(number), self, exists=False)
            return self.live[number]

    def write(self, groups: dict[Segment, list[Write]]) -> None:
        """Stage rows of several segments: all of them, or none where they are refused."""
        parts = [(cast("StoredTable", segment.table), rows) for segment, rows in groups.items()]
        if len(parts) > 1:
            growths = reserve(
                [
                    (table.namespaces, {key: value for key, value, _ in rows})
                    for table, rows in parts
                ]
            )
            # What shrinks goes first, so that nothing in between needs more room than all of it.
            by_growth = sorted(zip(growths, parts, strict=True), key=itemgetter(0))
            parts = [part for _, part in by_growth]
        for table, rows in parts:
            table.write(rows)

    def expire(self, first_live: int) -> None:
        """Put the segments before ``first_live`` aside, without what is staged in them."""
        with self.lock, uninterrupted():
            self.first_live = first_live
            for number in sorted(number for number in self.live if number < first_live):
                child = self.live.pop(number)
                for namespace in child.namespaces:
                    namespace.clear()
                self.expired.append(child)

    def approximate_count(self) -> int:
        """The approximate number of rows; opens one database after another."""
        return sum(child.open().approximate_count() for child in list(self.live.values()))

    # What a segment asks for.

    def open_database(self, child: Child) -> Database:
        """Open its database, closing another one where too many are open."""
        self.rows.get_many([])  # raises where all have been closed: nobody would close this one
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
        """Refuse a database that lacks commits: an older copy, put in the place of another."""
        own = commit_of(database)
        if own < child.commit:
            raise lost_rows(
                self._spec.name,
                self.path,
                f"{child.name} has commit {own} and should have {child.commit}",
            )
        child.commit = own

    def _check_spec(self, database: Database) -> None:
        """Refuse a segment whose own description tells that the store is of another shape."""
        if OFFSETS in database.namespaces():
            stored = read_record(database.namespace(OFFSETS)).spec
            if stored is not None:
                stored.check(self._spec, f"the store {self._spec.name!r} in {self._root}")

    def open_table(self, database: Database) -> StoredTable:
        """The table of the rows that a database holds."""
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
        """Copy the databases of the live segments, all as of one point in time."""
        with self.lock:
            for child in list(self.live.values()):
                database = child.wake()
                if database is not None:
                    database.checkpoint(place(database.path))

    def _make_room(self, wanted: int = 1) -> None:
        """Close what was used longest ago, so that so many more may be opened."""
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
        """Make what was written to a segment for the first time survive a power cut, by its name.

        Not at the level ``changelog``, where a crash takes the rows and the offsets together.
        """
        if self._options.durability == "process" and child.database is not None:
            child.database.sync()
            for folder in (self.path, self._root):
                sync_directory(folder)

    # The end of them.

    @property
    def is_own(self) -> bool:
        """Whether they were opened by this process, and not by one that it was forked from."""
        return os.getpid() == self._pid

    def drop(self, children: Sequence[Child]) -> None:
        """Drop what has expired; what a scan still reads, by the close at the latest.

        It ends a commit, so what scans kept open beyond their number is closed, too.
        """
        with self.lock:
            for child in children:
                self.expired.remove(child)
                self._to_drop.append(child)
            for child in [child for child in self._to_drop if not child.users]:
                self._to_drop.remove(child)
                child.close()
                self._drop(child)
            self._make_room(0)

    def _drop(self, child: Child) -> None:
        if not child.exists:
            return
        try:
            self._engine.drop_child(self._root, self._spec.name, child.name)
        except (EngineError, OSError) as error:
            # The commit before it was made. The commit after the next open tries again.
            _log.warning("The expired segment %s in %s stays: %s", child.name, self.path, error)

    def close(self) -> None:
        """Close all databases. A second close does nothing."""
        if not self.is_own:
            self.lock = RLock()  # whoever held it is not in this process
            self.marks = False
            self._to_drop = []
        with self.lock, uninterrupted(), ExitStack() as stack:
            for child in self._to_drop:
                stack.callback(self._drop, child)
            for child in self._all():
                stack.callback(child.close)
            stack.callback(self.rows.close)
            self._to_drop = []


class _Nobody:
    """Has no database, so that nothing is in it."""

    lock: AbstractContextManager[Any] = nullcontext()

    def wake(self, *, make: bool = False) -> None:
        return None
