"""Tasks of `map_state`: a task applies one epoch to one shard, and commits it in one batch.

A task closes the state of its shard at the end. It must do so because an open state has the
writer's lock, and Spark may run the shard's next epoch in another process. A task commits before it
returns rows to Spark, so a retried task returns the same rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.engine import Durability
from kstore_core.errors import EngineLockedError, SpecError, StateError, UncommittedLimitError
from kstore_core.spark.columns.partition_headers import latest_partition_time
from kstore_core.spark.live.epochs import BATCH, Epoch, commit_epoch, epoch_of_task, last_epoch
from kstore_core.spark.map_state.output import OutputRows
from kstore_core.spark.map_state.replay import OUTPUT_NOTE, decode_output, encode_output
from kstore_core.spark.map_state.rows import Groups, Rows, Times
from kstore_core.spark.map_state.sharding import BoundState
from kstore_core.spark.runtime.engines import engine_on_worker, this_worker
from kstore_core.spark.shards.routing import split_shard
from kstore_core.spec import StoreSpec

__all__ = ["KeyedFunction", "ShardTask", "Work"]


class Work(Protocol):
    """The interface of the code that processes the rows of one shard and epoch."""

    @property
    def name(self) -> str:
        """The name of the work, for messages and for the check of a replayed output."""

    def __call__(self, store: Any, rows: pa.Table) -> pa.RecordBatch:
        """Process ``rows`` with ``store``, and return the output. The caller commits the writes."""


@dataclass(frozen=True, slots=True)
class ShardTask:
    """The arguments of `map_state` that each task receives; ``mapInArrow`` calls :meth:`run`."""

    state: BoundState
    spec: StoreSpec
    engine: str
    partitions: int
    names: tuple[str, ...]  # of the DataFrame's columns, without the shard
    schema: pa.Schema  # of the output
    columns: tuple[str, ...]  # the output's names in Spark
    work: Work
    batch_run: int | None  # its number; None for a stream
    durability: Durability
    lock_timeout_s: float
    uncommitted_max_bytes: int
    partition_time: str | None = None  # the column of headers that advances stream time

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the rows of one shard, and yield the output."""
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        rows, shards = split_shard(pa.Table.from_batches(found))
        rows, shard = rows.rename_columns(list(self.names)), self._shard(shards)
        output = self.apply(shard, epoch_of_task(self.batch_run), rows)
        yield pa.RecordBatch.from_arrays(output.columns, names=list(self.columns))

    def apply(self, shard: int, epoch: Epoch, rows: pa.Table) -> pa.RecordBatch:
        """Apply an epoch to a shard, commit it, and return the output.

        If the shard contains the epoch already, return the stored output. Raises StateError if the
        shard belongs to another query or contains a later epoch, EngineLockedError if another task
        has locked the shard, and UncommittedLimitError if the epoch writes too many bytes.
        """
        from kstore_core import open_state

        self.state.check_seen()
        if epoch.query != BATCH:
            self.state.claim(epoch.query)
        engine_on_worker(self.engine)
        where = self.state.layout.shard(shard)
        try:
            state = open_state(
                where,
                engine=self.engine,
                durability=self.durability,
                transactional=True,  # without it, rows could be committed before the epoch
                uncommitted_max_bytes=self.uncommitted_max_bytes,
                lock_timeout_s=self.lock_timeout_s,
            )
        except EngineLockedError as error:
            error.add_note(
                f"{epoch} of shard {shard}, on {this_worker()}, waited {self.lock_timeout_s} s. A "
                "task that Spark has abandoned may still run; pass a greater lock_timeout_s"
            )
            raise
        try:
            store = state.open(self.spec)
            last = last_epoch(state, epoch.query)
            if last is not None and last >= epoch.number:
                if last > epoch.number:
                    raise _contains_later(str(where), epoch, last)
                note = state.notes(self.spec.name).get(OUTPUT_NOTE)
                return decode_output(epoch, note, self.schema, self.work.name, str(where))
            clock = store.parts.clock
            if clock is not None:
                # Rows are sorted by key, so lateness must not depend on their order.
                clock.hold()
            output = self.work(store, rows)
            if self.partition_time is not None:
                latest = latest_partition_time(rows[self.partition_time])
                if latest is not None:
                    state.advance(latest)
            notes = {OUTPUT_NOTE: encode_output(epoch, output, self.work.name)}
            commit_epoch(state, epoch.query, epoch.number, notes=notes)
        except UncommittedLimitError as error:
            error.add_note(
                f"{epoch} writes more than {self.uncommitted_max_bytes} bytes to shard {shard}; "
                "make batches smaller, use more partitions, or pass a greater "
                "uncommitted_max_bytes"
            )
            raise
        except Exception as error:
            error.add_note(f"map_state, shard {shard} ({where}), {epoch}: nothing was committed")
            raise
        finally:
            state.close()
        return output

    def _shard(self, column: pa.ChunkedArray) -> int:
        if column.null_count:
            raise SpecError(
                f"{column.null_count} rows have a null in the column 'partition', so they have no "
                "shard; filter these rows out"
            )
        least, most = pc.min_max(column).as_py().values()
        if not 0 <= least <= most < self.partitions:
            raise SpecError(
                f"the rows have the partitions {least} to {most}, but the state has only the "
                f"shards 0 to {self.partitions - 1}; pass partitions={max(most + 1, 1)} for a new "
                "root, or partition_by='key'"
            )
        if least != most:
            raise StateError(
                f"Spark passed the rows of the shards {least} to {most} to one task; set "
                "spark.sql.adaptive.enabled=false, so that Spark does not merge partitions"
            )
        return int(least)


