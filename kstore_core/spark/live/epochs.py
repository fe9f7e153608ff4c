"""The ledger of epochs: each shard's last one, committed in one batch with its rows.

A micro-batch of a stream is an epoch. Spark replays it, with the same rows, after a failure. A
shard that contains the epoch skips it, so each epoch is applied once. A batch run is an epoch too,
however many actions evaluate it.

The ledger is the note `epochs` of the state directory: a JSON object of query ids and the last
epoch of each. Where a store is one database, rows, offsets and ledger are one atomic batch. A
window or session store on RocksDB is many: rows come first, the ledger with the newest segment's.
An epoch whose commit was cut short is applied once more, which changes nothing: its rows are whole
values under their keys, and stream time only rises to where the epoch brings it.
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
    """A micro-batch of a streaming query, by the id that its checkpoint keeps, or a batch run."""

    query: str
    number: int

    def __str__(self) -> str:
        if self.query == BATCH:
            return f"batch run {self.number}"
        return f"epoch {self.number} of the query {self.query}"


def epoch_of_task(run: int | None) -> Epoch:
    """The micro-batch that this task is part of, else the batch run ``run``.

    A StateError if ``run`` is None, for a stream, and Spark does not name the micro-batch.
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
        f"this task of a stream does not know its micro-batch: Spark set {_QUERY_ID}={query!r} and "
        f"{_BATCH_ID}={batch!r}, and map_state needs both to apply each once. Use a micro-batch "
        "trigger (processingTime or availableNow), or call map_state within foreachBatch"
    )


def last_epoch(state: StateDirectory, query_id: str) -> int | None:
    """Return the last epoch of a query that every store of the directory contains.

    Returns
    -------
    int or None
        None if a store contains none, or there are no stores.

    Raises
    ------
    CorruptionError
        The ledger cannot be read.
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
    """Commit staged rows as an epoch of a query, with the offsets of its sources.

    Parameters
    ----------
    state : StateDirectory
        With all its stores open.
    query_id : str
        Stays when the query is restarted from its checkpoint.
    epoch : int
        Greater than those before; numbers may be left out.
    offsets : mapping of (topic, partition) to int, optional
        The last offset of each source, inclusive.
    notes : mapping of str to bytes or None, optional
        Notes committed with the rows, as in `state.commit`, such as the epoch's output for a
        replay. ``state.notes(store)`` reads them.

    Raises
    ------
    StateError
        The directory contains this epoch or a later one; or a store is not open, or there is none.
    TypeError, ValueError
        An invalid epoch, query id or note.
    """
    if not isinstance(query_id, str):
        raise TypeError(f"the id of a query is str, not {type(query_id).__name__}")
    if isinstance(epoch, bool) or not isinstance(epoch, int):
        raise TypeError(f"an epoch is int, not {type(epoch).__name__}")
    if not query_id or epoch < 0:
        raise ValueError(f"query {query_id!r}, epoch {epoch}; epochs of a query are 0 and more")
    names, opened = state.stores(), state.opened
    closed = [name for name in names if name not in opened]
    if closed or not opened:
        raise StateError(
            f"{state.path}: not open is {', '.join(closed) or 'any store'}, and an epoch is of all "
            "stores of the directory; open each with state.open(spec)"
        )
    contained = last_epoch(state, query_id)
    if contained is not None and contained >= epoch:
        raise StateError(
            f"{state.path} contains epoch {contained} of the query {query_id}, so epoch {epoch} "
            "cannot be committed. Ask last_epoch before applying rows, and skip what is contained"
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
            raise ValueError(f"epochs are integers: {ledger}")
        return {str(query): epoch for query, epoch in ledger.items()}
    except (ValueError, AttributeError) as error:
        raise CorruptionError(
            f"the note of epochs of the store {store!r} in {state.path} is damaged: {error}; "
            "restore the store from its changelog"
        ) from error
