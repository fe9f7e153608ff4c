"""Tasks of `map_state`: one epoch of one shard, applied once, in one engine batch.

A task opens its shard's state and closes it, because an open state has the writer's lock and Spark
may give the shard's next epoch to another process. A task commits before it returns rows to Spark,
so a retry returns the same rows.
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
    """The processing of a shard's rows of an epoch with its store."""

    @property
    def name(self) -> str:
        """The name in messages, by which a replay recognises the work."""

    def __call__(self, store: Any, rows: pa.Table) -> pa.RecordBatch:
        """Return the output; all that was written is committed afterwards, or none."""


@dataclass(frozen=True, slots=True)
class ShardTask:
    """The part of a plan that travels to the tasks; ``mapInArrow`` runs :meth:`run`."""

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
        """Map the rows of one shard to their output."""
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        rows, shards = split_shard(pa.Table.from_batches(found))
        rows, shard = rows.rename_columns(list(self.names)), self._shard(shards)
        output = self.apply(shard, epoch_of_task(self.batch_run), rows)
        yield pa.RecordBatch.from_arrays(output.columns, names=list(self.columns))

    def apply(self, shard: int, epoch: Epoch, rows: pa.Table) -> pa.RecordBatch:
        """Apply an epoch to a shard and commit it; a replay returns the same output.

        StateError if the shard is another query's or contains later epochs, EngineLockedError if
        another task keeps it, UncommittedLimitError if the epoch writes too much.
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
                transactional=True,  # rows that went ahead of their epoch would be applied twice
                uncommitted_max_bytes=self.uncommitted_max_bytes,
                lock_timeout_s=self.lock_timeout_s,
            )
        except EngineLockedError as error:
            error.add_note(
                f"{epoch} of shard {shard}, on {this_worker()}, waited {self.lock_timeout_s} s. A "
                "task that Spark gave up may still run: wait longer with lock_timeout_s=…"
            )
            raise
        try:
            store = state.open(self.spec)
            last = last_epoch(state, epoch.query)
            if last is not None and last >= epoch.number:
                if last > epoch.number:
                    raise StateError(_overtaken(str(where), epoch, last))
                note = state.notes(self.spec.name).get(OUTPUT_NOTE)
                return decode_output(epoch, note, self.schema, self.work.name, str(where))
            clock = store.parts.clock
            if clock is not None:
                clock.hold()  # rows come key after key: stream time before the epoch judges them
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
                "make batches smaller, use more partitions, or pass uncommitted_max_bytes=…"
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
                "shard; leave them out with a filter"
            )
        least, most = pc.min_max(column).as_py().values()
        if not 0 <= least <= most < self.partitions:
            raise SpecError(
                f"rows of the partitions {least} to {most} came, and the state has the shards 0 to "
                f"{self.partitions - 1}; pass partitions={max(most + 1, 1)} for a new root, or "
                "partition_by='key'"
            )
        if least != most:
            raise StateError(
                f"Spark gave one task the rows of the shards {least} to {most}; keep its plan from "
                "merging partitions: spark.sql.adaptive.enabled=false"
            )
        return int(least)


@dataclass(frozen=True, slots=True)
class KeyedFunction:
    """A user's function, called once a key; the fields are arguments of `map_state`."""

    function: Callable[[Any, Rows, Any], Any]
    spec: StoreSpec
    key: str
    order_by: tuple[str, ...]
    timestamps: Times
    schema: pa.Schema

    @property
    def name(self) -> str:
        """The function's qualified name, or its class's: the same in every process."""
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        return getattr(function, "__qualname__", None) or type(function).__qualname__

    def __call__(self, store: Any, rows: pa.Table) -> pa.RecordBatch:
        """Call the function for each key; its own errors pass, with the key in a note.

        A SpecError if a row has no key, or the output does not fit the schema.
        """
        from kstore_core.codec import Headers
        from kstore_core.spark.columns.arrow import combined, serialized

        column = combined(rows[self.key], self.key)
        if column.null_count:
            raise SpecError(
                f"{column.null_count} rows have a null in the column {self.key!r}, and only a key "
                "has state; leave them out with a filter"
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
            error.add_note(f"these rows were given by {self.name}")
            raise


def _overtaken(where: str, epoch: Epoch, last: int) -> str:
    if epoch.query == BATCH:
        return (
            f"{where} contains batch run {last}, and {epoch} was planned before it: a DataFrame of "
            "map_state is evaluated before the next one on its root is made. Call map_state again"
        )
    return (
        f"{where} contains epoch {last} of the query {epoch.query}, and Spark asks for epoch "
        f"{epoch.number}: the checkpoint is older than the state. Put both back from copies of one "
        "moment, or start anew with another root and checkpoint"
    )
