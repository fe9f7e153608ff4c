"""Which epochs of a stream a shard contains: committed in one batch with what they changed.

Spark gives an epoch again, with the same rows, when it does not know whether it was done. A shard
that contains the epoch is left as it is; so each epoch is applied once, however often it is given.

The ledger is a note of the state directory, `epochs`: a JSON object of query ids and the last epoch
of each. Where a store is one database, rows, offsets and ledger are one atomic batch. A window or
session store on RocksDB is many: rows come first, the ledger with the newest segment's. An epoch
whose commit was cut short is applied once more, which changes nothing: its rows are whole values
under their keys, and stream time only rises to where the epoch brings it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kstore_core.errors import CorruptionError, StateError

if TYPE_CHECKING:
    from kstore_core.state import StateDirectory

__all__ = ["commit_epoch", "last_epoch"]

_EPOCHS = "epochs"


def last_epoch(state: StateDirectory, query_id: str) -> int | None:
    """The last epoch of a query that every store of the directory contains.

    Returns
    -------
    int or None
        None where some store contains none, or there are no stores.

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
    """Commit what is staged as an epoch of a query; with it, offsets of its sources.

    Parameters
    ----------
    state : StateDirectory
        With all its stores open.
    query_id : str
        Stays when the query is restarted from its checkpoint.
    epoch : int
        Greater than those before; numbers may be left out.
    offsets : mapping of (topic, partition) to int, optional
        The last offset of each source that is now contained.
    notes : mapping of str to bytes or None, optional
        What else has to agree with the rows, as in `state.commit`: such as what the epoch gave, to
        be given again if it is replayed. They are found again with `state.notes(store)`.

    Raises
    ------
    StateError
        The directory contains this epoch or a later one; or it has a store that is not open, or
        none that is.
    TypeError, ValueError
        An epoch, a query id or notes that are none.
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
            f"{state.path} contains epoch {contained} of the query {query_id}, and epoch {epoch} "
            "is to be committed. Ask last_epoch before applying rows, and skip what is contained"
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
            f"what the store {store!r} in {state.path} notes of its epochs is damaged: {error}; "
            "restore the store from its changelog"
        ) from error
