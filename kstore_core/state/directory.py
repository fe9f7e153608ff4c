"""The class of a state directory, whose stores are committed together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from functools import partial
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
"""The number of flushes after which an error is raised if listeners still write to stores."""


class StateDirectory(StateStores):
    """The stores of one task, which are committed together.

    :func:`kstore_core.open_state` opens a state directory.

    Attributes
    ----------
    path : Path
    engine : Engine
    read_only : bool
    metrics : MetricsRegistry
        The registry of the metrics of the directory and its stores.
    """

    def __repr__(self) -> str:
        state = "open" if self._open else "closed"
        return f"<StateDirectory {str(self.path)!r} on {self.engine.name}, {state}>"

    def _repr_html_(self) -> str:
        from kstore_core.display.reprs import state_html

        return state_html(self)

    def record(
        self,
        *,
        topic: str | None = None,
        partition: int = -1,
        offset: int = -1,
        timestamp: Time | None = None,
        headers: Any = (),
    ) -> contextlib.AbstractContextManager[RecordContext]:
        """Return a context manager that sets the input record of the writes within its block.

        A write in the block advances the store's position to the record's offset. The record's
        timestamp and headers are the defaults of a put. If the state was opened with
        ``partition_time=True``, the record's header ``partition-time`` also advances stream time,
        before the writes of the block and again after these writes.

        The record applies to the thread or asyncio task that entered the block. It also applies to
        tasks that are started in the block with a copy of its context, as asyncio starts tasks. If
        a task that was started in the block writes after the end of the block, the write raises
        StateError. See docs/asyncio.md.

        Raises
        ------
        TypeError, ValueError
            The topic is not a str. Or a number is not an int or is out of range. Or the timestamp
            is a datetime without a time zone.
        FormatError
            The header ``partition-time`` is malformed.
        """
        return self.within(context_of(topic, partition, offset, timestamp, headers))

    def within(self, context: RecordContext) -> contextlib.AbstractContextManager[RecordContext]:
        """Return a context manager that sets the input record, like :meth:`record`.

        The values of ``context`` are not checked.
        """
        self._check()
        times = partition_time(context.headers) if self._honours_partition_time else None
        if times is None:
            return OpenRecord(self._current_record, context)
        begins, ends = partial(self.advance, times.read), partial(self.advance, times.sent)
        return OpenRecord(self._current_record, context, begins, ends)

    def advance(self, stream_time: Time) -> None:
        """Advance the stream time of all open stores. The next commit stores the stream time.

        If ``stream_time`` is not later than the stream time of a store, this store does not change.

        Raises
        ------
        TypeError, ValueError
            ``stream_time`` is not a time, or is a datetime without a time zone.
        UnsupportedError
            The state is read-only.
        """
        self._check()
        self._check_writable()
        millis = to_millis(stream_time)
        for store in list(self._stores.values()):
            store.commits.advance(millis)

    def flush(self) -> None:
        """Flush the caches of all stores and call their listeners. This does not commit.

        Raises
        ------
        StateError
            The listeners write to cached stores in every flush, so the caches never become empty.
        """
        self._check()
        for _ in range(_FLUSHES):
            flushed = [store.flush() for store in list(self._stores.values())]
            if not any(flushed):
                return
        raise StateError(
            f"the caches could not be emptied: during each of {_FLUSHES} flushes, a cache listener "
            f"wrote to a cached store. The open stores are {', '.join(self._stores)}. Change their "
            "listeners so that a write by one listener does not make another listener write"
        )

    def commit(
        self,
        offsets: Mapping[Partition, int | None] | None = None,
        *,
        notes: Mapping[str, bytes | None] | None = None,
    ) -> None:
        """Commit all staged rows together with the offsets, position, stream time and notes.

        The call returns when the data are as durable as the argument ``durability`` of the state
        requires. The rows and offsets of a store are written in one atomic batch. If each segment
        of a store has its own database, each segment gets one batch of rows. The last of these
        batches, for the newest segment, also contains the offsets.

        If the write to a store fails, the store's rows stay staged, and a later commit writes them.
        If the disk was full, the later commit opens the store's database again. This ends the open
        scans of the store, and a read in another thread may raise StoreClosedError meanwhile.

        Parameters
        ----------
        offsets : mapping of (topic, partition) to int or None, optional
            The offset of the last record of each partition that was processed. If the offset is
            None, the stored offset of the partition is removed. By default the stored offsets do
            not change. An empty mapping removes all offsets.
        notes : mapping of str to bytes or None, optional
            Small values of the program, which are stored in each store. A name may contain only the
            letters a to z and underscores. If the value is None, the note is removed. Stored notes
            that the mapping does not name do not change.

        Raises
        ------
        TypeError, ValueError
            The offsets or notes are invalid. Nothing was written.
        UnsupportedError
            The state is read-only.
        StorageFullError, EngineError
            The engine failed to write the batch of a store. No row of this batch was written.
        """
        self._check()
        self._check_writable()
        check_offsets(offsets)
        check_notes(notes)
        self.flush()
        with self._turn, uninterrupted():  # an interrupt is raised after the commit
            self._check()
            with self._noted():
                for store in list(self._stores.values()):
                    store.commit(offsets, notes)
            self._publish()

    def send_changes(self, offsets: Mapping[Partition, int | None] | None = None) -> None:
        """Send the changes of the next commit to the changelogs, and write no rows.

        Call this method if the changelogs belong to a transaction of the caller. When the
        transaction is committed, call :meth:`commit` with the same offsets, and without other
        calls in between. If the transaction fails, close the state directory without a commit.

        Parameters
        ----------
        offsets : mapping of (topic, partition) to int or None, optional
            As in :meth:`commit`.

        Raises
        ------
        UnsupportedError
            The state is read-only.
        """
        self._check()
        self._check_writable()
        check_offsets(offsets)
        self.flush()
        with self._turn, uninterrupted():
            self._check()
            for store in list(self._stores.values()):
                store.commits.send(offsets)

    def _noted(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager that shows a commit to several databases in the lock file.

        A process that copies the directory waits until the commit has ended.
        """
        stores = list(self._stores.values())
        one = len(stores) < 2 and all(store.database is not None for store in stores)
        if one or not isinstance(self._lock, DirectoryLock):
            return contextlib.nullcontext()
        return self._lock.change()

    def committed(self) -> StateDirectory:
        """Return a read-only view of the last commit of a transactional state.

        Any thread may use the view. The view shows one snapshot of all open stores, with one
        exception: if each segment of a store has its own database, the view shows a segment as it
        is when the view first reads this segment. Reads never wait for the writer. To see later
        commits, call this method again. Close the view after use, or use ``with``. The view is also
        closed with the state.

        Raises
        ------
        UnsupportedError
            The state is not transactional, or is read-only. A view is read-only, too.
        """
        return self._view_of(self._newest())

    def _lease_view(self) -> LeasedView:
        """Lease the view of the last commit that queries share."""
        return self._views.lease(self._newest(), self._view_of)

    def _newest(self) -> SnapshotLease:
        """Lease the snapshot of the last commit, or raise if the state has no snapshots."""
        self._check()
        if self._snapshots is None:
            raise UnsupportedError(
                f"{self.path} has no view of the last commit, because it is not open for writing "
                "with transactional=True. Without this argument, spilled rows may be in the files "
                "before their commit. Open the state directory with transactional=True. If it is "
                "open with read_only=True, read its stores directly"
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

        Other threads may write during the copy, but their commits wait until the copy is complete.
        If this process opened the directory read-only, the copy shows one commit of the process
        that writes to the directory. Staged rows are not copied. Rows that were spilled before
        their commit are copied, but their offsets are not. So the copy is like the directory after
        a crash.

        Parameters
        ----------
        dest : path-like
            The path of the copy. It must not exist, and it appears once the copy is complete.

        Returns
        -------
        list of str
            The names of the stores.

        Raises
        ------
        FileExistsError
            ``dest`` exists.
        SpecError
            ``dest`` is inside the state directory.
        UnsupportedError
            The engine stores its rows in memory, or does not support checkpoints.
        EngineError
            Another process commits so often that this process cannot open the databases between
            two commits.
        """
        self._check()
        with self._turn:
            self._check()
            opened = {} if self.read_only else dict(self._stores)
            place = Path(dest).absolute()
            place = place.parent.resolve() / place.name
            return write_checkpoint(self.engine, self.path, opened, place)

    def close(self) -> None:
        """Close the stores, discard uncommitted writes, and release the lock of the directory.

        The call waits until opens, commits and checkpoints of other threads have ended. If an
        earlier close was interrupted, the call finishes it. If an earlier close has succeeded, the
        call does nothing. In a forked child process, the call only releases the resources that the
        child inherited.
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
