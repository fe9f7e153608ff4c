"""The stores of one task: opened, restored, committed together, and closed."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kstore_core.changelog import Changelog
from kstore_core.changelog.protocol import check_changelog
from kstore_core.engine import Durability, Engine
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.layers import CacheBudget
from kstore_core.layers.current_record import CurrentRecord, OpenRecord
from kstore_core.metrics import Metric, MetricsRegistry
from kstore_core.offsets import Partition, StoreRecord, check_offsets, common_offsets
from kstore_core.offsets.notes import check_notes
from kstore_core.partition_time import partition_time
from kstore_core.restore.replay import RestoreListener
from kstore_core.restore.rows import Restored
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.state.changelogs import StateLogs
from kstore_core.state.contents import read_store, store_names
from kstore_core.state.context import context_of
from kstore_core.state.copying import write_checkpoint
from kstore_core.state.figures import StateFigures
from kstore_core.state.handle import Held, StateHandle
from kstore_core.state.migration_note import check_not_moving
from kstore_core.state.open_store import OpenStore
from kstore_core.state.snapshots import (
    CommittedEngine,
    CommittedSnapshots,
    LeasedView,
    SharedView,
    SnapshotLease,
)
from kstore_core.system.interrupts import uninterrupted
from kstore_core.system.lock import DirectoryLock
from kstore_core.tables.staging import Staging
from kstore_core.types import RecordContext, Time, to_millis

__all__ = ["StateDirectory"]

_FLUSHES = 1000
"""In how many rounds what listeners write comes to rest, or else never does."""


class StateDirectory(StateHandle):
    """The stores of one task, committed together. Made by :func:`~kstore_core.state.opening`.

    Attributes
    ----------
    path : Path
    engine : Engine
    read_only : bool
    metrics : MetricsRegistry
        Where its stores are measured, those that are.
    """

    def __init__(
        self,
        path: Path,
        engine: Engine,
        lock: Held | None,
        staging: Staging,
        cache: CacheBudget,
        *,
        metrics: MetricsRegistry,
        durability: Durability,
        read_only: bool,
        migrate_on_read: bool,
        partition_time: bool = False,
        logs: StateLogs | None = None,
        on_restore: RestoreListener | None = None,
    ) -> None:
        self.path = path
        self.read_only = read_only
        self.engine = engine
        self._lock = lock
        self._staging = staging
        staging.owner = weakref.ref(self)
        self._cache = cache
        self.metrics = metrics
        self._figures = StateFigures(path)
        self._is_measured = False
        self._durability = durability
        self._migrate_on_read = migrate_on_read
        self._honours_partition_time = partition_time
        self._logs = logs or StateLogs()
        self._on_restore = on_restore
        self._current_record = CurrentRecord(str(path))
        self._snapshots = CommittedSnapshots() if staging.transactional and not read_only else None
        self._views = SharedView()
        self._stores: dict[str, OpenStore] = {}
        self._opening = threading.RLock()
        self._turn = threading.RLock()
        self._is_open()

    def __repr__(self) -> str:
        state = "open" if self._open else "closed"
        return f"<StateDirectory {str(self.path)!r} on {self.engine.name}, {state}>"

    def _repr_html_(self) -> str:
        from kstore_core.display.reprs import state_html

        return state_html(self)

    @property
    def staged_bytes(self) -> int:
        """Keys and values that are written and not committed, in bytes.

        Each row takes some memory beside these: see docs/transactions.md.
        """
        return self._staging.staged_bytes

    def open(self, spec: StoreSpec, *, migrate_on_read: bool | None = None) -> Any:
        """Open a store, making it where it is missing; opening it again gives the same object.

        Who holds the store, or a scan of it, keeps the state directory from being collected.

        A store on disk of an older format is upgraded row by row: see docs/upgrade.md.

        Parameters
        ----------
        migrate_on_read : bool, optional
            Of this store; left out, the directory's.

        Returns
        -------
        KeyValueStore, VersionedStore, WindowStore or SessionStore

        Raises
        ------
        SpecError
            The store on disk is of another shape or segment interval, or the name is open already
            with another spec or another ``migrate_on_read``.
        FormatDowngradeError
            The store on disk is of a newer format.
        InconsistentStateError
            It is of another kind, or of two older formats at once; or a migration was interrupted
            while it was put in its place.
        StateError
            The directory is read-only and has no such store.
        """
        self._check()
        if not isinstance(spec, StoreSpec):
            raise TypeError(f"a store is opened by a StoreSpec of kstore_core.stores, not {spec!r}")
        with self._opening, uninterrupted():
            self._check()
            known = self._stores.get(spec.name)
            if known is None:
                known = self._open_first(
                    spec, self._migrate_on_read if migrate_on_read is None else migrate_on_read
                )
            face = known.face(self)
        if known.spec != spec:
            raise SpecError(
                f"the store {spec.name!r} is open already with another spec: {known.spec}"
            )
        if migrate_on_read not in (None, known.migrate_on_read):
            raise SpecError(
                f"the store {spec.name!r} is open already with "
                f"migrate_on_read={known.migrate_on_read}; close the state directory first"
            )
        return face

    def _open_first(self, spec: StoreSpec, migrate_on_read: bool) -> OpenStore:
        made = self._opened(spec, migrate_on_read)
        self._stores[spec.name] = made
        made.context.view = weakref.WeakMethod(self._lease_view)
        self._publish()
        if spec.metrics is not None and not self._is_measured:
            self.metrics.add(self)
            self._is_measured = True
        return made

    def _opened(self, spec: StoreSpec, migrate_on_read: bool) -> OpenStore:
        if self.engine.capabilities.persistent:
            check_not_moving(self.path, spec.name)
        log = self._logs.open(spec, self.path, self._durability, self._stores)
        try:
            return OpenStore(
                spec,
                self.path,
                self.engine,
                self._staging,
                self._current_record,
                self._cache,
                self._figures.tags,
                durability=self._durability,
                read_only=self.read_only,
                migrate_on_read=migrate_on_read,
                log=log,
                on_restore=self._on_restore,
            )
        except BaseException:
            self._logs.let_go(log)
            raise

    def restore(
        self,
        spec: StoreSpec,
        changelog: Changelog,
        *,
        listener: RestoreListener | None = None,
    ) -> Restored:
        """Restore a store from a changelog, from the offset on that it contains; and commit it.

        It is opened if it is not open. Batches are committed as they come, each with its offset, so
        a restore that is killed goes on where it was; so does one from a log that has grown.

        Parameters
        ----------
        spec : StoreSpec
        changelog : Changelog
            One partition of a topic: a `FileChangelog`, a `KafkaChangelog`, or one of your own.
        listener : callable, optional
            Told how far it is.

        Returns
        -------
        Restored
            What became of the records.

        Raises
        ------
        TypeError
            `changelog` is none.
        InconsistentStateError
            The log begins behind the offset, or ends before it; or it has lost all its records.
        StateError
            Something is written and not committed; the store has a changelog of its own; or it
            retains duplicates and was opened before.
        SpecError
            The log has records that such a store cannot hold, or its partition is negative.
        FormatError, CorruptionError
            The log is damaged; batches before that are restored.
        """
        self._check()
        check_changelog(changelog)
        if self.read_only:
            raise UnsupportedError(f"{self.path} was opened with read_only=True")
        if self.staged_bytes:
            raise StateError(
                f"{self.path} has {self.staged_bytes} bytes that are written and not committed; "
                "commit them before a restore, or close the state to discard them"
            )
        is_new = spec.name not in self._stores
        self.open(spec)
        with self._turn:
            self._check()
            restored = self._stores[spec.name].restore(changelog, listener, is_new=is_new)
        self._publish()
        return restored

    @property
    def opened(self) -> list[str]:
        """The names of the stores that are open, sorted: those that a commit commits."""
        self._check()
        return sorted(self._stores)

    def stores(self) -> list[str]:
        """The names of the stores that are open or on disk, sorted."""
        self._check()
        return store_names(self.engine, self.path, self._stores)

    def stored_spec(self, name: str) -> StoredSpec | None:
        """What the directory says of a store; None where Kafka wrote it, or it is new.

        Raises
        ------
        StateError
            There is no such store.
        """
        return self._record_of(name).spec

    def offsets(self, name: str | None = None) -> dict[Partition, int]:
        """The last committed offset of each partition whose effects are contained.

        Over all stores the least one: of a partition that any of them does not know there is none,
        but for their own changelogs. A store without offsets contains nothing, so beside it there
        are none at all. With a name, that store's.
        """
        self._check()
        if name is not None:
            return self._record_of(name).known_offsets
        return common_offsets({store: self._record_of(store) for store in self.stores()})

    def notes(self, name: str) -> dict[str, bytes]:
        """What was noted beside the rows of a store by its last commits.

        Raises
        ------
        StateError
            There is no such store.
        """
        return dict(self._record_of(name).notes)

    def _record_of(self, name: str) -> StoreRecord:
        self._check()
        if name in self._stores:
            return self._stores[name].context.record
        return read_store(self.engine, self.path, name, self._stores)

    @contextlib.contextmanager
    def record(
        self,
        *,
        topic: str | None = None,
        partition: int = -1,
        offset: int = -1,
        timestamp: Time | None = None,
        headers: Any = (),
    ) -> Iterator[RecordContext]:
        """The input record that the writes within this block come from.

        Positions move on to it. It lends its timestamp and headers to a put that gives none. Opened
        with ``partition_time=True``, stream time moves on to what its header tells: for its own
        writes, and then for those of the next.

        It is the record of the task or thread that entered the block, and of those that it starts
        there with a copy of its context, as asyncio does; others have their own, or none. What is
        started within the block is to end before it: a write that comes later is a StateError. See
        docs/asyncio.md.

        Raises
        ------
        TypeError, ValueError
            A topic that is not a str, a number that is not an int or does not fit, a naive time.
        FormatError
            The header is honoured, and is none.
        """
        self._check()
        context = context_of(topic, partition, offset, timestamp, headers)
        told = partition_time(context.headers) if self._honours_partition_time else None
        record = OpenRecord(self._current_record, context)
        try:
            record.enter()
            if told is not None:
                self.advance(told.read)
            yield context
            if told is not None:
                self.advance(told.sent)
        finally:
            record.leave()

    def advance(self, stream_time: Time) -> None:
        """Move stream time of all open stores on, as a record of this time would; never back.

        It is committed with the next commit.

        Raises
        ------
        TypeError, ValueError
            A time that is not one, or a naive one.
        UnsupportedError
            The state is read-only.
        """
        self._check()
        if self.read_only:
            raise UnsupportedError(f"{self.path} was opened with read_only=True")
        millis = to_millis(stream_time)
        for store in list(self._stores.values()):
            store.advance(millis)

    def flush(self) -> None:
        """Have caches write down what they hold, which tells their listeners; nothing is committed.

        Raises
        ------
        StateError
            Listeners answer each flush with another write, without an end.
        """
        self._check()
        for _ in range(_FLUSHES):
            flushed = [store.flush() for store in list(self._stores.values())]
            if not any(flushed):
                return
        raise StateError(
            f"after {_FLUSHES} flushes the listeners of {', '.join(self._stores)} still write to "
            "stores whose listeners write; let one of them end it"
        )

    def commit(
        self,
        offsets: Mapping[Partition, int | None] | None = None,
        *,
        notes: Mapping[str, bytes | None] | None = None,
    ) -> None:
        """Write all staged rows, and with them offsets, position, stream time and notes.

        Returns when they are as durable as asked. A store's rows and offsets are one atomic batch;
        of a store on disk in segments, each segment's rows are, and offsets follow all rows. Where
        one store fails, what it has staged stays staged, and a later commit writes it; after a full
        disk it opens the database anew, which ends the scans that are open.

        Parameters
        ----------
        offsets : mapping of (topic, partition) to int or None, optional
            The last offset that is now contained. Left out, those of before are kept; None for one
            forgets it; an empty mapping forgets all.
        notes : mapping of str to bytes or None, optional
            What a program keeps beside the rows of each store, by names of letters a to z and
            underscores; as safe as the offsets are. None removes a note, others stay.

        Raises
        ------
        TypeError, ValueError
            Offsets or notes that could not be read back; nothing was written.
        StorageFullError, EngineError
            The engine failed; nothing of that store's batch was written.
        """
        self._check()
        if self.read_only:
            raise UnsupportedError(f"{self.path} was opened with read_only=True")
        check_offsets(offsets)
        check_notes(notes)
        self.flush()
        with self._turn, uninterrupted():  # an interrupt comes when it is whole
            self._check()
            with self._noted():
                for store in list(self._stores.values()):
                    store.commit(offsets, notes)
            self._publish()

    def _noted(self) -> contextlib.AbstractContextManager[None]:
        """Notes for other processes a commit that is not one batch of one database."""
        stores = list(self._stores.values())
        one = len(stores) < 2 and all(store.database is not None for store in stores)
        if one or not isinstance(self._lock, DirectoryLock):
            return contextlib.nullcontext()
        return self._lock.change()

    def _publish(self) -> None:
        """Have those who read what is committed see the stores as they are now."""
        if self._snapshots is not None:
            stores = list(self._stores.items())
            self._snapshots.publish(
                {name: store.database for name, store in stores if store.database is not None}
            )
            self._views.forget()

    def committed(self) -> StateDirectory:
        """The directory as it was committed last, to be read by this or any other thread.

        Of a transactional state. It is read-only, shows one snapshot of all stores that are open,
        whatever is written and committed meanwhile, and waits for nobody; take another one to see
        more. A window or session store on an engine with a database for each segment is seen
        segment by segment as it was committed when each was first looked at. It ends with this
        state; close it, or use ``with``.

        Raises
        ------
        UnsupportedError
            The state is not transactional, or it is read-only, as the result of this is.
        """
        return self._view_of(self._newest())

    def _lease_view(self) -> LeasedView:
        """Lease the view of the last commit that single queries share."""
        return self._views.lease(self._newest(), self._view_of)

    def _newest(self) -> SnapshotLease:
        """Lease the snapshot of the last commit."""
        self._check()
        if self._snapshots is None:
            raise UnsupportedError(
                f"{self.path} was not opened for writing with transactional=True; without it rows "
                "may be written before they are committed, so there is no telling them apart. "
                "Open it so, or read with read_only=True"
            )
        return self._snapshots.lease()

    def _view_of(self, lease: SnapshotLease) -> StateDirectory:
        return StateDirectory(
            self.path,
            CommittedEngine(self.engine, lease.snapshot),
            lease,
            Staging(0),
            CacheBudget(0),
            metrics=MetricsRegistry(),  # or its figures would stand beside those of this one
            durability="process",
            read_only=True,
            migrate_on_read=False,
        )

    def checkpoint(self, dest: str | os.PathLike[str]) -> list[str]:
        """Copy all stores of the directory, as they are committed, to a new state directory.

        Other threads may go on writing; a commit waits until the copy is made. Of a directory that
        is open read-only the copy shows one commit of whoever writes it. What is staged is not in
        it; what was spilled before its commit is, without offsets, as after a crash.

        Parameters
        ----------
        dest : path-like
            It is there once it is whole.

        Returns
        -------
        list of str
            The names of the stores.

        Raises
        ------
        FileExistsError
            There is something at ``dest``.
        SpecError
            It lies in the state directory.
        UnsupportedError
            The engine keeps its rows in memory, or makes no copies.
        EngineError
            Another process commits faster than its databases can be opened.
        """
        self._check()
        with self._turn:
            self._check()
            opened = {} if self.read_only else dict(self._stores)
            place = Path(dest).absolute()
            place = place.parent.resolve() / place.name
            return write_checkpoint(self.engine, self.path, opened, place)

    def close(self) -> None:
        """Close the stores and let the next writer in; what is not committed is discarded.

        What another thread opens, commits or copies is waited for. Closing twice is fine, and
        finishes a close that was interrupted. In a fork of the process that opened it, it lets go
        of what was inherited and changes nothing.
        """
        self._open = False
        turn: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if os.getpid() == self._pid:  # else whoever has the turn is not in this process
            with self._opening:
                pass
            turn = self._turn
        with turn, uninterrupted(), contextlib.ExitStack() as stack:
            stack.callback(self.metrics.remove, self)
            if self._lock is not None:
                stack.callback(self._lock.release)
            for log in self._logs.opened:
                stack.callback(log.close)
            for store in self._stores.values():
                stack.callback(store.close)
            if self._snapshots is not None:
                stack.callback(self._snapshots.publish, {})
            stack.callback(self._views.forget)

    def measure(self) -> Iterable[Metric]:
        """What is measured of the stores, and of the directory as a whole; see docs/metrics.md."""
        return self._figures.read(list(self._stores.values()), self.staged_bytes)
