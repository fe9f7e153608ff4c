"""The task that writes one shard: it checks the rows, restores them, and uploads the directory.

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
"""The result of a task: one row, a JSON document."""

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
    """A write job as its tasks receive it; ``mapInArrow`` runs :meth:`build`."""

    root: Root
    job: str  # uploads are in attempts/<job>
    spec: StoreSpec
    engine: str
    partitions: int
    parents: Mapping[int, Shard] = field(default_factory=dict)  # that the version continues
    partition_time: bool = False  # advance stream time also by the header of that name

    def build(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the shard of this task; return one message, none for a shard without rows."""
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
        except Exception as error:  # noqa: BLE001 - raised again, or sent to the driver
            message = failure(error, task.partitionId())
        yield pa.RecordBatch.from_pydict({"message": [json.dumps(message)]}, schema=_MESSAGE)

    def write(self, shard: int, attempt: int, rows: pa.Table) -> Shard:
        """Build a shard of all its records in a local directory, and upload it."""
        return self._write(shard, attempt, ShardLog.of(rows, self.spec))

    def write_each(self, attempt: int, rows: pa.Table, *, by_key: bool) -> list[Shard]:
        """Write the shards of records, which contain all records of these shards."""
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
    """Return the message of an error that a retry would raise again; other errors are raised."""
    text = str(error) if shard is None else f"shard {shard}: {error}"
    if isinstance(error, _NOT_RETRIED):
        return {"error": type(error).__name__, "text": text}
    if isinstance(error, OverflowError | pa.ArrowCapacityError):
        return {"error": "SpecError", "text": f"{text}; use more partitions"}
    raise error


def read_message(text: str) -> Shard:
    """Return the shard in a message; an error in a message is raised."""
    message = json.loads(text)
    if "error" in message:
        raise getattr(errors, message["error"])(message["text"])
    return Shard.from_dict(message["shard"])
