"""A changelog in files, in Kafka's own log format: ``<topic>-<partition>/<first offset>.log``."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kstore_core.changelog.files import compaction
from kstore_core.changelog.files.reading import read_log
from kstore_core.changelog.files.segment import Segment, list_segments
from kstore_core.changelog.files.start import check_start, check_written, noted_start
from kstore_core.changelog.files.tail import Rest, Tail, find_end
from kstore_core.changelog.files.writer import LogWriter, explained
from kstore_core.changelog.handle import LogHandle
from kstore_core.changelog.topic import LogConfig, check_topic
from kstore_core.checks import check_choice
from kstore_core.codec import RecordColumns, encode_record_columns
from kstore_core.codec.log.batch.checksum import crc32c
from kstore_core.codec.log.batch.compression import codec_id, compress
from kstore_core.engine import DURABILITY_LEVELS, Durability
from kstore_core.errors import (
    CorruptionError,
    EngineError,
    SpecError,
    StateError,
    UnsupportedError,
)
from kstore_core.system.directories import make_directory
from kstore_core.system.interrupts import uninterrupted
from kstore_core.system.lock import DirectoryLock

__all__ = ["FileChangelog"]


class FileChangelog(LogHandle):
    """One partition of a changelog topic in a directory.

    One process writes; any number of processes may read at the same time. A reader sees the batches
    of a commit one after the other. Opening a log cuts nothing off: the next write moves the bytes
    of an interrupted write, after the last whole batch, to another file.

    Parameters
    ----------
    root : path-like
        The directory of the partitions' directories; made if missing, unless `read_only`.
    topic : str
    partition : int
        Not negative.
    config : LogConfig, optional
        The log's settings; they are not stored in the directory.
    durability : {"process", "power", "changelog"}
        The failures that a commit survives. "process": SIGKILL. "power": SIGKILL and a power cut.
        "changelog": SIGKILL, and a power cut except for the last segment.
    read_only : bool
        Write nothing and lock nothing.
    batch_bytes : int
        The size of a record batch before compression.
    linger_bytes : int
        The limit for keys, values and headers that wait for a commit; more are written earlier.
    lock_timeout_s : float
        The longest wait for another writer.
    clock : callable
        The time in seconds since the epoch, for expiry.

    Attributes
    ----------
    topic : str
    partition : int
    path : Path
        The partition's directory.
    read_only : bool

    Raises
    ------
    SpecError
        A bad topic or partition.
    EngineLockedError
        Another writer holds the directory.
    StateError
        `read_only`, and the directory does not exist; or the directory cannot be used.
    CorruptionError
        The last segment is damaged, or the first one is missing; nothing was changed.
    InconsistentStateError
        For writing: the log has lost all of its batches; nothing was changed.
    UnsupportedError
        A library that the log needs is not installed.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        topic: str,
        partition: int = 0,
        *,
        config: LogConfig | None = None,
        durability: Durability = "process",
        read_only: bool = False,
        batch_bytes: int = 65_536,
        linger_bytes: int = 16 * 1024 * 1024,
        lock_timeout_s: float = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_choice("durability", durability, DURABILITY_LEVELS)
        if partition < 0:
            raise SpecError(f"partition {partition} of {topic}; 0 or above is needed")
        crc32c(b"")  # raises if its library is missing, before anything is made
        self.topic = topic
        self.partition = partition
        self.path = Path(root).resolve() / f"{check_topic(topic)}-{partition}"
        super().__init__(str(self.path), read_only=read_only, linger_bytes=linger_bytes)
        self.config = config or LogConfig()
        if not read_only and self.config.compression != "none":
            compress(b"", codec_id(self.config.compression))
        self._batch_bytes = batch_bytes
        self._clock = clock
        self._compacting = threading.Lock()
        self._seen: Tail | None = None
        self._lock: DirectoryLock | None = None
        if read_only:
            if not self.path.is_dir():
                raise StateError(f"no changelog at {self.path}")
            self._is_open()
        else:
            with explained(self.path):
                make_directory(self.path, synced=durability == "power")
            try:
                with uninterrupted():
                    self._lock = DirectoryLock(self.path, "changelog", lock_timeout_s)
                    compaction.tidy(self.path)
                    self._writer = LogWriter(
                        self.path,
                        *self._checked_end(),
                        segment_bytes=self.config.segment_bytes,
                        durability=durability,
                    )
                    self._is_open()
            except BaseException:
                self._open = False
                if self._lock is not None:
                    self._lock.release()
                raise

    @property
    def start_offset(self) -> int:
        """The first offset that may exist; earlier records have expired.

        Raises
        ------
        CorruptionError
            Earlier records have not expired: a file is missing or damaged.
        InconsistentStateError
            The log has lost all of its batches.
        """
        self._check()
        if self.read_only:
            noted, segments = noted_start(self.path), list_segments(self.path)
            check_written(self.path, noted, segments, *self._end())
        segments = list_segments(self.path)
        check_start(self.path, segments)
        return segments[0].base_offset if segments else 0

    @property
    def end_offset(self) -> int:
        """The offset of the next record that is appended."""
        return self.high_watermark + len(self._pending)

    def _next_offset(self) -> int:
        return self.end_offset

    @property
    def high_watermark(self) -> int:
        """The offset after the last record in the files; a reader looks at them each time."""
        return self._end()[0].next_offset

    @property
    def rest(self) -> Rest:
        """The bytes after the last whole batch, until the next write moves them to another file."""
        return self._end()[1]

    def commit(self) -> int:
        """Write the records that wait; returns the high watermark once they are durable.

        Raises
        ------
        StorageFullError, EngineError
            None of the records was written; they still wait, and a later commit writes them. If
            the disk fails to sync, the log is closed.
        """
        self._check_writer()
        with self._guard, uninterrupted():
            self._send_pending()
            self._write_or_close(self._writer.sync)
            return self._writer.tail.next_offset

    def read(self, from_offset: int | None = None) -> Iterator[RecordColumns]:
        """Return the records from an offset (inclusive) up to the high watermark as of this call.

        A compaction meanwhile may have replaced records by later ones, after this high watermark.
        So the next read should begin at ``next_offset`` of the last columns.

        Parameters
        ----------
        from_offset : int, optional
            Default, and for an earlier offset: the start offset.

        Yields
        ------
        RecordColumns
            Each has records; compaction leaves gaps between offsets.

        Raises
        ------
        InconsistentStateError
            The log ends before `from_offset`: it is another log.
        CorruptionError
            Bytes are damaged, or a segment is missing; the text says where.
        """
        tail, _ = self._end()
        start = self.start_offset
        if from_offset is None:
            from_offset = start
        self._check_reaches(from_offset, tail.next_offset)
        return read_log(self.path, from_offset, tail)

    def compact(self) -> compaction.Compacted:
        """Remove superseded and expired records from all segments except the last.

        Crash-safe: a complete new segment is renamed over the old one. Other processes may read
        meanwhile, and this process may append.

        Returns
        -------
        Compacted
            The numbers of removed records and bytes.

        Raises
        ------
        CorruptionError
            A segment is damaged; this one and all later ones are unchanged.
        StorageFullError, EngineError
            The new segment cannot be written; the old ones are unchanged.
        """
        self._check_writer()
        with self._compacting, explained(self.path):
            now_ms = int(self._clock() * 1000)
            return compaction.compact(self.path, self._writer.tail.segment, self.config, now_ms)

    def roll(self) -> None:
        """Write the records that wait and close the last segment, so that it can be compacted."""
        self._check_writer()
        with self._guard, uninterrupted():
            self._send_pending()
            self._write_or_close(self._writer.roll)

    def close(self) -> None:
        """Release the lock; records that wait are discarded. A second close does nothing."""
        self._open = False
        if self._lock is not None:
            with uninterrupted():
                try:
                    self._writer.close()
                finally:
                    self._lock.release()

    def _end(self) -> tuple[Tail, Rest]:
        """The end: a writer's own; for a reader that of the files, which a writer may move."""
        self._check()
        if not self.read_only:
            return self._writer.tail, self._writer.rest
        while True:
            segments = list_segments(self.path)
            if not segments:
                return Tail(Segment.at(self.path, 0), 0, 0), Rest("none")
            last = segments[-1]
            with contextlib.suppress(FileNotFoundError):
                try:
                    seen, rest = find_end(last, self._seen)
                    rest.check(seen)
                except (
                    CorruptionError,
                    UnsupportedError,
                ):  # the middle of a batch may look like an old format
                    if self._is_last(last):
                        raise
                    continue
                if self._is_last(last):
                    self._seen = seen
                    return seen, rest

    def _is_last(self, segment: Segment) -> bool:
        """Return True if a segment is still the last; any other may have been compacted."""
        return list_segments(self.path)[-1:] == [segment]

    def _checked_end(self) -> tuple[Tail, Rest]:
        """Return the end for a writer; all batches of the last segment are checked."""
        segments = list_segments(self.path)
        tail, rest = Tail(Segment.at(self.path, 0), 0, 0), Rest("none")
        if segments:
            tail, rest = find_end(segments[-1], verify=True)
            rest.check(tail)
        check_written(self.path, noted_start(self.path), segments, tail, rest)
        check_start(self.path, segments)
        return tail, rest

    def _write_or_close(self, write: Callable[[], None]) -> None:
        """Call `write`; close the log if the disk failed to sync."""
        try:
            write()
        except EngineError:
            if self._writer.lost:
                self.close()
            raise

    def _send_pending(self) -> None:
        if len(self._pending):
            data = encode_record_columns(
                self._pending, batch_bytes=self._batch_bytes, compression=self.config.compression
            )
            pending, before = self._pending, self._writer.tail.next_offset
            try:
                self._pending = RecordColumns()
                self._write_or_close(lambda: self._writer.write(data))
            except BaseException:
                if self._writer.tail.next_offset == before:  # else all of the records are written
                    self._pending = pending
                raise
