"""The task that builds a new shard from the rows of old shards."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Chunk
from kstore_core.errors import StateError
from kstore_core.maintenance.migrate.contents import opened
from kstore_core.maintenance.rescale.expiry import merged_stream_time, reached_stream_time
from kstore_core.offsets.entries import Entries
from kstore_core.offsets.position import least_positions
from kstore_core.spark.live.epochs import EPOCHS, encode_epochs
from kstore_core.spark.rescale.reading import ABOUT
from kstore_core.spark.rescale.row_keys import segment_times
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import engine_on_worker
from kstore_core.spark.shards.writing import failure
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.stream_clock import START
from kstore_core.system.directories import sync_directory
from kstore_core.system.lock import DirectoryLock

__all__ = ["BuildTask", "Destination", "LiveFolder", "Uploads"]

_MESSAGE = pa.schema([("message", pa.string())])


class Destination(Protocol):
    """The place of the new shards."""

    @property
    def keeps_empty(self) -> bool:
        """True if a shard without rows needs a state directory."""

    def scratch(self) -> Path:
        """Return a new directory in which a task builds a shard."""

    def put(self, shard: Shard, built: Path, attempt: int) -> Shard:
        """Move the closed state directory ``built`` to its place, and return its description."""


@dataclass(frozen=True, slots=True)
class Uploads:
    """The uploads of a write job of a root."""

    root: Root
    job: str
    keeps_empty: bool = False

    def scratch(self) -> Path:
        """Return a new directory on a disk of the worker."""
        return Path(tempfile.mkdtemp(prefix="kstore-shard-"))

    def put(self, shard: Shard, built: Path, attempt: int) -> Shard:
        """Upload a shard."""
        path = f"{self.root.attempts(self.job)}/{shard.shard}-{attempt}/{built.name}"
        return dataclasses.replace(shard, path=path, files=self.root.upload(built, path))


@dataclass(frozen=True, slots=True)
class LiveFolder:
    """A folder, on a disk that all machines share, for the new shards of a state of `map_state`."""

    path: Path
    keeps_empty: bool = True

    def scratch(self) -> Path:
        """Return a new directory in the folder. A shard in it can be renamed into the folder."""
        return Path(tempfile.mkdtemp(prefix=".shard-", dir=self.path))

    def put(self, shard: Shard, built: Path, attempt: int) -> Shard:
        """Rename a shard into the folder, if no other attempt has renamed its shard before."""
        try:
            built.rename(self.path / built.name)
        except OSError:
            if not (self.path / built.name).is_dir():
                raise
        sync_directory(self.path)
        return shard


@dataclass(frozen=True, slots=True)
class BuildTask:
    """The description of the second stage of a rescale. ``mapInArrow`` calls :meth:`run`.

    The rows of a task are those of one new shard, in ascending order of segments and keys. The
    first rows are the descriptions of the old shards.

    Attributes
    ----------
    destination : Destination
        The place of the new shards.
    stored : StoredSpec
        The stored spec of the store, whose serdes need not be built in.
    engine : str
        The name of the engine of the shards.
    shards : tuple of Shard
        The new shards, with their offsets.
    notes : mapping
        Notes to store in each new shard.
    epochs : mapping
        The last epoch of each query in any old shard. A new shard stores for each query the
        greatest of this epoch and the epochs in the descriptions of its old shards.
    """

    destination: Destination
    stored: StoredSpec
    engine: str
    shards: tuple[Shard, ...]
    notes: Mapping[str, bytes] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Build the shard of this task, and yield one message about it."""
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        number = task.partitionId()
        try:
            done = self.build(number, task.taskAttemptId(), batches)
            message = {"shard": dataclasses.asdict(done)}
        except _UnreadableError as error:
            message = error.message
        except Exception as error:  # noqa: BLE001 - failure() raises errors that Spark may retry
            message = failure(error, number)
        yield pa.RecordBatch.from_pydict({"message": [json.dumps(message)]}, schema=_MESSAGE)

    def build(self, number: int, attempt: int, batches: Iterator[pa.RecordBatch]) -> Shard:
        """Build a new shard from the rows of ``batches``, and return its description."""
        rows = _Rows(batches)
        shard = self.shards[number]
        times = [about["stream_time"] for about in rows.abouts]
        if self.stored.shape != "key_value" and shard.stream_time != START:
            times.append(shard.stream_time)  # Old shards without rows have no description.
        stream_time = merged_stream_time(self.stored.shape, times)
        if self.stored.shape != "key_value":
            known = START if stream_time is None else stream_time
            shard = dataclasses.replace(shard, stream_time=known)
        if rows.is_empty and not self.destination.keeps_empty:
            return shard
        engine_on_worker(self.engine)
        scratch = self.destination.scratch()
        try:
            here = scratch / f"0_{number}"
            here.mkdir()
            lock = DirectoryLock(here, self.engine)
            try:
                reached = self._write(here, rows, shard, stream_time)
            finally:
                lock.release()
            shard = dataclasses.replace(shard, rows=rows.count, records=rows.count)
            if self.stored.shape != "key_value" and reached is not None:
                shard = dataclasses.replace(shard, stream_time=reached)
            return self.destination.put(shard, here, attempt)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _entries(
        self, shard: Shard, abouts: list[dict[str, Any]], stream_time: int | None
    ) -> Entries:
        epochs = dict(self.epochs)
        for about in abouts:
            for query, epoch in about["epochs"].items():
                epochs[query] = max(epoch, epochs.get(query, epoch))
        notes = {**self.notes, EPOCHS: encode_epochs(epochs)} if epochs else dict(self.notes)
        positions = [
            {topic: dict(of_topic) for topic, of_topic in about["position"].items()}
            for about in abouts
        ]
        return Entries(
            {(each.topic, each.partition): each.offset for each in shard.offsets} or None,
            least_positions(positions) or None,
            stream_time,
            self.stored,
            notes or None,
        )

    def _write(self, here: Path, rows: _Rows, shard: Shard, stream_time: int | None) -> int | None:
        """Write the rows and the metadata of a shard, and return the shard's stream time in ms."""
        spec, engine = self.stored.of_bytes(), make_engine(self.engine)
        in_segments = spec.shape in ("window", "session")
        with opened(engine, here, spec, writable=True) as contents:
            contents.load(rows.chunks(spec if in_segments else None))
            if in_segments and engine.capabilities.children and stream_time is not None:
                stream_time = self._reached(spec, rows, shard.shard, stream_time)
            contents.write(self._entries(shard, rows.abouts, stream_time))
        return stream_time

    def _reached(self, spec: StoreSpec, rows: _Rows, number: int, stream_time: int) -> int:
        """Return the stream time of a store that has a database for each segment.

        Raise a StateError if rows that can be read now would expire at this stream time.
        """
        assert spec.segment_interval_ms is not None
        latest = rows.newest_segment * spec.segment_interval_ms
        reached, expires = reached_stream_time(spec, stream_time, rows.earliest, latest)
        if expires:
            latest = max(about["stream_time"] for about in rows.abouts)
            raise StateError(
                f"the new shard {number} would get rows of shards whose stream times are from "
                f"{stream_time} to {latest}. With the engine {self.engine!r}, the stream time of "
                f"the new shard is at least {reached}, where its newest segment begins. So rows "
                f"that can be read now would expire, such as a row of the time {rows.earliest}. "
                "Rescale to a multiple of the present number of shards, which merges no shards. Or "
                "first append records to the shards that are behind, or write the store "
                "again from its records with mode='overwrite'"
            )
        return reached


