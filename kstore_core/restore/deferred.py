"""Restored records whose rows are written later: at the store's next use, or at the commit.

A standby restores the records of one poll after another, and seldom reads its store. It costs less
to write the rows of many records together than to write rows after each poll. The difference is
greatest in versioned stores, because one row contains many versions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from threading import RLock
from typing import Any

from kstore_core.codec import RecordColumns
from kstore_core.errors import StorageFullError
from kstore_core.layers.noted import LoggedVersions
from kstore_core.restore.rows import Restored, RowRestorer
from kstore_core.restore.spool import Gathered, weight
from kstore_core.restore.versions import VersionRestorer
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_core.tables import NamespaceTable
from kstore_core.tables.staging import StagedNamespace

__all__ = ["defer"]

_BULK_ROWS = 30_000
"""The minimum number of records that are loaded without staging if the store has rows."""


def defer(store: Any, records: RecordColumns, max_bytes: int) -> Restored | None:
    """Let the rows of some records wait for the store's next use.

    Return None, and do nothing, if the rows must be written now: in a transactional state
    directory, because a write beyond the memory limit must fail there; on an engine that refuses
    some keys; if a layer must see each write; if rows are staged; if a versioned store has rows; or
    if the records exceed the memory limit.

    Raises
    ------
    SpecError
        A version has a time before 1970. No record of this call was added.
    """
    table = store.table
    versions: VersionRestorer | None = None
    if store.spec.shape == "versioned" and not isinstance(table, LoggedVersions):
        versions = VersionRestorer(store.spec, table, max_bytes)
        table = table.rows
    if type(table) is not NamespaceTable:
        return None
    namespace = table.rows
    waiting = namespace.deferred
    if not isinstance(waiting, _Waiting):
        if not _can_wait(namespace):
            return None
        limit = namespace.staging.max_bytes
        max_bytes = max_bytes if limit < 0 else min(max_bytes, limit)
        if weight(records) >= max_bytes:
            return None
        write = partial(_write_rows, store) if versions is None else versions.build
        gathered = Gathered(store.parts.context.scratch, max_bytes)
        waiting = _Waiting(namespace, gathered, write)
        if not waiting.install(versions is not None):
            return None
    with waiting.lock:
        if waiting.is_frozen:
            waiting.settle()
        if waiting.is_settled:  # by the line above, or by another thread that used the store
            return None
        with uninterrupted():  # Stream time must not advance without the records.
            # Records of other stores also use the memory. If the memory is full, versions move to
            # files, because a spill would end the collection of versions.
            is_full = not namespace.staging.has_room(weight(records))
            waiting.make_room(records, spool=is_full and versions is not None)
            kept = records if versions is None else versions.advance(records)
            waiting.add(kept)
        if versions is None and waiting.held_bytes + weight(kept) > max_bytes:
            waiting.settle()
    namespace.staging.relieve()
    return Restored(len(records), len(records) - len(kept), len(kept))


def _can_wait(namespace: StagedNamespace) -> bool:
    staging = namespace.staging
    accepts_all_keys = staging.empty_keys and staging.max_key_bytes == sys.maxsize
    return accepts_all_keys and not staging.transactional and not namespace.is_staging


def _write_rows(store: Any, parts: Iterable[RecordColumns]) -> None:
    for records in parts:
        rows = RowRestorer(store.spec, store.table, None)
        # Staged rows, such as those of an interrupted attempt, would hide the loaded rows.
        if rows.is_empty or (len(records) >= _BULK_ROWS and not store.table.rows.is_staging):
            rows.load(records)
        else:
            rows.put(records)


class _Waiting:
    """The records of one store whose rows are not written yet.

    Every use of the namespace calls :meth:`settle` first, so no read misses the records.

    Attributes
    ----------
    lock : RLock
        The lock that a thread must hold while it calls :meth:`add`.
    is_settled : bool
        True if the rows are written, or the records are discarded.
    is_frozen : bool
        True after an attempt to write the rows. A failed attempt may have written some of the rows.
        The next attempt must write the same rows, so no records may be added.
    was_full : bool
        True if the last attempt failed because the disk was full.
    """

    def __init__(
        self,
        namespace: StagedNamespace,
        gathered: Gathered,
        write: Callable[[Iterable[RecordColumns]], object],
    ) -> None:
        self.lock = RLock()
        self.is_settled = False
        self.is_frozen = False
        self.was_full = False
        self._namespace = namespace
        self._gathered = gathered
        self._write = write
        self._counted = 0
        self._is_writing = False

    @property
    def held_bytes(self) -> int:
        """The approximate memory in bytes of the records."""
        return self._gathered.held_bytes

    def install(self, needs_empty: bool) -> bool:
        """Make every use of the namespace call :meth:`settle`, and return True.

        Return False, and do nothing, if rows are staged, or if ``needs_empty`` is true and the
        namespace has rows. Other threads cannot use the namespace during the test.
        """
        with self.lock, uninterrupted():
            self._is_writing = True
            try:
                self._namespace.defer(self)
                can_wait = not self._namespace.is_staging
                if can_wait and needs_empty:
                    can_wait = self._namespace.first() is None
                if not can_wait:
                    self._end()
                return can_wait
            finally:
                self._is_writing = False

    def make_room(self, records: RecordColumns, *, spool: bool) -> None:
        """Write the files that :meth:`add` needs, so that a failed write cannot interrupt `add`.

        If ``spool`` is true, move all records to files.
        """
        self._gathered.make_room(records, spool=spool)
        self._count(self._gathered.held_bytes)

    def add(self, records: RecordColumns) -> None:
        # Without the copy, a few records could keep a large buffer of the caller in memory.
        self._gathered.add(records.packed())
        self._count(self._gathered.held_bytes)

    def settle(self) -> None:
        """Write the rows. If this thread is already writing the rows, do nothing."""
        with self.lock:
            if self.is_settled or self._is_writing:
                return
            staging = self._namespace.staging
            with uninterrupted():
                self.is_frozen = self._is_writing = True
                # No spill now: it would settle other stores, whose locks other threads may hold.
                staging.admitted += 1
                try:
                    with interruptible():  # the write may take long
                        self._write(self._gathered)
                except StorageFullError:
                    self.was_full = True
                    raise
                finally:
                    staging.admitted -= 1
                    self._is_writing = False
                self._end()

    def discard(self) -> None:
        """Drop the records."""
        with self.lock, uninterrupted():
            if not self.is_settled:
                self._end()

    def _end(self) -> None:
        self.is_settled = True
        self._count(0)
        self._gathered.close()
        self._namespace.resume()

    def _count(self, held_bytes: int) -> None:
        if not self.is_settled:
            held_bytes = max(held_bytes, 1)  # Records in files are uncommitted, too.
        self._namespace.staging.count(held_bytes - self._counted)
        self._counted = held_bytes
