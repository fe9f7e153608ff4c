"""What a task of a `map_state` does: one epoch of one shard, applied once, in one engine batch.

The shard's state is opened for the task and closed with it: an open one would hold the writer's
lock, and Spark may give the shard's next epoch to another process. Nothing is given to Spark before
it is committed, so a task that dies on the way to the sink is run again and gives the same.
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
from kstore_core.spark.live.epochs import commit_epoch, last_epoch
from kstore_core.spark.live.map_state_layout import MapStateHome
from kstore_core.spark.live.outcomes import (
    BATCH,
    OUTPUT_NOTE,
    Epoch,
    epoch_of_task,
    kept,
    recalled,
)
from kstore_core.spark.map_state.output import OutputRows
from kstore_core.spark.map_state.rows import Groups, Rows, Times
from kstore_core.spark.runtime.engines import engine_on_worker, this_worker
from kstore_core.spec import StoreSpec

__all__ = ["KeyedFunction", "ShardTask", "Work"]


class Work(Protocol):
    """What is done with the rows of an epoch and a shard, and its store."""

    @property
    def name(self) -> str:
        """For messages, and to tell one work on a shard from another."""

    def __call__(self, store: Any, rows: pa.Table) -> pa.RecordBatch:
        """What it gives. All that it writes is committed afterwards, or none."""


@dataclass(frozen=True, slots=True)
class ShardTask:
    """A query as its tasks know it; :meth:`run` is what ``mapInArrow`` runs.

    Attributes
    ----------
    home : MapStateHome
    spec : StoreSpec
    engine : str
    partitions : int
    names : tuple of str
        Of the columns, whose last one, the shard, has none.
    schema : pyarrow.Schema
        Of what the work gives.
    places : tuple of str
        The names under which Spark takes those columns.
    work : Work
    batch_run : int or None
        The number of a batch run; None for a stream.
    durability : Durability
    lock_timeout_s : float
        How long to wait for another attempt that has the shard.
    uncommitted_max_bytes : int
        What an epoch may write to a shard.
    partition_time : str or None
        The column of headers whose partition time the store's stream time honours.
    """

    home: MapStateHome
    spec: StoreSpec
    engine: str
    partitions: int
    names: tuple[str, ...]
    schema: pa.Schema
    places: tuple[str, ...]
    work: Work
    batch_run: int | None
    durability: Durability
    lock_timeout_s: float
    uncommitted_max_bytes: int
    partition_time: str | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of one shard in, what they give out."""
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        table = pa.Table.from_batches(found)
        shard = self._shard(table.column(table.num_columns - 1))
        rows = table.remove_column(table.num_columns - 1).rename_columns(list(self.names))
        output = self.apply(shard, epoch_of_task(self.batch_run), rows)
        yield pa.RecordBatch.from_arrays(output.columns, names=list(self.places))

    def apply(self, shard: int, epoch: Epoch, rows: pa.Table) -> pa.RecordBatch:
        """Work on an epoch of a shard and commit it; where that was done, give the same again.

        Raises
        ------
        StateError
            The shard is another query's, or contains later epochs.
        EngineLockedError
            Another task has it, and does not end.
        UncommittedLimitError
            The epoch writes too much.
        """
        from kstore_core import open_state

        self.home.check_seen()
        if epoch.query != BATCH:
            self.home.claim(epoch.query)
        engine_on_worker(self.engine)
        where = self.home.shard(shard)
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
                return recalled(epoch, note, self.schema, self.work.name, str(where))
            _hold(store)
            output = self.work(store, rows)
            if self.partition_time is not None:
                latest = latest_partition_time(rows[self.partition_time])
                if latest is not None:
                    state.advance(latest)
            notes = {OUTPUT_NOTE: kept(epoch, output, self.work.name)}
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
        """The shard of the rows, which is one and the same."""
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
    """A user's function, called once a key.

    Attributes
    ----------
    function : callable
        Takes a key, its :class:`Rows` and the store.
    spec : StoreSpec
    key : str
        The column of the key.
    order_by : tuple of str
        Columns that a key's rows are sorted by.
    timestamps : {"timestamp", "millis"}
    schema : pyarrow.Schema
        Of what it gives.
    """

    function: Callable[[Any, Rows, Any], Any]
    spec: StoreSpec
    key: str
    order_by: tuple[str, ...]
    timestamps: Times
    schema: pa.Schema

    @property
    def name(self) -> str:
        """The function's, the same in every process; that of its class for another callable."""
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        return getattr(function, "__qualname__", None) or type(function).__qualname__

    def __call__(self, store: Any, rows: pa.Table) -> pa.RecordBatch:
        """What the function gives for all keys.

        Raises
        ------
        SpecError
            A row has no key, or the function gave what is not of the schema. What the function
            itself raises is passed on, with the key in a note.
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


def _hold(store: Any) -> None:
    """Judge the rows of an epoch by the stream time before it: they come key after key."""
    clock = store._clock()
    if clock is not None:
        clock.hold()


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
