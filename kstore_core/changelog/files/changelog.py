"""The changelogs in files ``<topic>-<partition>/<first offset>.log``, in Kafka's log format."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kstore_core.changelog.files import compaction
from kstore_core.changelog.files.reading import read_end, read_log
from kstore_core.changelog.files.segment import list_segments
from kstore_core.changelog.files.start import check_start, check_written, noted_start
from kstore_core.changelog.files.tail import Rest, Tail
from kstore_core.changelog.files.writer import LogWriter, explained
from kstore_core.changelog.handle import LogHandle
from kstore_core.changelog.topic import LogConfig, check_topic
from kstore_core.checks import check_choice
from kstore_core.codec import RecordColumns, encode_record_columns
from kstore_core.codec.log.batch.checksum import crc32c
from kstore_core.codec.log.batch.compression import codec_id, compress
from kstore_core.engine import DURABILITY_LEVELS, Durability
from kstore_core.errors import EngineError, SpecError, StateError
from kstore_core.system.directories import make_directory
from kstore_core.system.interrupts import uninterrupted
from kstore_core.system.lock import DirectoryLock

__all__ = ["FileChangelog"]


class FileChangelog(LogHandle):
    """One partition of a changelog topic, stored as files in a directory.

    Only one process can write to a log. Many processes may read the log at the same time. A reader
    may see some batches of a commit before it sees all batches of the commit.

    An interrupted write may leave bytes after the last whole batch. Opening the log does not remove
    these bytes. The next write moves them to another file.

    Parameters
    ----------
    root : path-like
        The directory that contains the directories of partitions. A missing directory is created,
        unless `read_only` is True.
    topic : str
    partition : int
        The number of the partition, 0 or more.
    config : LogConfig, optional
        The settings of the log. They are not stored in the directory.
    durability : {"process", "power", "changelog"}
        The failures that a commit survives. With "process", a commit survives SIGKILL. With
        "power", a commit survives SIGKILL and a power cut. With "changelog", a commit survives
        SIGKILL, but a power cut may destroy the last segment.
    read_only : bool
        If True, the log can only be read, and its directory is not locked.
    batch_bytes : int
        The size of a record batch in bytes, before compression.
    linger_bytes : int
        The maximum size in bytes of the queued keys, values and headers. Above this size the log
        writes the queued records before the commit.
    lock_timeout_s : float
        The maximum time in seconds to wait until another writer closes the log.
    clock : callable
        A function that returns the time in seconds since the epoch. Expiry uses this time.

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
        The topic, the partition or `durability` is not valid.
    EngineLockedError
        Another writer has locked the directory.
    StateError
        The directory does not exist and `read_only` is True, or the directory cannot be used.
    CorruptionError
        The last segment is damaged, or the first segment is missing. Nothing was changed.
    InconsistentStateError
        The log has lost all of its batches. This error is raised only if the log is opened for
        writing. Nothing was changed.
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
            raise SpecError(f"the partition of {topic} must be 0 or above, not {partition}")
        crc32c(b"")  # If the library is missing, this call fails before any file is created.
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
                raise StateError(
                    f"there is no changelog at {self.path}; check the root, the topic and the "
                    "partition"
                )
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
        """The lowest offset that may have a record; records at lower offsets have expired.

        Raises
        ------
        CorruptionError
            The file of the first records is missing, although these records have not expired.
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
        """The offset that the next appended record gets."""
        return self.high_watermark + len(self._pending)

    def _next_offset(self) -> int:
        return self.end_offset

    @property
    def high_watermark(self) -> int:
        """The offset that follows the last record in the files.

        In a read-only log, each access reads the end of the files again.
        """
        return self._end()[0].next_offset

    @property
    def rest(self) -> Rest:
        """The bytes after the last whole batch. The next write moves them to another file."""
        return self._end()[1]

    def commit(self) -> int:
        """Write the queued records, and return the high watermark once the records are durable.

        Raises
        ------
        StorageFullError, EngineError
            The records could not be written. They stay in the queue, and a later commit writes
            them. If the disk failed to sync, the log is closed and its queue is lost.
        """
        self._check_writer()
        with self._guard, uninterrupted():
            self._send_pending()
            self._write_or_close(self._writer.sync)
            return self._writer.tail.next_offset

    def read(self, from_offset: int | None = None) -> Iterator[RecordColumns]:
        """Return the records from an offset (inclusive) up to the high watermark (exclusive).

        The high watermark is read at this call. If the log is compacted during the read, the read
        may also return records after this high watermark, because these records may have superseded
        earlier records. So the next read should begin at ``next_offset`` of the last columns. See
        also `Changelog.read`.

        Raises
        ------
        InconsistentStateError
            The log ends before `from_offset`. Either this is not the expected log, or the log has
            lost records.
        CorruptionError
            Bytes are damaged, or a segment is missing. The message names the place.
        """
        start = self.start_offset  # before the end: records may expire between the two
        tail, _ = self._end()
        if from_offset is None:
            from_offset = start
        self._check_reaches(from_offset, tail.next_offset)
        return read_log(self.path, from_offset, tail)

    def compact(self) -> compaction.Compacted:
        """Remove superseded and expired records from all segments except the last one.

        A crash does not damage the log, because a complete new segment is renamed over the old
        segment. During a compaction other processes may read the log, and this process may append
        to it.

        Returns
        -------
        Compacted
            The numbers of removed records and bytes.

        Raises
        ------
        CorruptionError
            A segment is damaged. This segment and all later segments are unchanged.
        StorageFullError, EngineError
            A new segment cannot be written. The segments that it should replace are unchanged.
        """
        self._check_writer()
        with self._compacting, explained(self.path):
            now_ms = int(self._clock() * 1000)
            return compaction.compact(self.path, self._writer.tail.segment, self.config, now_ms)

    def roll(self) -> None:
        """Write the queued records, and close the last segment to let compaction include it."""
        self._check_writer()
        with self._guard, uninterrupted():
            self._send_pending()
            self._write_or_close(self._writer.roll)

    def close(self) -> None:
        """Close the log and release its lock. Queued records are discarded.

        A second close does nothing.
        """
        self._open = False
        if self._lock is not None:
            with uninterrupted():
                try:
                    self._writer.close()
                finally:
                    self._lock.release()

    def _end(self) -> tuple[Tail, Rest]:
        """Return the end of the last whole batch, and the bytes after this batch.

        If this log is open for writing, the end is known. In a read-only log, this method searches
        the files, and another process may change the files during the search.
        """
        self._check()
        if not self.read_only:
            return self._writer.tail, self._writer.rest
        _, self._seen, rest = read_end(self.path, self._seen)
        return self._seen, rest

    def _checked_end(self) -> tuple[Tail, Rest]:
        """Check all batches of the last segment, and return the log's end for a writer."""
        segments, tail, rest = read_end(self.path, verify=True)
        check_written(self.path, noted_start(self.path), segments, tail, rest)
        check_start(self.path, segments)
        return tail, rest

    def _write_or_close(self, write: Callable[[], None]) -> None:
        """Call `write`, and close the log if the disk failed to sync."""
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
                # If the end has moved, all of the records were written.
                if self._writer.tail.next_offset == before:
                    self._pending = pending
                raise
