"""The tasks of `run_on_spark`, each of which processes one micro-batch in one shard.

A shard contains all stores of a sub-topology. The stores are separate databases, so a task records
all its writes, and commits them as one file. :mod:`kstore_core.spark.remote` implements such
commits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstore_core.errors import StateError
from kstore_core.processing import Subtopology, Task
from kstore_core.spark.live.epochs import Epoch, commit_epoch
from kstore_core.spark.live.shard import LiveShard
from kstore_core.spark.map_state.applying import apply_epoch, is_applied, opened
from kstore_core.spark.map_state.replay import decode_output, encode_output
from kstore_core.spark.map_state.sharding import BoundState
from kstore_core.spark.shards.routing import split_shard
from kstore_core.spark.subtopologies.progress import OUTPUT, PROGRESS, Progress
from kstore_core.spark.subtopologies.rows import SCHEMA, inputs_of, rows_of, shard_of

if TYPE_CHECKING:
    from kstore_core.engine import Durability
    from kstore_core.state import StateDirectory

__all__ = ["SubtopologyTask"]


@dataclass(frozen=True, slots=True)
class SubtopologyTask:
    """The data that each task of a sub-topology receives. Spark calls :meth:`run` in each task.

    Attributes
    ----------
    part : Subtopology
    state : BoundState
        The state that contains the shards.
    engine, durability, lock_timeout_s, uncommitted_max_bytes, partition_time
        The arguments of `run_on_spark`.
    """

    part: Subtopology
    state: BoundState[Any]
    engine: str
    durability: Durability
    lock_timeout_s: float
    uncommitted_max_bytes: int
    partition_time: bool

    def run(self, epoch: Epoch, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the rows of one shard, and yield the records that sinks sent."""
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        rows, shards = split_shard(pa.Table.from_batches(found))
        yield self.apply(shard_of(shards), epoch, rows.cast(SCHEMA))

    def apply(self, shard: int, epoch: Epoch, rows: pa.Table) -> pa.RecordBatch:
        """Process a micro-batch in a shard, commit it, and return the records that sinks sent.

        If the shard already contains the micro-batch, return the stored records instead.
        """
        apply = partial(self._applied, shard, epoch, rows)
        return apply_epoch(self.state, shard, self.engine, epoch, self.lock_timeout_s, apply)

    def _applied(self, shard: int, epoch: Epoch, rows: pa.Table, live: LiveShard) -> pa.RecordBatch:
        with opened(
            live,
            shard,
            epoch,
            durability=self.durability,
            uncommitted_max_bytes=self.uncommitted_max_bytes,
            lock_timeout_s=self.lock_timeout_s,
            partition_time=self.partition_time,
        ) as state:
            self._check_stores(state, live.where)
            store = state.open(PROGRESS)
            for spec in self.part.specs:
                state.open(spec)
            name = f"sub-topology {self.part.id}"
            if is_applied(state, epoch, live.where):
                return decode_output(epoch, store.get(OUTPUT), SCHEMA, name, live.where)
            known = Progress.of(store, live.where)
            progress = known or Progress()
            task = Task(self.part, state, clock=_now, partition_time=self.partition_time)
            try:
                made = {one.name for kind in task.context.schedules.values() for one in kind}
                progress.resume(task)
                was_active = _process(task, inputs_of(rows, shard, progress.next_offsets))
            finally:
                task.close()
            first, progress.sent = progress.sent, progress.sent + len(task.outputs)
            output = rows_of(task.outputs, shard, first)
            progress.take(task, made)
            if was_active or (known is None and made):  # new schedules start at this micro-batch
                progress.put(store)
                store.put(OUTPUT, encode_output(epoch, output, name))
                commit_epoch(state, epoch.query, epoch.number, task.offsets)
        return output

    def _check_stores(self, state: StateDirectory, where: str) -> None:
        """Raise StateError if a shard has a store that the sub-topology does not have."""
        unknown = set(state.stores()) - {spec.name for spec in self.part.specs} - {PROGRESS.name}
        if unknown:
            raise StateError(
                f"{where} has the store {min(unknown)!r}, which sub-topology {self.part.id} does "
                "not have. A changed topology must keep its stores and the numbers of its "
                "sub-topologies. Add the store to the topology, or pass another root and a new "
                "checkpoint"
            )


def _process(task: Task, records: Iterator[Any]) -> bool:
    """Process records, and call the schedules that are due.

    Schedules by stream time see the stream time at the end of the micro-batch. Return False if
    there was neither a record nor such a schedule.
    """
    for record in records:
        task.add(record)
    was_active = False
    while task.process():
        was_active = True
    if was_active:
        task.punctuate("stream_time")
    return task.punctuate("wall_clock") or was_active


def _now() -> int:
    return time.time_ns() // 1_000_000
