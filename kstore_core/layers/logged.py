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
from kstore_core.stream_clock import StreamClock
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_core.tables import Bounds, Layer, Table, Write
from kstore_core.tables.staging import Staging
from kstore_core.tables.versioned import VersionedTable
from kstore_core.types import NOT_PUT, RecordContext

__all__ = ["Journal", "Logged", "LoggedVersions"]

_UNKNOWN_TIME = -1

_LONG_AGO = 1
"""The time in ms of a commit marker in the changelog of a versioned store.

A restore by Kafka Streams skips records with such an old time. The time cannot be 0, because
confluent-kafka replaces the time 0 with the current time.
"""


class Journal:
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
    current_record : CurrentRecord
    schema : KeySchema or None
    noted_bytes : int
        The total size of the keys and values in the journal, in bytes.
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
        self._is_begun = False  # True while the changelog ends inside a commit.
        self._void_from: int | None = None
        self._mark_time = _LONG_AGO if value_format.versioned else _UNKNOWN_TIME

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

    def note(self, key: bytes, row: bytes | None, context: RecordContext | None) -> None:
        """Add a staged row to the journal.

        The change gets the time and headers of ``context``. If ``context`` is None, the change gets
        the time and headers of the current input record.
        """
        record = context or self.current_record.current
        timestamp = None if record is None else record.timestamp
        self.note_version(key, row, _UNKNOWN_TIME if timestamp is None else timestamp, record)

    def note_version(
        self, key: bytes, value: bytes | None, timestamp: int, record: RecordContext | None
    ) -> None:
        """Add a staged version with the time ``timestamp`` (ms) to the journal."""
        headers = None
        if value is not None:
            self.noted_bytes += len(key) + len(value)
        else:
            self.noted_bytes += len(key)
            if record is not None and self._format.headers:
                # Copy the headers, because their owner may change them before they are sent.
                headers = record.headers.copy()
        self._changes.append((key, value, timestamp, headers))

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
        # A put is faster with these references, because it need not look up the methods.
        self._put_below = below.put_one
        self._make_room = journal.make_room
        self._note = journal.note
        turn = RLock()  # This lock keeps the changes in the journal in the order of the writes.
        self._take_turn, self._end_turn = turn.acquire, turn.release

    def __repr__(self) -> str:
        return f"<Logged, {self._journal.noted_bytes} bytes not sent, over {self.below!r}>"

    def put_one(self, key: bytes, value: bytes | None) -> None:
        """Write the value of ``key``, or delete the key if ``value`` is None.

        The time and headers of the change are those of the current input record.
        """
        self._make_room(len(key) if value is None else len(key) + len(value))
        if not self._take_turn(False):
            self._wait_for_turn()
        try:
            self._put_below(key, value)
            self._note(key, value, None)
        finally:
            self._end_turn()

    def write(self, writes: Iterable[Write]) -> None:
        """Write rows in the given order. If a row is refused, no row is written."""
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
        # This raises an error in a forked process, where the lock may never be released.
        self.rows.get_many([])
        self._take_turn()

    def delete_range(self, lo: bytes, hi: bytes | None) -> None:
        """Delete the rows with ``lo <= key < hi``. The changelog gets one record per row."""
        for keys, _ in self.below.scan(Bounds(lo, hi)):
            self.write([Write(key, None) for key in keys])


class LoggedVersions(VersionedTable):
    """A versioned table whose puts also go to a changelog.

    The changelog contains the versions, and not the rows in which the table stores the versions.
    """

    def __init__(
        self, rows: Table, segment_interval_ms: int, clock: StreamClock, journal: Journal
    ) -> None:
        super().__init__(rows, segment_interval_ms, clock)
        self._journal = journal

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Put a version, and add it to the journal if the table has stored it."""
        self._journal.make_room(len(key) + (0 if value is None else len(value)))
        code = super().put(key, value, timestamp)
        if code != NOT_PUT:
            self._journal.note_version(key, value, timestamp, self._journal.current_record.current)
        return code
