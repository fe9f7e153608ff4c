"""The stores of one task: opened, restored, committed together, and closed."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kstore_core.changelog import Changelog
from kstore_core.changelog.protocol import check_changelog
from kstore_core.engine import Engine
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.layers import CacheBudget
from kstore_core.layers.current_record import CurrentRecord, OpenRecord
from kstore_core.metrics import Metric, MetricsRegistry
from kstore_core.offsets.checks import check_offsets
from kstore_core.offsets.entries import Partition, StoreRecord, common_offsets
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
from kstore_core.tables.options import OpenOptions
from kstore_core.tables.staging import Staging
from kstore_core.types import RecordContext, Time, to_millis

__all__ = ["StateDirectory"]

_FLUSHES = 1000
"""The flushes after which listeners that write to stores count as an endless loop."""


class StateDirectory(StateHandle):
    """The stores of one task, committed together. Made by :func:`~kstore_core.state.opening`.

    Attributes
    ----------
    path : Path
    engine : Engine
    read_only : bool
    metrics : MetricsRegistry
        The registry of its stores' metrics.
    """

    def __init__(
        self,
        path: Path,
        engine: Engine,
        lock: Held | None,
        staging: Staging,
        cache: CacheBudget,
        *,
        options: OpenOptions,
        metrics: MetricsRegistry,
        partition_time: bool = False,
        logs: StateLogs | None = None,
        on_restore: RestoreListener | None = None,
    ) -> None:
        self.path = path
        self.read_only = options.read_only
        self.engine = engine
        self._lock = lock
        self._staging = staging
        staging.owner = weakref.ref(self)
        self._cache = cache
        self.metrics = metrics
        self._figures = StateFigures(path)
        self._is_measured = False
        self._options = options
        self._honours_partition_time = partition_time
        self._logs = logs or StateLogs()
        self._on_restore = on_restore
        self._current_record = CurrentRecord(str(path))
        self._snapshots = (
            CommittedSnapshots() if staging.transactional and not options.read_only else None
        )
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
        """Uncommitted keys and values, in bytes; see docs/transactions.md."""
        return self._staging.staged_bytes

    def open(self, spec: StoreSpec, *, migrate_on_read: bool | None = None) -> Any:
        """Open a store, or create it; opening it again gives the same object.

        A reference to the store, or to a scan of it, keeps the state directory open. A store of an
        older format is upgraded row by row: see docs/upgrade.md.

        Parameters
        ----------
        migrate_on_read : bool, optional
            For this store; the directory's option by default.

        Returns
        -------
        KeyValueStore, VersionedStore, WindowStore or SessionStore

        Raises
        ------
        SpecError
            The store on disk has another shape or segment interval, or the name is open already
            with another spec or another ``migrate_on_read``.
        FormatDowngradeError
            The store on disk has a newer format.
        InconsistentStateError
            The store is of another kind or of two older formats, or a migration was interrupted
            while it replaced the store.
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
                known = self._open_first(spec, migrate_on_read)
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

    def _open_first(self, spec: StoreSpec, migrate_on_read: bool | None) -> OpenStore:
        options = self._options
        if migrate_on_read is not None:
            options = replace(options, migrate_on_read=migrate_on_read)
        made = self._opened(spec, options)
        self._stores[spec.name] = made
        made.context.view = weakref.WeakMethod(self._lease_view)
        self._publish()
        if spec.metrics is not None and not self._is_measured:
            self.metrics.add(self)
            self._is_measured = True
        return made

    def _opened(self, spec: StoreSpec, options: OpenOptions) -> OpenStore:
        if self.engine.capabilities.persistent:
            check_not_moving(self.path, spec.name)
        log = self._logs.open(spec, self.path, self._options.durability, self._stores)
        try:
            return OpenStore(
                spec,
                self.path,
                self.engine,
                self._staging,
                self._current_record,
                self._cache,
                self._figures.tags,
                options,
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
        """Restore a store from a changelog, and commit it.

        A closed store is opened. The restore begins behind the offset that the store contains. Each
        batch is committed with its offset, so a restore that was killed resumes there.

        Parameters
        ----------
        spec : StoreSpec
        changelog : Changelog
            One partition of a topic: a `FileChangelog`, a `KafkaChangelog`, or one of your own.
        listener : callable, optional
            The callback for the progress.

        Returns
        -------
        Restored
            Counts of the records.

        Raises
        ------
        TypeError
            `changelog` is not a Changelog.
        InconsistentStateError
            The log begins behind the offset, ends before it, or has lost all its records.
        StateError
            Writes are not committed, the store has a changelog of its own, or it retains duplicates
            and was opened before.
        SpecError
            The log has records of another kind of store, or its partition is negative.
        FormatError, CorruptionError
            The log is damaged; batches before the damage are restored.
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
        """The names of the open stores, which a commit writes, sorted."""
        self._check()
        return sorted(self._stores)

    def stores(self) -> list[str]:
        """The names of the stores that are open or on disk, sorted."""
        self._check()
        return store_names(self.engine, self.path, self._stores)

    def stored_spec(self, name: str) -> StoredSpec | None:
        """The stored spec of a store; None if Kafka Streams wrote it or it is new.

        Raises
        ------
        StateError
            There is no such store.
        """
        return self._record_of(name).spec

    def offsets(self, name: str | None = None) -> dict[Partition, int]:
        """The last committed offset of each partition whose records are contained.

        With a name, that store's. Without, the least over all stores: a partition is left out if
        one store does not know it, unless it is a changelog. One store without offsets leaves none.
        """
        self._check()
        if name is not None:
            return self._record_of(name).known_offsets
        return common_offsets({store: self._record_of(store) for store in self.stores()})

    def notes(self, name: str) -> dict[str, bytes]:
        """The notes of a store's last commits.

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
        """Set the input record of the writes within this block.

        Its offset advances the position. Its timestamp and headers are the defaults of a put. In a
        state opened with ``partition_time=True`` its header advances stream time before its own
        writes and after them.

        The record belongs to the task or thread that entered the block, and to those started there
        with a copy of its context, as asyncio does. A write after the block ended is a StateError.
        See docs/asyncio.md.

        Raises
        ------
        TypeError, ValueError
            A topic that is not a str, a number that is not an int or does not fit, a naive time.
        FormatError
            The header ``partition-time`` is malformed.
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
        """Advance stream time of all open stores, to be committed with the next commit.

        An earlier time changes nothing.

        Raises
        ------
        TypeError, ValueError
            It is not a time, or a naive one.
        UnsupportedError
            The state is read-only.
        """
        self._check()
        if self.read_only:
            raise UnsupportedError(f"{self.path} was opened with read_only=True")
        millis = to_millis(stream_time)
        for store in list(self._stores.values()):
            store.commits.advance(millis)

    def flush(self) -> None:
        """Flush all caches, which calls their listeners; nothing is committed.

        Raises
        ------
        StateError
            Listeners answer every flush with another write.
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
        """Write all staged rows with offsets, position, stream time and notes.

        Returns when they are as durable as asked. A store's rows and offsets are one atomic batch.
        In a store whose segments have databases, each segment's rows are one, and offsets follow
        all rows. If a store fails, its rows stay staged, and a later commit writes them; after a
        full disk that commit reopens the database, which ends open scans.

        Parameters
        ----------
        offsets : mapping of (topic, partition) to int or None, optional
            The last offset that is now contained. Left out, known offsets stay; None for a
            partition forgets it; an empty mapping forgets all.
        notes : mapping of str to bytes or None, optional
            A program's data beside the rows of each store, as durable as the offsets. Names have
            letters a to z and underscores. None removes a note, others stay.

        Raises
        ------
        TypeError, ValueError
            Malformed offsets or notes; nothing was written.
        StorageFullError, EngineError
            The engine failed; that store's batch was not written.
        """
        self._check()
        if self.read_only:
            raise UnsupportedError(f"{self.path} was opened with read_only=True")
        check_offsets(offsets)
        check_notes(notes)
        self.flush()
        with self._turn, uninterrupted():  # an interrupt waits for the commit's end
            self._check()
            with self._noted():
                for store in list(self._stores.values()):
                    store.commit(offsets, notes)
            self._publish()

    def _noted(self) -> contextlib.AbstractContextManager[None]:
        """Mark for other processes a commit that is not one batch of one database."""
        stores = list(self._stores.values())
        one = len(stores) < 2 and all(store.database is not None for store in stores)
        if one or not isinstance(self._lock, DirectoryLock):
            return contextlib.nullcontext()
        return self._lock.change()

    def _publish(self) -> None:
        """Publish the committed state of the stores to readers."""
        if self._snapshots is not None:
            stores = list(self._stores.items())
            self._snapshots.publish(
                {name: store.database for name, store in stores if store.database is not None}
            )
            self._views.forget()

    def committed(self) -> StateDirectory:
        """A read-only view of the last commit of a transactional state, for any thread.

        The view shows one snapshot of all open stores and never waits for the writer; take another
        one to see later commits. A segment with a database of its own is seen as it was committed
        when the view first read it. The view ends with this state; close it, or use ``with``.

        Raises
        ------
        UnsupportedError
            The state is not transactional, or it is read-only, as a view is.
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
            metrics=MetricsRegistry(),  # keeps its metrics out of this directory's
            options=OpenOptions(read_only=True, migrate_on_read=False),
        )

    def checkpoint(self, dest: str | os.PathLike[str]) -> list[str]:
        """Copy the committed state of all stores to a new state directory.

        Other threads may write meanwhile; a commit waits for the copy. The copy of a read-only
        directory shows one commit of its writer. Staged rows are left out. Rows that were spilled
        before their commit are included without offsets, as after a crash.

        Parameters
        ----------
        dest : path-like
            A new directory, which appears once it is complete.

        Returns
        -------
        list of str
            The names of the stores.

        Raises
        ------
        FileExistsError
            ``dest`` exists.
        SpecError
            ``dest`` lies in the state directory.
        UnsupportedError
            The engine is not persistent, or makes no checkpoints.
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
        """Close the stores, discard uncommitted writes and release the lock.

        Waits for opens, commits and checkpoints of other threads. Closing twice is fine, and
        finishes an interrupted close. In a fork it only releases what was inherited.
        """
        self._open = False
        turn: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if os.getpid() == self._pid:  # in a fork the holder of the turn is missing
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
        """The metrics of the stores and of the directory; see docs/metrics.md."""
        return self._figures.read(list(self._stores.values()), self.staged_bytes)
