"""The state directory: the stores of one task, committed together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kstore_core.errors import StateError, UnsupportedError
from kstore_core.layers import CacheBudget
from kstore_core.layers.current_record import OpenRecord
from kstore_core.metrics import MetricsRegistry
from kstore_core.offsets.checks import check_offsets
from kstore_core.offsets.entries import Partition
from kstore_core.offsets.notes import check_notes
from kstore_core.partition_time import partition_time
from kstore_core.state.context import context_of
from kstore_core.state.copying import write_checkpoint
from kstore_core.state.snapshots import CommittedEngine, LeasedView, SnapshotLease
from kstore_core.state.stores import StateStores
from kstore_core.system.interrupts import uninterrupted
from kstore_core.system.lock import DirectoryLock
from kstore_core.tables.options import OpenOptions
from kstore_core.tables.staging import Staging
from kstore_core.types import RecordContext, Time, to_millis

__all__ = ["StateDirectory"]

_FLUSHES = 1000
"""The flushes after which listeners that write to stores count as an endless loop."""


class StateDirectory(StateStores):
    """The stores of one task, committed together. Opened by :func:`kstore_core.open_state`.

    Attributes
    ----------
    path : Path
    engine : Engine
    read_only : bool
    metrics : MetricsRegistry
        The registry of its stores' metrics.
    """

    def __repr__(self) -> str:
        state = "open" if self._open else "closed"
        return f"<StateDirectory {str(self.path)!r} on {self.engine.name}, {state}>"

    def _repr_html_(self) -> str:
        from kstore_core.display.reprs import state_html

        return state_html(self)

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
            The topic is not a str, a number is not an int or out of range, or the time is naive.
        FormatError
            The header ``partition-time`` is malformed.
        """
        self._check()
        context = context_of(topic, partition, offset, timestamp, headers)
        times = partition_time(context.headers) if self._honours_partition_time else None
        record = OpenRecord(self._current_record, context)
        try:
            record.enter()
            if times is not None:
                self.advance(times.read)
            yield context
            if times is not None:
                self.advance(times.sent)
        finally:
            record.leave()

    def advance(self, stream_time: Time) -> None:
        """Advance the stream time of all open stores; the next commit stores it.

        An earlier time changes nothing.

        Raises
        ------
        TypeError, ValueError
            It is not a time, or it is naive.
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
            "stores whose listeners write; one of them must stop writing"
        )

    def commit(
        self,
        offsets: Mapping[Partition, int | None] | None = None,
        *,
        notes: Mapping[str, bytes | None] | None = None,
    ) -> None:
        """Write all staged rows with offsets, position, stream time and notes.

        Returns when the data have the state's durability. A store's rows and offsets are one atomic
        batch. In a store whose segments have databases, the rows of each segment are one batch, and
        the offsets are written after all rows. If a store fails, its rows stay staged, and a later
        commit writes them; after a full disk that commit reopens the database, which ends open
        scans.

        Parameters
        ----------
        offsets : mapping of (topic, partition) to int or None, optional
            The last offset that the rows now contain. By default known offsets stay. None for a
            partition removes its offset; an empty mapping removes all.
        notes : mapping of str to bytes or None, optional
            A program's data beside the rows of each store, as durable as the offsets. Names have
            letters a to z and underscores. None removes a note; other notes stay.

        Raises
        ------
        TypeError, ValueError
            The offsets or notes are malformed; nothing was written.
        StorageFullError, EngineError
            The engine failed; that store's batch was not written.
        """
        self._check()
        if self.read_only:
            raise UnsupportedError(f"{self.path} was opened with read_only=True")
        check_offsets(offsets)
        check_notes(notes)
        self.flush()
        with self._turn, uninterrupted():  # an interrupt is raised after the commit
            self._check()
            with self._noted():
                for store in list(self._stores.values()):
                    store.commit(offsets, notes)
            self._publish()

    def _noted(self) -> contextlib.AbstractContextManager[None]:
        """Mark a commit to several databases in the lock file, for other processes."""
        stores = list(self._stores.values())
        one = len(stores) < 2 and all(store.database is not None for store in stores)
        if one or not isinstance(self._lock, DirectoryLock):
            return contextlib.nullcontext()
        return self._lock.change()

    def committed(self) -> StateDirectory:
        """Return a read-only view of the last commit of a transactional state, for any thread.

        The view shows one snapshot of all open stores and never waits for the writer; take a new
        view to see later commits. If a segment has a database of its own, the view
        shows the segment as of the view's first read of it. Closing this state closes the view,
        too. Close the view after use, or use ``with``.

        Raises
        ------
        UnsupportedError
            The state is not transactional, or it is read-only. A view is read-only.
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
                "may be written before they are committed, so a view could not leave them out. "
                "Open it with transactional=True, or read with read_only=True"
            )
        return self._snapshots.lease()

    def _view_of(self, lease: SnapshotLease) -> StateDirectory:
        return StateDirectory(
            self.path,
            CommittedEngine(self.engine, lease.snapshot),
            lease,
            Staging(0),
            CacheBudget(0),
            metrics=MetricsRegistry(),  # separate, so this directory's metrics exclude the view's
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
            Another process commits faster than this one can open its databases.
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

        Waits for opens, commits and checkpoints of other threads. A second close finishes an
        interrupted close, or does nothing. In a fork it releases inherited resources only.
        """
        self._open = False
        turn: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if os.getpid() == self._pid:  # in a fork the thread with the lock does not exist
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
