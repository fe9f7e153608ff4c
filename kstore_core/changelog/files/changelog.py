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

    One process writes, any number read beside it. A reader sees what has been written, a commit's
    batches one after the other. Opening a log cuts nothing off: what an interrupted write has left
    behind the last whole batch is moved aside by the next write.

    Parameters
    ----------
    root : path-like
        Holds the directories of partitions; made where it is missing, unless `read_only`.
    topic : str
    partition : int
        Not negative.
    config : LogConfig, optional
        Not kept in the directory.
    durability : {"process", "power", "changelog"}
        What a commit survives: SIGKILL; and a power cut; or SIGKILL, and a power cut but for the
        last segment.
    read_only : bool
        Write nothing, lock nothing.
    batch_bytes : int
        How large a record batch gets before compression.
    linger_bytes : int
        Keys, values and headers that wait for a commit; beyond it they are written before.
    lock_timeout_s : float
        How long to wait for another writer.
    clock : callable
        The time in seconds since the epoch, for what expires.

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
        `read_only` and there is no such directory, or it cannot be used.
    CorruptionError
        The last segment is damaged, or the first one is missing; nothing was changed.
    InconsistentStateError
        For writing: it has bytes, or had batches, and has none now; nothing was changed.
    UnsupportedError
        A library that it needs is not installed.
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
        crc32c(b"")  # is there, before anything is made
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
        """The first offset that may be there; what was before it has expired.

        Raises
        ------
        CorruptionError
            Records before it have not expired: a file is missing, or damaged.
        InconsistentStateError
            The log has bytes, or had batches, and has none now.
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
        """The offset behind the last record that is in the files; a reader looks again."""
        return self._end()[0].next_offset

    @property
    def rest(self) -> Rest:
        """The bytes behind the last whole batch, until the next write moves them aside."""
        return self._end()[1]

    def commit(self) -> int:
        """Write what waits, and return the high watermark once it is as durable as asked.

        Raises
        ------
        StorageFullError, EngineError
            Nothing of what waits was written; it still waits, and a later commit writes it. Where
            the disk refuses to make it last, the log is closed.
        """
        self._check_writer()
        with self._guard, uninterrupted():
            self._send_pending()
            self._while_kept(self._writer.sync)
            return self._writer.tail.next_offset

    def read(self, from_offset: int | None = None) -> Iterator[RecordColumns]:
        """The records from an offset (inclusive) up to the high watermark as of this call.

        What is compacted meanwhile may have given way to a record behind that, so a
        reader beside a writer reads on from ``next_offset`` of the last columns.

        Parameters
        ----------
        from_offset : int, optional
            Left out, or before the start offset: from there.

        Yields
        ------
        RecordColumns
            With some records each; compaction leaves gaps between offsets.

        Raises
        ------
        InconsistentStateError
            The log ends before `from_offset`: it is another log.
        CorruptionError
            Bytes are damaged, or a segment is missing; says where.
        """
        tail, _ = self._end()
        start = self.start_offset
        if from_offset is None:
            from_offset = start
        self._check_reaches(from_offset, tail.next_offset)
        return read_log(self.path, from_offset, tail)

    def compact(self) -> compaction.Compacted:
        """Take what has been superseded or has expired out of all segments but the last.

        Crash-safe: a segment is replaced by renaming one that is complete. Others may read
        meanwhile, this process may append.

        Returns
        -------
        Compacted
            How many records and bytes are gone.

        Raises
        ------
        CorruptionError
            A segment is damaged; it and those after it are as they were.
        StorageFullError, EngineError
            The new segment cannot be written; the old ones are as they were.
        """
        self._check_writer()
        with self._compacting, explained(self.path):
            now_ms = int(self._clock() * 1000)
            return compaction.compact(self.path, self._writer.tail.segment, self.config, now_ms)

    def roll(self) -> None:
        """Write what waits and close the last segment, so that it can be compacted."""
        self._check_writer()
        with self._guard, uninterrupted():
            self._send_pending()
            self._while_kept(self._writer.roll)

    def close(self) -> None:
        """Release the lock; pending records are dropped. Closing twice is fine."""
        self._open = False
        if self._lock is not None:
            with uninterrupted():
                try:
                    self._writer.close()
                finally:
                    self._lock.release()

    def _end(self) -> tuple[Tail, Rest]:
        """The end: the writer's own, or as a reader finds it, while it may be moving."""
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
                except (CorruptionError, UnsupportedError):  # the middle of a batch may look old
                    if self._is_last(last):
                        raise
                    continue
                if self._is_last(last):
                    self._seen = seen
                    return seen, rest

    def _is_last(self, segment: Segment) -> bool:
        """Return True if a segment still is the last; one that is not may have been compacted."""
        return list_segments(self.path)[-1:] == [segment]

    def _checked_end(self) -> tuple[Tail, Rest]:
        """The end as a writer finds it; all batches of the last segment are checked."""
        segments = list_segments(self.path)
        tail, rest = Tail(Segment.at(self.path, 0), 0, 0), Rest("none")
        if segments:
            tail, rest = find_end(segments[-1], verify=True)
            rest.check(tail)
        check_written(self.path, noted_start(self.path), segments, tail, rest)
        check_start(self.path, segments)
        return tail, rest

    def _while_kept(self, write: Callable[[], None]) -> None:
        """Write; close the log where the disk has refused to sync."""
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
                self._while_kept(lambda: self._writer.write(data))
            except BaseException:
                if self._writer.tail.next_offset == before:  # else all of it is written
                    self._pending = pending
                raise
