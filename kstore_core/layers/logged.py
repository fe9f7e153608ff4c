"""The logged layer: a store's writes go to its changelog, as Kafka Streams logs them.

A write is noted once it has been staged, so what is refused is never logged. The notes are sent
together, before the rows that they tell of are written: a log is never behind its store, and what
it is ahead by after a crash is restored when the store is opened. Marks say where a commit begins
and ends there, and what it contains of the input. docs/restore.md tells the rules.
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
"""The time of a mark among versions, ms: a restore by Kafka Streams leaves out what is that old;
and a log in Kafka has no records of 0."""


class Journal:
    """The changes of one store that its changelog does not have yet.

    Parameters
    ----------
    log : Changelog
    value_format : ValueFormat
        Of the rows.
    staging : Staging
        Whose limit holds for what is noted, too: of a row that is written again and again only the
        last is staged, but all are noted.
    current_record : CurrentRecord
        The record that a write comes from which does not say so itself.
    schema : KeySchema, optional
        Of a window or session store: how its rows are keyed.

    Attributes
    ----------
    log : Changelog
    current_record : CurrentRecord
    schema : KeySchema or None
    noted_bytes : int
        Keys and values that wait.
    next_offset : int
        Of the log, behind what it has been sent.
    last : Commit or None
        What the log's last mark says, where that is known.
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
        self._is_begun = False  # what was sent waits for the mark of its commit
        self._void_from: int | None = None
        self._mark_time = _LONG_AGO if value_format.versioned else _UNKNOWN_TIME

    def make_room(self, size: int) -> None:
        """Refuse `size` more bytes, or have all stores write what they hold, where it is too much.

        Raises
        ------
        UncommittedLimitError
            The state is transactional.
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
        """Note a row that was staged; `context` None stands for the current record."""
        record = context or self.current_record.current
        timestamp = None if record is None else record.timestamp
        self.note_version(key, row, _UNKNOWN_TIME if timestamp is None else timestamp, record)

    def note_version(
        self, key: bytes, value: bytes | None, timestamp: int, record: RecordContext | None
    ) -> None:
        """Note a version that was staged, which says its own time."""
        headers = None
        if value is not None:
            self.noted_bytes += len(key) + len(value)
        else:
            self.noted_bytes += len(key)
            if record is not None and self._format.headers:
                # A copy: until it is sent, they may change under their owner's hands.
                headers = record.headers.copy()
        self._changes.append((key, value, timestamp, headers))

    def leave_out(self, offset: int) -> None:
        """Mark records from an offset on as void in the next send: their commit never ended."""
        self._void_from, self._is_begun = offset, True

    def send(self, commit: Commit | None = None) -> int:
        """Send what is noted; returns `next_offset` once the log has it as durably as it is asked.

        Where the log fails it keeps what it was given, and a later call sends it.

        Parameters
        ----------
        commit : Commit, optional
            What the store contains with all that was noted. Left out, it is a part of a commit.
        """
        # One thread after the other: the log has changes in their order.
        with self._sending, uninterrupted():
            changes, size = self._changes[:], self.noted_bytes
            records = self._records_of(changes, commit)
            if len(records):
                self._is_sent = False
                try:
                    self.log.extend(records)
                except Exception:
                    self._forget(len(changes), size)  # it keeps what it could not send
                    raise
                # What is interrupted here is sent again, which restores the same.
                self._forget(len(changes), size)
            if not self._is_sent:
                with interruptible():  # brokers may be away; what they have not got is sent again
                    self.next_offset = self.log.commit()
                self._is_sent = True
            return self.next_offset

    def _forget(self, count: int, size: int) -> None:
        """Forget the oldest changes: the log has them."""
        del self._changes[:count]
        self.noted_bytes -= size

    def _records_of(
        self, changes: list[tuple[bytes, bytes | None, int, Any]], commit: Commit | None
    ) -> RecordColumns:
        """Changes as the log's records, between marks where offsets of the input are known."""
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
        """Forget what the log does not have: it may be another's, who goes on with it."""
        self._changes.clear()
        if not self._is_sent:
            with contextlib.suppress(KStoreError):  # closed by its owner, or a fork's
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
        # Bound once: a put takes less than looking them up would.
        self._put_below = below.put_one
        self._make_room = journal.make_room
        self._note = journal.note
        turn = RLock()  # of a write, for the log has notes in the order of their rows
        self._take_turn, self._end_turn = turn.acquire, turn.release

    def __repr__(self) -> str:
        return f"<Logged, {self._journal.noted_bytes} bytes not sent, over {self.below!r}>"

    def put_one(self, key: bytes, value: bytes | None) -> None:
        """Set ``key``; None deletes. The write comes from the current record."""
        self._make_room(len(key) if value is None else len(key) + len(value))
        if not self._take_turn(False):
            self._wait_for_turn()
        try:
            self._put_below(key, value)
            self._note(key, value, None)
        finally:
            self._end_turn()

    def write(self, writes: Iterable[Write]) -> None:
        """Write rows, in their order: all of them, or none where they are refused."""
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
        self.rows.get_many([])  # raises in a fork, where the owner of the turn may be gone
        self._take_turn()

    def delete_range(self, lo: bytes, hi: bytes | None) -> None:
        """Delete ``lo <= key < hi``, each row by a record of its own."""
        for keys, _ in self.below.scan(Bounds(lo, hi)):
            self.write([Write(key, None) for key in keys])


class LoggedVersions(VersionedTable):
    """A versioned table whose puts are noted: a log has the versions, not the rows they lie in."""

    def __init__(
        self, rows: Table, segment_interval_ms: int, clock: StreamClock, journal: Journal
    ) -> None:
        super().__init__(rows, segment_interval_ms, clock)
        self._journal = journal

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Put a version; one that is not stored is not noted."""
        self._journal.make_room(len(key) + (0 if value is None else len(value)))
        code = super().put(key, value, timestamp)
        if code != NOT_PUT:
            self._journal.note_version(key, value, timestamp, self._journal.current_record.current)
        return code