class _UnreadableError(Exception):
    """The error of an old shard, as the message that the first stage sent."""

    def __init__(self, message: dict[str, Any]) -> None:
        super().__init__(message)
        self.message = message


class _Rows:
    """The rows of a new shard, read from batches that begin with descriptions of the old shards.

    Attributes
    ----------
    abouts : list of dict
        The descriptions of the old shards that have a store.
    count : int
        The number of rows that :meth:`chunks` has yielded.
    is_empty : bool
        True if there are no rows.
    newest_segment : int
        The greatest segment number among the rows that :meth:`chunks` has yielded.
    earliest : int, optional
        The least time in ms among the rows that :meth:`chunks` has yielded. None if the store has
        no segments, or if no row was yielded yet.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._first: pa.RecordBatch | None = None
        self.abouts: list[dict[str, Any]] = []
        self.count = 0
        self.newest_segment = 0
        self.earliest: int | None = None
        for batch in batches:
            segments = batch.column("segment").to_pylist()
            described = next((at for at, one in enumerate(segments) if one != ABOUT), len(segments))
            self.abouts += map(json.loads, batch.column("row").slice(0, described).to_pylist())
            if described < len(segments):
                self._first = batch.slice(described)
                break
        self.is_empty = self._first is None
        for about in self.abouts:
            if "error" in about:
                raise _UnreadableError(about)

    def chunks(self, segmented: StoreSpec | None) -> Iterator[Chunk]:
        """Yield the rows in chunks, in ascending order of segments and keys.

        ``segmented`` is the spec of a window or session store, and None for other stores.
        """
        batch = self._first
        while batch is not None:
            if segmented is not None and batch.num_rows:
                first = int(segment_times(segmented, batch.column("key")).min())
                self.earliest = first if self.earliest is None else min(first, self.earliest)
                self.newest_segment = batch.column("segment")[-1].as_py()
            keys = batch.column("key").to_pylist()
            self.count += len(keys)
            yield keys, batch.column("row").to_pylist()
            batch = next(self._batches, None)
