"""The task that checks records, restores them into a shard, and uploads the shard.

If the data are wrong, a task returns the error as a message, so Spark does not retry the task. For
other errors, such as errors of a disk or a network, the task raises the error, so Spark retries the
task.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from kstore_core import errors
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.shard_files import Stamps
from kstore_core.spark.runtime.engines import engine_on_worker
from kstore_core.spark.shards.applying import apply_log, apply_logs
from kstore_core.spark.shards.fresh import FreshLogs
from kstore_core.spark.shards.log import ShardLog
from kstore_core.spark.shards.spool import DEFAULT_RUN_BYTES, LogSpool, in_tables
from kstore_core.spec import StoreSpec

__all__ = ["MESSAGE_DDL", "ShardWriter", "failure", "read_message"]

MESSAGE_DDL = "message string"
"""The Spark schema of a task's result. Each row contains one message in JSON."""

_MESSAGE = pa.schema([("message", pa.string())])
_NOT_RETRIED = (
    errors.CorruptionError,
    errors.EngineUnavailableError,
    errors.FormatError,
    errors.KeyTooLongError,
    errors.SpecError,
    errors.StateError,
    errors.StorageFullError,
    errors.UnknownEngineError,
)


@dataclass(frozen=True, slots=True)
class ShardWriter:
    """The description of a write job that Spark sends to each task of the job.

    ``mapInArrow`` calls :meth:`build` in the task.

    Attributes
    ----------
    root : Root
        The root to write to.
    job : str
        The name of the job. The job's tasks upload to ``attempts/<job>`` in the root.
    spec, engine, partitions
        The spec of the store, the name of the engine of the shards, and the number of shards.
    parents : mapping
        The published shards that the job continues, by the shard's number. The mapping is empty for
        a new store.
    partition_time : bool
        If true, the header ``partition-time`` also advances stream time.
    run_bytes : int
        The approximate size in bytes of the records that a task holds in memory. If a shard has
        more records, the task writes them to temporary files, and restores parts of this size.
    """

    root: Root
    job: str
    spec: StoreSpec
    engine: str
    partitions: int
    parents: Mapping[int, Shard] = field(default_factory=dict)
    partition_time: bool = False
    run_bytes: int = DEFAULT_RUN_BYTES

    def build(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the shard of this task, and yield one message about it.

        Yield nothing if ``batches`` contain no rows.
        """
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        number = task.partitionId()
        try:
            written = self.write(number, task.taskAttemptId(), batches)
            messages = [{"shard": dataclasses.asdict(shard)} for shard in written]
        except Exception as error:  # noqa: BLE001 - failure() raises the error or returns a message
            messages = [failure(error, number)]
        for message in messages:
            yield pa.RecordBatch.from_pydict({"message": [json.dumps(message)]}, schema=_MESSAGE)

    def write(self, shard: int, attempt: int, batches: Iterable[pa.RecordBatch]) -> list[Shard]:
        """Build a shard in a local directory, upload the shard, and return its description.

        ``batches`` must contain all new records of the shard. If ``batches`` contain no rows, write
        nothing and return an empty list. ``attempt`` is Spark's id of the attempt of the task.
        """
        return self._write_all(attempt, batches, lambda log: {shard: log})

    def write_each(
        self, attempt: int, batches: Iterable[pa.RecordBatch], *, by_key: bool
    ) -> list[Shard]:
        """Write every shard that has records in ``batches``, and return their descriptions.

        ``batches`` must contain all new records of each of these shards. :meth:`ShardLog.places`
        describes ``by_key``.
        """

        def divided(log: ShardLog) -> dict[int, ShardLog]:
            return log.by_place(log.places(self.partitions, by_key=by_key))

        return self._write_all(attempt, batches, divided)

    def _write_all(
        self,
        attempt: int,
        batches: Iterable[pa.RecordBatch],
        divided: Callable[[ShardLog], dict[int, ShardLog]],
    ) -> list[Shard]:
        with (
            tempfile.TemporaryDirectory(prefix="kstore-shard-") as scratch,
            contextlib.ExitStack() as stack,
        ):
            spools: dict[int, LogSpool] = {}
            for rows in in_tables(batches, self.run_bytes):
                for shard, log in divided(ShardLog.of(rows, self.spec)).items():
                    log.check(shard, self.partitions)
                    if shard not in spools:
                        place = Path(scratch, f"records-{shard}")
                        spool = LogSpool(place, self.spec, self.run_bytes)
                        spools[shard] = stack.enter_context(spool)
                    spools[shard].add(log)
                    del log
                del rows
            return [
                self._write(shard, attempt, spool, Path(scratch))
                for shard, spool in sorted(spools.items())
            ]

    def _write(self, shard: int, attempt: int, spool: LogSpool, scratch: Path) -> Shard:
        from kstore_core import open_state

        parent = self.parents.get(shard, Shard(shard))
        fresh = FreshLogs(spool, parent, self.spec)
        if fresh.is_empty:
            replayed = fresh.replayed
            return dataclasses.replace(parent, records=replayed, late=0, replayed=replayed)
        name = f"0_{shard}"
        stamps: Stamps = {}
        here = scratch / name
        if parent.path is not None:
            stamps = self.root.fetch(parent, here)
        engine_on_worker(self.engine)
        with open_state(here, engine=self.engine) as state:
            store = state.open(self.spec)
            if parent.path is None:
                # After a rescale, a shard without rows has a stream time, but no files.
                state.advance(parent.stream_time)
            if spool.is_on_disk:
                done = apply_logs(
                    state,
                    store,
                    fresh,
                    partition_time=self.partition_time,
                    max_bytes=self.run_bytes,
                    scratch=scratch / f"parts-{shard}",
                )
            else:
                (log,) = fresh
                done = apply_log(state, store, log, partition_time=self.partition_time)
                del log
            offsets = fresh.offsets
            state.commit({(o.topic, o.partition): o.offset for o in offsets} or None)
            reached = fresh.stream_time if self.spec.shape == "key_value" else store.stream_time
        path = f"{self.root.attempts(self.job)}/{shard}-{attempt}/{name}"
        files = self.root.upload(here, path, parent, stamps)
        shutil.rmtree(here)
        return Shard(
            shard,
            path,
            files,
            done.rows + parent.rows,
            done.records + fresh.replayed,
            done.late,
            fresh.replayed,
            max(reached, parent.stream_time),
            offsets,
            fresh.ahead,
        )


def failure(error: Exception, shard: int | None = None) -> dict[str, Any]:
    """Return a message for an error that would occur again if Spark retried the task.

    Raise every other error again, so that Spark retries the task. ``shard`` is the number of the
    shard that had the error, or None if the shard is unknown.
    """
    text = str(error) if shard is None else f"shard {shard}: {error}"
    if isinstance(error, _NOT_RETRIED):
        return {"error": type(error).__name__, "text": text}
    if isinstance(error, OverflowError | pa.ArrowCapacityError):
        return {"error": "SpecError", "text": f"{text}; use more partitions"}
    raise error


def read_message(text: str) -> Shard:
    """Return the shard in a task's message. If the message contains an error, raise the error."""
    message = json.loads(text)
    if "error" in message:
        raise getattr(errors, message["error"])(message["text"])
    return Shard.from_dict(message["shard"])
