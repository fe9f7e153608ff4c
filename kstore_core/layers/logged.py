"""The logged layer: a store's writes go to its changelog, as Kafka Streams logs them.

A write is noted after it has been staged, so a refused write is never logged. All notes are sent
before their rows are written. So a log is never behind its store, and after a crash the next open
restores the records that the store lacks. Marks in the log have the begin and end of each commit,
and the input offsets that it contains. docs/restore.md has the rules.
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
from kstore_core.clock import StreamClock
from kstore_core.codec import RecordColumns
from kstore_core.errors import KStoreError, UncommittedLimitError
from kstore_core.formats import ValueFormat
from kstore_core.keys import KeySchema
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_core.tables import Bounds, Layer, Table, Write
from kstore_core.tables.staging import Staging
from kstore_core.tables.versioned import VersionedTable
from kstore_core.types import NOT_PUT, RecordContext

__all__ = ["Journal", "Logged", "LoggedVersions"]

_UNKNOWN_TIME = -1

_LONG_AGO = 1
"""The time of a mark among versions, ms. A restore by Kafka Streams leaves out records that old; a
log in Kafka has no records with the time 0."""


class Journal:
    """The changes of one store that its changelog does not have yet.

    Parameters
    ----------
    log : Changelog
    value_format : ValueFormat
        The format of the rows.
    staging : Staging
        Its limit also applies to the notes. Staging has only the last write of a row, but the
        journal has all.
    current_record : CurrentRecord
        The input record of a write that names none.
    schema : KeySchema, optional
        The row keys of a window or session store.

    Attributes
    ----------
    log : Changelog
    current_record : CurrentRecord
    schema : KeySchema or None
    noted_bytes : int
        The size of the noted keys and values that are not sent.
    next_offset : int
        The log's offset after the last record sent.
    last : Commit or None
        The log's last mark, if it is known.
    """

    def __init__(
        self,
        log: Changelog,
        value_format: ValueFormat,
        staging: Staging,
        current_record: Any,
        schema: KeySchema | None = None,
    ) -> None:
        self.log = log
        self.noted_bytes = 0
        self.next_offset = log.high_watermark
        self._format = value_format
        self.schema = schema
        self._staging = staging
        self._max_bytes = staging.max_bytes if staging.max_bytes >= 0 else sys.maxsize
        self.current_record = current_record
        self._changes: list[tuple[bytes, bytes | None, int, Any]] = []
        self._is_sent = True
        self._sending = RLock()
        self.last: Commit | None = None
        self._is_begun = False  # the log has records whose commit has no end mark yet
        self._void_from: int | None = None
        self._mark_time = _LONG_AGO if value_format.versioned else _UNKNOWN_TIME

    def make_room(self, size: int) -> None:
        """Spill all stores if `size` more bytes exceed the limit.

        Raises
        ------
        UncommittedLimitError
            The state is transactional, so it does not spill.
        """
        if self.noted_bytes + size <= self._max_bytes or self._staging.admitted:
            return
        if self._staging.transactional:
            raise UncommittedLimitError(
                f"{self.noted_bytes + size} bytes of changes wait for the changelog "
                f"{self.log.topic}, more than uncommitted_max_bytes={self._max_bytes}; the last "
                "write was not made. Commit more often or raise the limit"
            )
        if self._changes:
            self._staging.spill()

    def note(self, key: bytes, row: bytes | None, context: RecordContext | None) -> None:
        """Note a staged row; by default the write is of the current record."""
        record = context or self.current_record.current
        timestamp = None if record is None else record.timestamp
        self.note_version(key, row, _UNKNOWN_TIME if timestamp is None else timestamp, record)

    def note_version(
        self, key: bytes, value: bytes | None, timestamp: int, record: RecordContext | None
    ) -> None:
        """Note a staged version with its own time."""
        headers = None
        if value is not None:
            self.noted_bytes += len(key) + len(value)
        else:
            self.noted_bytes += len(key)
            if record is not None and self._format.headers:
                # A copy: their owner may change them before they are sent.
                headers = record.headers.copy()
        self._changes.append((key, value, timestamp, headers))

    def leave_out(self, offset: int) -> None:
        """Mark records from an offset on as void in the next send: their commit never ended."""
        self._void_from, self._is_begun = offset, True

    def send(self, commit: Commit | None = None) -> int:
        """Send the notes; returns `next_offset` when the log has them with its durability.

        If the log fails, it keeps the records that it got, and a later call sends them.

        Parameters
        ----------
        commit : Commit, optional
            The mark of the commit that these notes complete. By default they are a part of one.
        """
        # Under the lock, so the log has changes in their order.
        with self._sending, uninterrupted():
            changes, size = self._changes[:], self.noted_bytes
            records = self._records_of(changes, commit)
            if len(records):
                self._is_sent = False
                try:
                    self.log.extend(records)
                except Exception:
                    self._forget(len(changes), size)  # the log keeps the records it could not send
                    raise
                # After an interrupt here they are sent twice, which restores the same rows.
                self._forget(len(changes), size)
            if not self._is_sent:
                with interruptible():  # brokers may be down; a later call sends the rest
                    self.next_offset = self.log.commit()
                self._is_sent = True
            return self.next_offset

    def _forget(self, count: int, size: int) -> None:
        """Remove the oldest changes: the log has them."""
        del self._changes[:count]
        self.noted_bytes -= size

    def _records_of(
        self, changes: list[tuple[bytes, bytes | None, int, Any]], commit: Commit | None
    ) -> RecordColumns:
        """Changes as the log's records, between marks if offsets of the input are known."""
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
        time = self._mark_time or _UNKNOWN_TIME
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
        """Discard the changes that the log does not have; the log's owner may still use it."""
        self._changes.clear()
        if not self._is_sent:
            with contextlib.suppress(KStoreError):  # its owner closed it, or this is a fork
                self.log.discard()


