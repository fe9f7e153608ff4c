"""The task that checks the rows of one shard, restores them, and uploads the shard's directory.

If the data are wrong, a task returns the error as a message, so Spark does not retry the task. If
the machine fails, the task raises the error, so Spark retries the task.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kstore_core import errors
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.shard_files import Stamps
from kstore_core.spark.runtime.engines import engine_on_worker
from kstore_core.spark.shards.applying import apply_log
from kstore_core.spark.shards.log import ShardLog
from kstore_core.spec import StoreSpec

__all__ = ["MESSAGE_DDL", "ShardWriter", "failure", "read_message"]

MESSAGE_DDL = "message string"
"""The schema of the result of a task, which is one row with a JSON document."""

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
    """The description of a write job for its tasks. Spark calls :meth:`build` by ``mapInArrow``.

    Attributes
    ----------
    root : Root
        The root to write to.
    job : str
        The name of the job, whose uploads are in ``attempts/<job>``.
    spec : StoreSpec
        The spec of the store.
    engine : str
        The name of the engine of the shards.
    partitions : int
        The number of shards.
    parents : mapping
        The published shards that the job continues, by number. Empty for a new store.
    partition_time : bool
        Advance stream time also by the header ``partition-time``.
    """

    root: Root
    job: str
    spec: StoreSpec
    engine: str
    partitions: int
    parents: Mapping[int, Shard] = field(default_factory=dict)
    partition_time: bool = False

    def build(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the shard of this task, and yield one message, or none if there are no rows."""
        from pyspark import TaskContext

        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return
        task = TaskContext.get()
        assert task is not None
        try:
            rows = pa.Table.from_batches(filled)
            shard = self.write(task.partitionId(), task.taskAttemptId(), rows)
            message: dict[str, Any] = {"shard": dataclasses.asdict(shard)}
        except Exception as error:  # noqa: BLE001 - failure raises the error or returns a message
            message = failure(error, task.partitionId())
        yield pa.RecordBatch.from_pydict({"message": [json.dumps(message)]}, schema=_MESSAGE)

    def write(self, shard: int, attempt: int, rows: pa.Table) -> Shard:
        """Build a shard in a local directory, and upload it.

        ``rows`` must contain all new records of the shard.
        """
        return self._write(shard, attempt, ShardLog.of(rows, self.spec))

    def write_each(self, attempt: int, rows: pa.Table, *, by_key: bool) -> list[Shard]:
        """Write every shard of which ``rows`` contains records.

        ``rows`` must contain all new records of these shards. ``by_key`` is as in
        :meth:`ShardLog.places`.
        """
        log = ShardLog.of(rows, self.spec)
        places = log.places(self.partitions, by_key=by_key)
        return [
            self._write(int(shard), attempt, log.take(np.flatnonzero(places == shard)))
            for shard in np.unique(places)
        ]

    def _write(self, shard: int, attempt: int, log: ShardLog) -> Shard:
        from kstore_core import open_state

        log.check(shard, self.partitions)
        parent = self.parents.get(shard, Shard(shard))
        log, replayed = log.after(parent.offsets)
        if not len(log) and parent.path is not None:
            return dataclasses.replace(parent, records=replayed, late=0, replayed=replayed)
        log.check_decodable(self.spec)
        name = f"0_{shard}"
        stamps: Stamps = {}
        with tempfile.TemporaryDirectory(prefix="kstore-shard-") as scratch:
            here = Path(scratch, name)
            if parent.path is not None:
                stamps = self.root.fetch(parent, here)
            offsets = log.last_offsets(parent.offsets)
            engine_on_worker(self.engine)
            with open_state(here, engine=self.engine) as state:
                store = state.open(self.spec)
                done = apply_log(state, store, log, partition_time=self.partition_time)
                state.commit({(o.topic, o.partition): o.offset for o in offsets} or None)
                reached = log.stream_time if self.spec.shape == "key_value" else store.stream_time
            path = f"{self.root.attempts(self.job)}/{shard}-{attempt}/{name}"
            files = self.root.upload(here, path, parent, stamps)
        return Shard(
            shard,
            path,
            files,
            done.rows + parent.rows,
            done.records + replayed,
            done.late,
            replayed,
            max(reached, parent.stream_time),
            offsets,
        )


def failure(error: Exception, shard: int | None = None) -> dict[str, Any]:
    """Return the message for an error that a retry of the task would meet again.

    Raise any other error, so that Spark retries the task.
    """
    text = str(error) if shard is None else f"shard {shard}: {error}"
    if isinstance(error, _NOT_RETRIED):
        return {"error": type(error).__name__, "text": text}
    if isinstance(error, OverflowError | pa.ArrowCapacityError):
        return {"error": "SpecError", "text": f"{text}; use more partitions"}
    raise error


def read_message(text: str) -> Shard:
    """Return the shard that a task's message contains, or raise the error that it contains."""
    message = json.loads(text)
    if "error" in message:
        raise getattr(errors, message["error"])(message["text"])
    return Shard.from_dict(message["shard"])
