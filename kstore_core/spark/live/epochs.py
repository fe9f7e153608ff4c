"""The ledger of epochs: the last epoch of each shard, committed in one batch with its rows.

A micro-batch of a stream is an epoch. Spark replays it, with the same rows, after a failure. A
shard that contains the epoch skips it, so each epoch is applied once. A batch run is also an epoch,
for all actions that evaluate it.

The ledger is the note `epochs` of the state directory: a JSON object of query ids and the last
epoch of each. If a store is one database, rows, offsets and ledger are one atomic batch. A window
or session store on RocksDB is many databases: the newest segment is committed last, with the
ledger. An epoch whose commit was interrupted is applied again. This is idempotent: rows are whole
values under their keys, and stream time only rises to the epoch's time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstore_core.errors import CorruptionError, StateError

if TYPE_CHECKING:
    from kstore_core.state import StateDirectory

__all__ = ["BATCH", "Epoch", "commit_epoch", "epoch_of_task", "last_epoch"]

BATCH = "batch"
"""The query id of batch runs."""

_EPOCHS = "epochs"
# Spark sets both for every task of a micro-batch, and documents neither.
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Epoch:
    """A micro-batch of a streaming query, by the id in its checkpoint, or a batch run."""

    query: str
    number: int

    def __str__(self) -> str:
        if self.query == BATCH:
            return f"batch run {self.number}"
        return f"epoch {self.number} of the query {self.query}"


def epoch_of_task(run: int | None) -> Epoch:
    """Return the micro-batch of this task, else the batch run ``run``.

    A StateError if ``run`` is None, for a stream, and Spark sets no micro-batch.
    """
    from pyspark import TaskContext

    task = TaskContext.get()
    query = batch = None
    if task is not None:
        query = task.getLocalProperty(_QUERY_ID)
        batch = task.getLocalProperty(_BATCH_ID)
    if query and batch and batch.isdecimal():
        return Epoch(query, int(batch))
    if run is not None:
        return Epoch(BATCH, run)
    raise StateError(
        f"this task of a stream has no micro-batch: Spark set {_QUERY_ID}={query!r} and "
        f"{_BATCH_ID}={batch!r}, and map_state needs both to apply each once. Use a micro-batch "
        "trigger (processingTime or availableNow), or call map_state within foreachBatch"
    )


def last_epoch(state: StateDirectory, query_id: str) -> int | None:
    """Return the last epoch of a query in every store of the directory; None if a store has none.

    A CorruptionError if the ledger cannot be read.
    """
    found = [_ledger(state, store).get(query_id) for store in state.stores()]
    known = [epoch for epoch in found if epoch is not None]
    return min(known) if known and len(known) == len(found) else None


def commit_epoch(
    state: StateDirectory,
    query_id: str,
    epoch: int,
    offsets: Mapping[tuple[str, int], int] | None = None,
    *,
    notes: Mapping[str, bytes | None] | None = None,
) -> None:
    """Commit staged rows as an epoch of a query, with the last offsets of its sources, inclusive.

    ``epoch`` must be greater than all before; gaps are permitted. ``notes`` are committed with the
    rows, as in `state.commit`. A StateError if the directory contains this epoch or a later one, or
    if its stores are not all open.
    """
    if not isinstance(query_id, str):
        raise TypeError(f"query_id must be str, not {type(query_id).__name__}")
    if isinstance(epoch, bool) or not isinstance(epoch, int):
        raise TypeError(f"epoch must be int, not {type(epoch).__name__}")
    if not query_id or epoch < 0:
        raise ValueError(
            f"query {query_id!r}, epoch {epoch}; the id must not be empty, nor the epoch negative"
        )
    names, opened = state.stores(), state.opened
    closed = [name for name in names if name not in opened]
    if closed or not opened:
        raise StateError(
            f"{state.path}: {', '.join(closed) or 'no store'} "
            f"{'is not open' if closed else 'is open'}, and an epoch commits all stores of the "
            "directory; open each with state.open(spec)"
        )
    contained = last_epoch(state, query_id)
    if contained is not None and contained >= epoch:
        raise StateError(
            f"{state.path} contains epoch {contained} of the query {query_id}, so epoch {epoch} "
            "cannot be committed. Call last_epoch before applying rows, and skip contained epochs"
        )
    ledger: dict[str, int] = {}
    for store in names:
        ledger |= _ledger(state, store)
    ledger[query_id] = epoch
    note = json.dumps(ledger, separators=(",", ":"), sort_keys=True).encode()
    state.commit(offsets or None, notes={**(notes or {}), _EPOCHS: note})


def _ledger(state: StateDirectory, store: str) -> dict[str, int]:
    note = state.notes(store).get(_EPOCHS)
    if note is None:
        return {}
    try:
        ledger = json.loads(note)
        if not all(type(epoch) is int for epoch in ledger.values()):
            raise ValueError(f"epochs must be integers: {ledger}")
        return {str(query): epoch for query, epoch in ledger.items()}
    except (ValueError, AttributeError) as error:
        raise CorruptionError(
            f"the note of epochs of the store {store!r} in {state.path} is damaged: {error}; "
            "restore the store from its changelog"
        ) from error