@dataclass(frozen=True, slots=True)
class KeyedFunction:
    """The work that calls a user's function for each key; it has the arguments of `map_state`."""

    function: Callable[[Any, Rows, Any], Any]
    spec: StoreSpec
    key: str
    order_by: tuple[str, ...]
    timestamps: Times
    schema: pa.Schema

    @property
    def name(self) -> str:
        """The qualified name of the function or of its class. It is equal in every process."""
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        return getattr(function, "__qualname__", None) or type(function).__qualname__

    def __call__(self, store: Any, rows: pa.Table) -> pa.RecordBatch:
        """Call the function for each key, and return the rows that it returned.

        An exception of the function gets a note with the key. Raises SpecError if a row has a null
        key, or if the output does not fit the schema.
        """
        from kstore_core.codec import Headers
        from kstore_core.spark.columns.arrow import combined, serialized

        column = combined(rows[self.key], self.key)
        if column.null_count:
            raise SpecError(
                f"{column.null_count} rows have a null in the column {self.key!r}, but a null key "
                "has no state; filter these rows out"
            )
        output = OutputRows(self.schema)
        deserialize, no_headers, function = self.spec.key.deserialize, Headers(), self.function
        grouped = Groups(rows, serialized(self.spec.key, column), self.order_by, self.timestamps)
        for raw, of_key in grouped:
            key = deserialize(raw, no_headers)
            try:
                output.add(key, function(key, of_key, store))
            except Exception as error:
                error.add_note(f"{self.name} was called with the key {key!r}, {of_key!r}")
                raise
        try:
            return output.batch()
        except SpecError as error:
            error.add_note(f"{self.name} returned these rows")
            raise


def _contains_later(where: str, epoch: Epoch, last: int) -> StateError:
    if epoch.query == BATCH:
        return StateError(
            f"{where} contains batch run {last}, but {epoch} was planned before that run. Call "
            "map_state again, and evaluate the result before the next call on the same root"
        )
    return StateError(
        f"{where} contains epoch {last} of the query {epoch.query}, but Spark runs epoch "
        f"{epoch.number}, so the checkpoint is older than the state. Restore the checkpoint and "
        "the state from copies of the same time, or pass another root and a new checkpoint"
    )
