"""The tasks of a stream, each of which applies an epoch's records to one live shard.

Tasks run on the workers. The number of a task's Spark partition is the number of its shard. A task
commits the records, copies the shard if a version is due, and reports to the driver. A process may
die after any of these steps. docs/streaming.md lists the state after each step, and what the next
attempt of the task does.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstore_core.errors import StateError
from kstore_core.spark.columns.partition_headers import header_times
from kstore_core.spark.live.epochs import Epoch, commit_epoch, last_epoch
from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.live.shard import LiveShard
from kstore_core.spark.remote.layout import COMPACT_EVERY, RemoteLayout, layout_of
from kstore_core.spark.root.manifest import Offset, Shard
from kstore_core.spark.root.offsets import still_ahead
from kstore_core.spark.runtime.engines import engine_on_worker
from kstore_core.spark.shards.applying import apply_log
from kstore_core.spark.shards.log import ShardLog
from kstore_core.spark.shards.writing import failure
from kstore_core.spark.stream.changes import changes, changes_schema
from kstore_core.spark.stream.publishing import is_job_of, publish_shard
from kstore_core.spark.stream.steps import StepHook, no_step

if TYPE_CHECKING:
    from kstore_core.spark.root.root import Root
    from kstore_core.spark.stream.versions import Versions
    from kstore_core.spark.write.job import WriteJob
    from kstore_core.spec import StoreSpec
    from kstore_core.state import StateDirectory

__all__ = ["EpochTask", "message_schema"]

_COUNTS = "counts"
_LOCK_TIMEOUT_S = 60.0  # the process of a killed attempt may hold the lock for this time


def message_schema(spec: StoreSpec, *, emits: bool) -> pa.Schema:
    """Return the columns of the rows that :meth:`EpochTask.run` yields.

    A row contains a message or, if ``emits`` is true, a row of the output of the epoch. The columns
    of a message are null in a row of the output, and the columns of the output in a message.
    """
    fields = [pa.field("message", pa.string())]
    return pa.schema(fields + (list(changes_schema(spec)) if emits else []))


@dataclass(frozen=True, slots=True)
class EpochTask:
    """The description of an epoch that Spark sends to each task of the epoch.

    ``mapInArrow`` calls :meth:`run` in the task.
    """

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
    )  # the shards that changed after ``version``; None if unknown
    emits: bool = False
    partition_time: bool = False  # True if the header partition-time advances stream time
    compact_every: int = COMPACT_EVERY  # see RemoteLayout
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
        """Return the description of an epoch of the stream that publishes ``versions``."""
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
            versions.compact_every,
            step,
        )

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Apply the epoch to the shard of this task. Yield a message, and then the output if any.

        Yield nothing if the task has no records and copies no shard.
        """
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
        except Exception as error:  # noqa: BLE001 - failure() raises errors that Spark may retry
            message = failure(error, shard)
        schema = message_schema(self.spec, emits=self.emits)
        rest = [pa.nulls(1, field.type) for field in list(schema)[1:]]
        yield from pa.table([pa.array([json.dumps(message)]), *rest], schema=schema).to_batches()
        if output is not None and output.num_rows:
            nothing = pa.nulls(output.num_rows, pa.string())
            yield from output.add_column(0, schema.field("message"), nothing).to_batches()

    def apply(self, shard: int, log: ShardLog | None) -> tuple[Shard | None, pa.Table | None]:
        """Apply this epoch to a live shard, and copy the shard if a version is due.

        ``log`` contains all records of the epoch that belong to the shard, or is None if there are
        no records. If the shard contains the epoch already, do not apply it again.

        Return a description of the shard, and the output of the epoch. The description has a path
        if the shard was copied. The output is None if the task emits no output. Both results are
        None if there are no records and no copy is due.
        """
        if log is None and not self._copies(shard):
            return None, None
        if log is not None:
            self.check(shard, log)
        while True:
            with self._layout.checkout(self.query, "", shard, self.engine, _LOCK_TIMEOUT_S) as live:
                found = self._applied(live, shard, log)
                if live.commit(Epoch(self.query, self.epoch)):
                    self.step("put", shard)
                    return found
            # Another attempt was faster, and the shard now contains the epoch.

    def _applied(
        self, live: LiveShard, shard: int, log: ShardLog | None
    ) -> tuple[Shard | None, pa.Table | None]:
        """Apply this epoch to a shard, as :meth:`apply` describes, and close its directory."""
        with self._opened(live, shard) as state:
            store = state.open(self.spec)
            contained = last_epoch(state, self.query)
            if contained is not None and contained > self.epoch:
                raise StateError(
                    f"{live.where} contains epoch {contained} of the stream {self.query}, but "
                    f"Spark runs epoch {self.epoch}, so the checkpoint is older than the store. "
                    "Use the newest checkpoint, or remove "
                    f"{live.where.rpartition('/')[0]} and start with a new checkpoint"
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

    @property
    def _layout(self) -> LiveLayout | RemoteLayout:
        return layout_of(self.root.storage, compact_every=self.compact_every)

    def check(self, shard: int, log: ShardLog) -> None:
        """Raise an error if a record does not fit the store or belongs to another shard."""
        log.check(shard, self.partitions)
        log.check_decodable(self.spec)
        if self.partition_time:
            header_times(log.headers, len(log))

    def _copies(self, shard: int) -> bool:
        """Return True if an epoch without records for the shard must copy the shard.

        The epoch must copy the shard if a version is due and the shard may have changed after the
        newest version.
        """
        if self.job is None or (self.unpublished is not None and shard not in self.unpublished):
            return False
        try:
            return self._layout.is_written(shard)
        except FileNotFoundError:
            raise _lost(f"{self._layout}/0_{shard}") from None

    def _opened(self, live: LiveShard, shard: int) -> StateDirectory:
        """Open the live shard.

        A live shard to which nothing was written starts as a copy of the newest published version.
        But if this stream published that version of the shard, the live shard has lost its files,
        and the method raises a StateError.
        """
        from kstore_core import open_state
        from kstore_core.state.opening import DEFAULT_UNCOMMITTED_MAX_BYTES

        base = self.version[shard]
        try:
            is_new = live.is_new
        except FileNotFoundError:
            raise _lost(live.where) from None
        if base.path is not None and is_new:
            if is_job_of(self.query, base.path) or self._is_in(base):
                raise _lost(live.where)
            with self.root.local_shard(base) as published:
                live.fill(published)
        engine_on_worker(self.engine)
        return open_state(
            live.path,
            engine=live.engine,
            lock_timeout_s=_LOCK_TIMEOUT_S,
            # The changes of an epoch are uploaded together, so to write them early would not save
            # memory.
            transactional=not live.is_shared,
            uncommitted_max_bytes=DEFAULT_UNCOMMITTED_MAX_BYTES if live.is_shared else -1,
        )

    def _is_in(self, base: Shard) -> bool:
        """Return True if a published shard contains an epoch of this stream.

        The method reads the shard, because after a rescale, and after an append that follows a
        rescale, the name of the job that published the shard does not name the stream.
        """
        from kstore_core import open_state

        engine_on_worker(self.engine)
        with (
            self.root.local_shard(base) as place,
            open_state(place, engine=self.engine, read_only=True) as state,
        ):
            return last_epoch(state, self.query) is not None

    def _commit(self, state: StateDirectory, store: Any, log: ShardLog, shard: int) -> None:
        before = self._committed(state, shard)
        fresh, replayed = log.after(before.offsets, before.ahead)
        if self.version[shard].path is None:
            # After a rescale, a shard without rows has a stream time, but no files.
            state.advance(self.version[shard].stream_time)
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
        """Return a description of the shard with the counts and offsets of its last commit."""
        base = self.version[shard]
        note = state.notes(self.spec.name).get(_COUNTS)
        counts = json.loads(note) if note else {"rows": base.rows, "stream_time": base.stream_time}
        stored = dict(state.offsets(self.spec.name))
        if base.path is None:  # After a rescale, a shard without rows has offsets, but no files.
            stored = {(o.topic, o.partition): o.offset for o in base.offsets} | stored
        offsets = tuple(Offset(*where, offset) for where, offset in sorted(stored.items()))
        ahead = still_ahead(base.ahead, offsets)
        return Shard(shard, offsets=offsets, ahead=ahead, **counts)


def _lost(where: str) -> StateError:
    live = where.rpartition("/")[0]
    return StateError(
        f"the live state {where} of a shard is missing, so everything that the stream wrote to "
        f"this shard after the newest version is lost. Remove {live} and start the stream with a "
        "new checkpoint; the stream then continues from the newest version"
    )
