"""The layer that sends the writes of a store to its changelog, as Kafka Streams does.

The layer first stages a write in memory, and then appends the change to the journal. So a refused
write never reaches the changelog. The journal is a list in memory. A commit or spill first sends
the journal to the changelog, and then writes rows to the engine. So the changelog contains all
changes in the store. After a crash, the next open restores the changes that the store lacks.

Commit markers are special records in the changelog. They show where a commit begins and ends, and
which input offsets the commit contains. docs/restore.md has the rules.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from threading import RLock
from typing import Any

from kstore_core.changelog import Changelog
from kstore_core.changelog.marks import Begin, Commit, append_mark
from kstore_core.changelog.rows import to_log
from kstore_core.codec import RecordColumns
from kstore_core.errors import KStoreError, UncommittedLimitError
from kstore_core.formats import ValueFormat
from kstore_core.keys import KeySchema
from kstore_core.layers.noted import UNKNOWN_TIME, NotedPuts, Notes
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_core.tables import Bounds, Layer, Table, Write
from kstore_core.tables.staging import Staging

__all__ = ["Journal", "Logged"]

_LONG_AGO = 1
"""The time in ms of a commit marker in the changelog of a versioned store.

A restore by Kafka Streams skips records with such an old time. The time cannot be 0, because
confluent-kafka replaces the time 0 with the current time.
"""


class Journal(Notes):
    """The list of a store's changes that were not sent to its changelog yet.

    Parameters
    ----------
    log : Changelog
        The changelog of the store.
    value_format : ValueFormat
        The format of the rows.
    staging : Staging
        The staged rows of the state directory, whose limit also applies to the journal. The journal
        can be larger than the staged rows, because the journal contains every write of a key and
        not only the last write.
    current_record : CurrentRecord
        The object that returns the input record of a write, if the write does not contain the
        record.
    schema : KeySchema, optional
        The schema of the keys of a window or session store; None for other stores.

    Attributes
    ----------
    log : Changelog
    schema : KeySchema or None
    next_offset : int
        The offset in the changelog after the last sent record.
    last : Commit or None
        The commit whose end the last commit marker in the changelog shows. None if the marker is
        unknown or does not show the end of a commit.
    """

    def __init__(
        self,
        log: Changelog,
        value_format: ValueFormat,
        staging: Staging,
        current_record: Any,
        schema: KeySchema | None = None,
    ) -> None:
        super().__init__(current_record, value_format.headers)
        self.log = log
        self.next_offset = log.high_watermark
        self._format = value_format
        self.schema = schema
        self._staging = staging
        self._max_bytes = staging.max_bytes if staging.max_bytes >= 0 else sys.maxsize
        self._is_sent = True
        self._sending = RLock()
        self.last: Commit | None = None
        self._is_begun = False  # True while the changelog ends inside a commit.
        self._void_from: int | None = None
        self._mark_time = _LONG_AGO if value_format.versioned else UNKNOWN_TIME

    def make_room(self, size: int) -> None:
        """Spill all stores (write their rows to the engine) if ``size`` more bytes do not fit.

        Raises
        ------
        UncommittedLimitError
            The limit would be exceeded, and the state cannot spill because it is transactional.
        """
        if self.noted_bytes + size <= self._max_bytes or self._staging.admitted:
            return
        if self._staging.transactional:
            raise UncommittedLimitError(
                f"with this write, the uncommitted changes for the changelog {self.log.topic} "
                f"would have {self.noted_bytes + size} bytes, more than "
                f"uncommitted_max_bytes={self._max_bytes}; the write was not made. Commit and "
                "repeat the write, or raise the limit"
            )
        if self._changes:
            self._staging.spill()

    def leave_out(self, offset: int) -> None:
        """Make the next send mark the changelog's records from ``offset`` on as void.

        These records belong to a commit that was never finished.
        """
        self._void_from, self._is_begun = offset, True

    def send(self, commit: Commit | None = None) -> int:
        """Send the changes in the journal to the changelog, and return `next_offset`.

        When this method returns, the changes are durable in the changelog. If the changelog raises
        an exception, the changelog keeps the records that it has received. A later call sends these
        records.

        Parameters
        ----------
        commit : Commit, optional
            The marker that ends the commit of the changes. If None, a later call ends the commit.
        """
        # The lock keeps the changes in the changelog in the order of the writes.
        with self._sending, uninterrupted():
            changes, size = self._changes[:], self.noted_bytes
            records = self._records_of(changes, commit)
            if len(records):
                self._is_sent = False
                try:
                    self.log.extend(records)
                except Exception:
                    # The changelog keeps the records that it could not send.
                    self._forget(len(changes), size)
                    raise
                # An interrupt at this line makes a later call send the changes again. This is
                # harmless, because a restore then still produces the same rows.
                self._forget(len(changes), size)
            if not self._is_sent:
                with interruptible():  # If the brokers are down, the user may want to interrupt.
                    self.next_offset = self.log.commit()
                self._is_sent = True
            return self.next_offset

    def _forget(self, count: int, size: int) -> None:
        """Remove the ``count`` oldest changes, which the changelog has received."""
        del self._changes[:count]
        self.noted_bytes -= size

    def _records_of(
        self, changes: list[tuple[bytes, bytes | None, int, Any]], commit: Commit | None
    ) -> RecordColumns:
        """Convert changes to changelog records. If input offsets are known, add commit markers."""
        records, rows = RecordColumns(), RecordColumns()
        if changes:
            columns = map(list, zip(*changes, strict=True))
            rows = to_log(self._format, *columns, schema=self.schema)
        last = self.last
        is_marked = (
            commit is None
            or bool(commit.offsets)
            or self._is_begun
            or (last is not None and bool(last.offsets))
        )
        if len(rows) and not self._format.versioned:
            self._mark_time = max(self._mark_time, max(rows.timestamps))
        time = self._mark_time or UNKNOWN_TIME
        if is_marked and (len(rows) or self._void_from is not None):
            append_mark(records, Begin(len(rows), self._void_from), time)
        records.extend(rows, records.next_offset)
        if is_marked and commit is not None and (len(rows) or self._is_begun or commit != last):
            append_mark(records, commit, time)
        if len(records):
            self.last = commit
            self._void_from = None
            self._is_begun = is_marked and commit is None
        return records

    def close(self) -> None:
        """Discard the changes that were not sent. The changelog itself stays open."""
        self._changes.clear()
        if not self._is_sent:
            # The changelog may be closed already, or this may be a forked process.
            with contextlib.suppress(KStoreError):
                self.log.discard()


class Logged(Layer):
    """A table whose writes also go to a changelog.

    Parameters
    ----------
    below : Table
        The table to write to.
    journal : Journal
        The list of the changes that the next commit or spill sends to the changelog.
    """

    def __init__(self, below: Table, journal: Journal) -> None:
        super().__init__(below)
        self._journal = journal
        self._puts = NotedPuts(below, journal, journal.make_room)
        self.put_one = self._puts.put

    def __repr__(self) -> str:
        return f"<Logged, {self._journal.noted_bytes} bytes not sent, over {self.below!r}>"

    def write(self, writes: Iterable[Write]) -> None:
        """Write rows in the given order. If a row is refused, no row is written."""
        given = list(writes)
        sizes = (len(key) + (0 if value is None else len(value)) for key, value, _ in given)
        self._journal.make_room(sum(sizes))
        with self._puts, uninterrupted():
            self.below.write(given)
            for key, value, context in given:
                self._journal.note(key, value, context)

    def delete_range(self, lo: bytes, hi: bytes | None) -> None:
        """Delete the rows with ``lo <= key < hi``. The changelog gets one record per row."""
        for keys, _ in self.below.scan(Bounds(lo, hi)):
            self.write([Write(key, None) for key in keys])
