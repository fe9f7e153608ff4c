"""The tasks of `map_state`, each of which applies one epoch to one shard.

A task commits all writes of the epoch in one transaction. The task commits before it returns rows
to Spark, so that a retry of the task returns the same rows. At its end the task closes the shard's
state, which releases the writer's lock. Spark may process the shard's next epoch in another
process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.engine import Durability
from kstore_core.errors import SpecError, StateError
from kstore_core.spark.columns.partition_headers import latest_partition_time
from kstore_core.spark.live.epochs import Epoch, commit_epoch, epoch_of_task
from kstore_core.spark.live.shard import LiveShard
from kstore_core.spark.map_state.applying import apply_epoch, is_applied, opened
from kstore_core.spark.map_state.output import OutputRows
from kstore_core.spark.map_state.replay import (
    OUTPUT_NOTE,
    RESCALED_NOTE,
    decode_output,
    encode_output,
)
from kstore_core.spark.map_state.rows import Groups, Rows, Times
from kstore_core.spark.map_state.sharding import BoundState
from kstore_core.spark.shards.routing import split_shard
from kstore_core.spec import StoreSpec

__all__ = ["KeyedFunction", "ShardTask", "Work"]


class Work(Protocol):
    """The interface of a function that processes the rows of one epoch in one shard."""

    @property
    def name(self) -> str:
        """The name of the work. A replay is refused if the name differs from the stored name."""

    def __call__(self, store: Any, rows: pa.Table) -> pa.RecordBatch:
        """Process the rows of a shard with the shard's store, and return the output.

        The method must not commit its writes to ``store``, because the caller commits them.
        """


@dataclass(frozen=True, slots=True)
class ShardTask:
    """The arguments of `map_state` that each task receives. Spark calls :meth:`run` in each task.

    Attributes
    ----------
    state : BoundState
        The state that contains the shards.
    partitions : int
        The number of shards.
    names : tuple of str
        The names of the DataFrame's columns, without the column of the shard.
    schema : Schema
        The schema of the output.
    columns : tuple of str
        The names of the output's columns in Spark, which replace the names in ``schema``.
    work : Work
        The function that processes the rows of a shard.
    batch_run : int, optional
        The number of the batch run, or None for a stream.
    spec, engine, durability, lock_timeout_s, uncommitted_max_bytes, partition_time
        The arguments of `map_state`.
    """

    state: BoundState[Any]
    spec: StoreSpec
    engine: str
    partitions: int
    names: tuple[str, ...]
    schema: pa.Schema
    columns: tuple[str, ...]
    work: Work
    batch_run: int | None
    durability: Durability
    lock_timeout_s: float
    uncommitted_max_bytes: int
    partition_time: str | None = None

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
        """Apply an epoch to a shard, commit its writes, and return its output.

        If the shard already contains the epoch, return the stored output instead. Raises StateError
        if the state belongs to another query or the shard contains a later epoch. Raises
        EngineLockedError if another task has locked the shard. Raises UncommittedLimitError if the
        epoch writes more than ``uncommitted_max_bytes`` bytes.
        """
        return apply_epoch(
            self.state,
            shard,
            self.engine,
            epoch,
            self.lock_timeout_s,
            functools.partial(self._applied, shard, epoch, rows),
        )

    def _applied(self, shard: int, epoch: Epoch, rows: pa.Table, live: LiveShard) -> pa.RecordBatch:
        """Apply an epoch to the state directory of a shard, and commit and close the directory."""
        with opened(
            live,
            shard,
            epoch,
            durability=self.durability,
            uncommitted_max_bytes=self.uncommitted_max_bytes,
            lock_timeout_s=self.lock_timeout_s,
        ) as state:
            if live.is_shared:
                self.state.check_seen()
            store = state.open(self.spec)
            if is_applied(state, epoch, live.where):
                notes = state.notes(self.spec.name)
                note = notes.get(OUTPUT_NOTE)
                if note is None and RESCALED_NOTE in notes:
                    raise self._rescaled(shard, epoch)
                return decode_output(epoch, note, self.schema, self.work.name, live.where)
            clock = store.parts.clock
            if clock is not None:
                # The rows are processed in the order of their keys, not of their arrival. So that
                # this order does not decide which rows are late, fix the time before which rows are
                # late.
                clock.hold()
            output = self.work(store, rows)
            if self.partition_time is not None:
                latest = latest_partition_time(rows[self.partition_time])
                if latest is not None:
                    state.advance(latest)
            output_note = {OUTPUT_NOTE: encode_output(epoch, output, self.work.name)}
            commit_epoch(state, epoch.query, epoch.number, notes=output_note)
        return output

    def _rescaled(self, shard: int, epoch: Epoch) -> StateError:
        return StateError(
            f"shard {shard} of {self.state.layout} was rescaled before {epoch} had ended, and "
            f"Spark now runs {epoch} again. The output that the shard must return was not moved. "
            "To end the micro-batch, go back to the earlier shards with: "
            f"{self.state.way_back()}. Run the query with the "
            "earlier number of partitions until the micro-batch has ended, stop the query, and "
            "call kstore_core.spark.rescale again"
        )

    def _shard(self, column: pa.ChunkedArray) -> int:
        if column.null_count:
            raise SpecError(
                f"{column.null_count} rows have a null in the column 'partition', so they have no "
                "shard; filter these rows out"
            )
        least, most = pc.min_max(column).as_py().values()
        if least < 0:
            raise SpecError(
                f"the column 'partition' contains the negative number {least}, which is not the "
                "number of a partition; correct the column, or pass partition_by='key'"
            )
        if most >= self.partitions:
            raise SpecError(
                f"the rows have the partitions {least} to {most}, but the state has only the "
                f"shards 0 to {self.partitions - 1}; pass partitions={most + 1} and a new "
                "root, or pass partition_by='key'"
            )
        if least != most:
            raise StateError(
                f"Spark passed the rows of the shards {least} to {most} to one task; set "
                "spark.sql.adaptive.enabled=false, so that Spark does not merge partitions"
            )
        return int(least)


@dataclass(frozen=True, slots=True)
class KeyedFunction:
    """The work of `map_state`, which calls the user's function for each key.

    ``function`` is the argument ``fn`` of `map_state`. ``schema`` is the schema of the output. The
    other attributes are arguments of `map_state`.
    """

    function: Callable[[Any, Rows, Any], Any]
    spec: StoreSpec
    key: str
    order_by: tuple[str, ...]
    timestamps: Times
    schema: pa.Schema

    @property
    def name(self) -> str:
        """The qualified name of the function, or of its class if the function has no name.

        The name is the same in every process.
        """
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        return getattr(function, "__qualname__", None) or type(function).__qualname__

    def __call__(self, store: Any, rows: pa.Table) -> pa.RecordBatch:
        """Call the function for each key, and return the rows that the calls returned.

        If the function raises an exception, a note with the key is added to the exception. Raises
        SpecError if a row has a null key, or if the output does not fit the schema.
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
                error.add_note(
                    f"this error occurred when {self.name} was called with the key {key!r}, "
                    f"{of_key!r}"
                )
                raise
        try:
            return output.batch()
        except SpecError as error:
            error.add_note(f"the function {self.name} returned this output")
            raise
