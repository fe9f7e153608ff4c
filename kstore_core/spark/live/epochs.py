"""The number of the last epoch that a shard contains, committed together with the epoch's rows.

An epoch is a micro-batch of a streaming query, or a run of a batch query. After a failure Spark
replays a micro-batch with the same rows. A shard skips an epoch that it contains already, so each
epoch is applied once.

The state directory stores the numbers under the metadata key `epochs`, as a JSON object that maps a
query's id to its last epoch. If a store is one database, one atomic batch has the rows, the offsets
and the numbers. A window or session store on RocksDB has many databases. There the newest segment
is committed last, together with the numbers. If a commit is interrupted, the epoch is applied
again. This is idempotent, because a row replaces the value of its key, and stream time never
decreases.
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
"""The query id that stands for batch runs."""

_EPOCHS = "epochs"
# Spark sets both properties for every task of a micro-batch, but does not document them.
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Epoch:
    """The id and number of a micro-batch or of a batch run.

    ``query`` is the query's id from the checkpoint, or `BATCH` for a batch run.
    """

    query: str
    number: int

    def __str__(self) -> str:
        if self.query == BATCH:
            return f"batch run {self.number}"
        return f"epoch {self.number} of the query {self.query}"


def epoch_of_task(run: int | None) -> Epoch:
    """Return the micro-batch that this task belongs to, or else the batch run ``run``.

    ``run`` must be None for a stream. Raises StateError if ``run`` is None and the task belongs to
    no micro-batch.
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
        f"{_BATCH_ID}={batch!r}, but map_state needs both values to apply each micro-batch once. "
        "Use a trigger with micro-batches (processingTime or availableNow), or call map_state "
        "within foreachBatch"
    )


def last_epoch(state: StateDirectory, query_id: str) -> int | None:
    """Return the last epoch of a query that all stores of the directory contain.

    Returns None if a store contains no epoch of the query. Raises CorruptionError if the stored
    numbers of epochs cannot be read.
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
    """Commit the staged rows as an epoch of a query.

    ``epoch`` must be greater than all earlier epochs of the query; gaps are permitted. ``offsets``
    has the offset of the last processed record for each source partition. ``notes`` is metadata
    that is committed with the rows, as in `state.commit`. Raises StateError if the directory
    contains this epoch or a later epoch, or if a store of the directory is not open.
    """
    if not isinstance(query_id, str):
        raise TypeError(f"query_id must be str, not {type(query_id).__name__}")
    if isinstance(epoch, bool) or not isinstance(epoch, int):
        raise TypeError(f"epoch must be int, not {type(epoch).__name__}")
    if not query_id or epoch < 0:
        raise ValueError(
            f"query_id={query_id!r}, epoch={epoch}: the id must not be empty, and the epoch must "
            "not be negative"
        )
    names, opened = state.stores(), state.opened
    closed = [name for name in names if name not in opened]
    if closed or not opened:
        raise StateError(
            f"{state.path}: {', '.join(closed) or 'no store'} "
            f"{'is not open' if closed else 'is open'}, but the commit of an epoch needs all "
            "stores of the directory; open each store with state.open(spec)"
        )
    contained = last_epoch(state, query_id)
    if contained is not None and contained >= epoch:
        raise StateError(
            f"{state.path} contains epoch {contained} of the query {query_id}, so epoch {epoch} "
            "cannot be committed. Call last_epoch before you apply rows, and skip an epoch that "
            "the directory contains"
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
            f"the metadata of the store {store!r} in {state.path} that lists the applied epochs is "
            f"damaged: {error}; restore the store from its changelog"
        ) from error
