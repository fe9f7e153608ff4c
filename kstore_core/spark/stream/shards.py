"""Tasks of a stream: a task applies, commits, copies and reports one shard's rows of an epoch.

Tasks run on the workers. The number of the Spark partition is the number of the shard. A process
may die after each step; docs/streaming.md lists the state after each step, and what the next
attempt does.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstore_core.errors import StateError
from kstore_core.spark.columns.partition_headers import header_times
from kstore_core.spark.live.epochs import commit_epoch, last_epoch
from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.root.manifest import Offset, Shard
from kstore_core.spark.runtime.engines import engine_on_worker
from kstore_core.spark.shards.applying import apply_log
from kstore_core.spark.shards.log import ShardLog
from kstore_core.spark.shards.writing import failure
from kstore_core.spark.stream.changes import changes, changes_schema
from kstore_core.spark.stream.publishing import begin_from, is_job_of, publish_shard
from kstore_core.spark.stream.steps import StepHook, no_step

if TYPE_CHECKING:
    from kstore_core.spark.root.root import Root
    from kstore_core.spark.stream.versions import Versions
    from kstore_core.spark.write.job import WriteJob
    from kstore_core.spec import StoreSpec
    from kstore_core.state import StateDirectory

__all__ = ["EpochTask", "message_schema"]

_COUNTS = "counts"
_LOCK_TIMEOUT_S = 60.0  # the worker of a killed attempt may need this time to end


def message_schema(spec: StoreSpec, *, emits: bool) -> pa.Schema:
    """Return the columns of the rows of :meth:`EpochTask.run`.

    A row has either a message or, if the task emits, the columns of the output.
    """
    fields = [pa.field("message", pa.string())]
    return pa.schema(fields + (list(changes_schema(spec)) if emits else []))


@dataclass(frozen=True, slots=True)
class EpochTask:
    """The data about an epoch that each task receives; ``mapInArrow`` calls :meth:`run`."""

    root: Root
    spec: StoreSpec
    engine: str
    partitions: int
    query: str
    epoch: int
    version: tuple[Shard, ...]  # the shards of the newest version
    job: str | None = None  # the job that publishes the epoch; None if no version is due
    unpublished: frozenset[int] | None = (
        frozenset()
    )  # shards changed since the version; None if unknown
    emits: bool = False
    partition_time: bool = False  # if true, the header advances stream time
    step: StepHook = no_step

    @classmethod
    def of(
        cls,
        versions: Versions,
        epoch: int,
        job: WriteJob | None,
        *,
        emits: bool = False,
        partition_time: bool = False,
        step: StepHook = no_step,
    ) -> EpochTask:
        """Return the task for an epoch of the stream that writes ``versions``."""
        stream, unpublished = versions.stream, versions.unpublished
        return cls(
            versions.root,
            versions.spec,
            stream.engine,
            stream.partitions,
            stream.query,
            epoch,
            versions.shards,
            None if job is None else job.job,
            None if unpublished is None else frozenset(unpublished),
            emits,
            partition_time,
            step,
        )

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Apply the epoch to the shard of this task; yield a message, and then the output."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        shard = context.partitionId()
        filled = [batch for batch in batches if batch.num_rows]
        output = None
        try:
            log = ShardLog.of(pa.Table.from_batches(filled), self.spec) if filled else None
            done, output = self.apply(shard, log)
            if done is None:
                return
            message = {"shard": dataclasses.asdict(done)}
        except Exception as error:  # noqa: BLE001 - failure raises errors that Spark may retry
            message = failure(error, shard)
        schema = message_schema(self.spec, emits=self.emits)
        rest = [pa.nulls(1, field.type) for field in list(schema)[1:]]
        yield from pa.table([pa.array([json.dumps(message)]), *rest], schema=schema).to_batches()
        if output is not None and output.num_rows:
            nothing = pa.nulls(output.num_rows, pa.string())
            yield from output.add_column(0, schema.field("message"), nothing).to_batches()

    def apply(self, shard: int, log: ShardLog | None) -> tuple[Shard | None, pa.Table | None]:
        """Apply this epoch to a shard, unless the shard contains it, and copy the shard if due.

        ``log`` has all records of the epoch for this shard; None means that there are none. Returns
        the shard and the output. The shard has a path if it was copied. The output is None if the
        task does not emit. Both are None if there are no records and no copy is due.
        """
        if log is None and not self._copies(shard):
            return None, None
        if log is not None:
            self.check(shard, log)
        with self._opened(shard) as state:
            store = state.open(self.spec)
            contained = last_epoch(state, self.query)
            if contained is not None and contained > self.epoch:
                raise StateError(
                    f"{state.path} contains epoch {contained} of the stream {self.query}, but "
                    f"Spark runs epoch {self.epoch}, so the checkpoint is older than the store. "
                    "Use the newest checkpoint; or remove "
                    f"{state.path.parent} and start with a new checkpoint"
                )
            self.step("opened", shard)
            if log is not None and contained != self.epoch:
                self._commit(state, store, log, shard)
            done = self._committed(state, shard)
            if self.job is not None and self.root.has_begun(self.job):
                done = publish_shard(self.root, self.job, state, done, self.version[shard])
                self.step("copied", shard)
            output = changes(store, log.keys, shard) if self.emits and log is not None else None
            return done, output

    def check(self, shard: int, log: ShardLog) -> None:
        """Raise an exception if a record does not fit the store or belongs to another shard."""
        log.check(shard, self.partitions)
        log.check_decodable(self.spec)
        if self.partition_time:
            header_times(log.headers, len(log))

    def _copies(self, shard: int) -> bool:
        """Return True if a version is due and the shard has changes that are not published."""
        if self.job is None or (self.unpublished is not None and shard not in self.unpublished):
            return False
        return any(self._path(shard).iterdir())

    def _path(self, shard: int) -> Path:
        path = LiveLayout.of(self.root.path).shard(shard)
        if not path.is_dir():
            raise _lost(path)
        return path

    def _opened(self, shard: int) -> StateDirectory:
        """Open the live shard. A new shard starts as a copy of the shard in the newest version."""
        from kstore_core import open_state

        path = self._path(shard)
        base = self.version[shard]
        if base.path is not None and not any(path.iterdir()):
            if is_job_of(self.query, base.path):
                raise _lost(path)
            begin_from(self.root, base, path)
        engine_on_worker(self.engine)
        return open_state(path, engine=self.engine, lock_timeout_s=_LOCK_TIMEOUT_S)

    def _commit(self, state: StateDirectory, store: Any, log: ShardLog, shard: int) -> None:
        before = self._committed(state, shard)
        fresh, replayed = log.after(before.offsets)
        done = apply_log(state, store, fresh, partition_time=self.partition_time)
        self.step("applied", shard)
        reached = fresh.stream_time if self.spec.shape == "key_value" else store.stream_time
        counts = {
            "rows": before.rows + done.rows,
            "records": before.records + done.records + replayed,
            "late": before.late + done.late,
            "replayed": before.replayed + replayed,
            "stream_time": max(before.stream_time, reached),
        }
        commit_epoch(
            state,
            self.query,
            self.epoch,
            {(o.topic, o.partition): o.offset for o in fresh.last_offsets(before.offsets)},
            notes={_COUNTS: json.dumps(counts, separators=(",", ":")).encode()},
        )
        self.step("committed", shard)

    def _committed(self, state: StateDirectory, shard: int) -> Shard:
        """Return the description of the shard at its last commit."""
        base = self.version[shard]
        note = state.notes(self.spec.name).get(_COUNTS)
        counts = json.loads(note) if note else {"rows": base.rows, "stream_time": base.stream_time}
        offsets = sorted(state.offsets(self.spec.name).items())
        return Shard(
            shard, offsets=tuple(Offset(*where, offset) for where, offset in offsets), **counts
        )


def _lost(path: Path) -> StateError:
    return StateError(
        f"the live state {path} of a shard is missing, so everything that the stream wrote to this "
        f"shard after the newest version is lost. Remove {path.parent} and start the stream with a "
        "new checkpoint; the stream then continues from the newest version"
    )