class Logged(Layer):
    """A table whose writes are noted for a changelog.

    Parameters
    ----------
    below : Table
    journal : Journal
    """

    def __init__(self, below: Table, journal: Journal) -> None:
        super().__init__(below)
        self._journal = journal
        # Bound methods make a put faster.
        self._put_below = below.put_one
        self._make_room = journal.make_room
        self._note = journal.note
        turn = RLock()  # the lock of a write, so notes are in the order of their rows
        self._take_turn, self._end_turn = turn.acquire, turn.release

    def __repr__(self) -> str:
        return f"<Logged, {self._journal.noted_bytes} bytes not sent, over {self.below!r}>"

    def put_one(self, key: bytes, value: bytes | None) -> None:
        """Set ``key``; None deletes. The write is of the current record."""
        self._make_room(len(key) if value is None else len(key) + len(value))
        if not self._take_turn(False):
            self._wait_for_turn()
        try:
            self._put_below(key, value)
            self._note(key, value, None)
        finally:
            self._end_turn()

    def write(self, writes: Iterable[Write]) -> None:
        """Write rows in their order; if one is refused, none is written."""
        given = list(writes)
        sizes = (len(key) + (0 if value is None else len(value)) for key, value, _ in given)
        self._journal.make_room(sum(sizes))
        if not self._take_turn(False):
            self._wait_for_turn()
        try:
            with uninterrupted():
                self.below.write(given)
                for key, value, context in given:
                    self._note(key, value, context)
        finally:
            self._end_turn()

    def _wait_for_turn(self) -> None:
        self.rows.get_many([])  # raises in a fork, where the lock may never be released
        self._take_turn()

    def delete_range(self, lo: bytes, hi: bytes | None) -> None:
        """Delete ``lo <= key < hi``, with one record per row."""
        for keys, _ in self.below.scan(Bounds(lo, hi)):
            self.write([Write(key, None) for key in keys])


class LoggedVersions(VersionedTable):
    """A versioned table that notes its puts: a log has versions, not the rows that store them."""

    def __init__(
        self, rows: Table, segment_interval_ms: int, clock: StreamClock, journal: Journal
    ) -> None:
        super().__init__(rows, segment_interval_ms, clock)
        self._journal = journal

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Put a version, and note it if it is stored."""
        self._journal.make_room(len(key) + (0 if value is None else len(value)))
        code = super().put(key, value, timestamp)
        if code != NOT_PUT:
            self._journal.note_version(key, value, timestamp, self._journal.current_record.current)
        return code
