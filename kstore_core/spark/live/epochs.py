"""Functions that commit epochs to a shard, so that each epoch is applied exactly once.

An epoch is a micro-batch of a streaming query, or a run of a batch query. The commit of an epoch
contains the epoch's rows and the epoch's number. After a failure, Spark replays a micro-batch with
the same rows. If the stored number shows that the shard already contains the micro-batch, the task
skips the micro-batch.

The metadata key `epochs` of a store contains a JSON object that maps the id of each query to the
number of the query's last epoch. If a store is one database, the rows, the offsets and this object
are written in one atomic batch. A window or session store on RocksDB has a database for each
segment, which is a span of time. The commit of such a store writes the newest segment last,
together with the object. If this commit is interrupted, the epoch is applied again. The repetition
does not change the result, because a row replaces the value of its key, and stream time never
decreases.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kstore_core.errors import CorruptionError, StateError

if TYPE_CHECKING:
    from kstore_core.state import StateDirectory

__all__ = [
    "BATCH",
    "EPOCHS",
    "Epoch",
    "commit_epoch",
    "encode_epochs",
    "epoch_of_task",
    "last_epoch",
    "parse_epochs",
]

BATCH = "batch"
"""The query id that all batch runs of `map_state` have."""

EPOCHS = "epochs"
"""The metadata key of the numbers of the last epochs of all queries."""

# Spark sets both properties for every task of a micro-batch, but does not document them.
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Epoch:
    """The identity of a micro-batch or of a batch run.

    Attributes
    ----------
    query : str
        The id of the streaming query, which the checkpoint contains, or `BATCH` for a batch run.
    number : int
        The number of the micro-batch or of the batch run.
    """

    query: str
    number: int

    def __str__(self) -> str:
        if self.query == BATCH:
            return f"batch run {self.number}"
        return f"epoch {self.number} of the query {self.query}"


def epoch_of_task(run: int | None) -> Epoch:
    """Return the epoch of this Spark task.

    If the task belongs to a micro-batch, the epoch is the micro-batch. If the task belongs to a
    batch, the epoch is the batch run with the number ``run``. The caller must pass None for a
    stream. Raises StateError if ``run`` is None and the task belongs to no micro-batch.
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
        f"this task of a stream belongs to no micro-batch, because Spark set {_QUERY_ID}={query!r} "
        f"and {_BATCH_ID}={batch!r}. kstore needs both values to apply each micro-batch once. "
        "Use a trigger with micro-batches (processingTime or availableNow), or call map_state "
        "within foreachBatch"
    )


def last_epoch(state: StateDirectory, query_id: str) -> int | None:
    """Return the number of a query's last epoch that all stores of a directory contain.

    Return None if a store contains no epoch of the query. Raises CorruptionError if the stored
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
    """Commit the uncommitted writes of a state directory as an epoch of a query.

    ``epoch`` is the number of the epoch. It must be greater than the numbers of all earlier epochs
    of the query, but the numbers need not be consecutive. ``offsets`` contains for each source
    partition the offset of the last processed record. ``notes`` is metadata that is committed with
    the rows, as in `state.commit`. Raises StateError if the directory contains this epoch or a
    later epoch of the query, or if a store of the directory is not open.
    """
    if not isinstance(query_id, str):
        raise TypeError(f"query_id must be str, not {type(query_id).__name__}")
    if isinstance(epoch, bool) or not isinstance(epoch, int):
        raise TypeError(f"epoch must be int, not {type(epoch).__name__}")
    if not query_id or epoch < 0:
        raise ValueError(
            f"query_id={query_id!r} is empty, or epoch={epoch} is negative; pass the id of the "
            "query, and an epoch of 0 or more"
        )
    names, opened = state.stores(), state.opened
    closed = [name for name in names if name not in opened]
    if closed or not opened:
        names_closed = ", ".join(closed)
        missing = f"these stores are not open: {names_closed}" if closed else "no store is open"
        raise StateError(
            f"an epoch cannot be committed to {state.path}, because {missing}. All stores of the "
            "directory must be open; open each store with state.open(spec)"
        )
    contained = last_epoch(state, query_id)
    if contained is not None and contained >= epoch:
        raise StateError(
            f"{state.path} already contains epoch {contained} of the query {query_id}, so epoch "
            f"{epoch} cannot be committed. Call last_epoch before you apply rows, and skip the "
            "epochs that the directory contains"
        )
    ledger: dict[str, int] = {}
    for store in names:
        ledger |= _ledger(state, store)
    ledger[query_id] = epoch
    state.commit(offsets or None, notes={**(notes or {}), EPOCHS: encode_epochs(ledger)})


def _ledger(state: StateDirectory, store: str) -> dict[str, int]:
    return parse_epochs(state.notes(store).get(EPOCHS), store, state.path)


def parse_epochs(note: bytes | None, store: str, path: Path) -> dict[str, int]:
    """Return the number of the last epoch of each query, from the note `EPOCHS` of a store.

    The result is empty if ``note`` is None. ``path`` is the directory of the store, for the error.
    Raises CorruptionError if the note cannot be read.
    """
    if note is None:
        return {}
    try:
        ledger = json.loads(note)
        if not all(type(epoch) is int for epoch in ledger.values()):
            raise ValueError(f"epochs must be integers: {ledger}")
        return {str(query): epoch for query, epoch in ledger.items()}
    except (ValueError, AttributeError) as error:
        raise CorruptionError(
            f"the list of applied epochs in the metadata of the store {store!r} in {path} is "
            f"damaged: {error}; restore the store from its changelog"
        ) from error


def encode_epochs(epochs: Mapping[str, int]) -> bytes:
    """Return the content of the note `EPOCHS`; :func:`parse_epochs` reads it."""
    return json.dumps(dict(epochs), separators=(",", ":"), sort_keys=True).encode()
