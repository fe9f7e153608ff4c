"""Functions with which a task applies one epoch to one shard, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kstore_core.errors import EngineLockedError, StateError, UncommittedLimitError
from kstore_core.spark.live.epochs import BATCH, Epoch, last_epoch
from kstore_core.spark.live.shard import LiveShard
from kstore_core.spark.map_state.sharding import BoundState
from kstore_core.spark.runtime.engines import engine_on_worker, this_worker

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.engine import Durability
    from kstore_core.state import StateDirectory

__all__ = ["apply_epoch", "is_applied", "opened"]


def apply_epoch(
    state: BoundState[Any],
    shard: int,
    engine: str,
    epoch: Epoch,
    lock_timeout_s: float,
    apply: Callable[[LiveShard], pa.RecordBatch],
) -> pa.RecordBatch:
    """Check out a shard, call ``apply`` with it, commit the shard, and return the output.

    If another attempt has committed the epoch at the same time, ``apply`` is called again, and must
    return the output that the shard then contains. Raises StateError if the state belongs to
    another query, and EngineLockedError if another task has locked the shard.
    """
    state.check_seen()
    if epoch.query != BATCH:
        state.claim(epoch.query)
    engine_on_worker(engine)
    try:
        while True:
            with state.checkout(shard, engine, lock_timeout_s) as live:
                output = apply(live)
                if live.commit(epoch):
                    return output
            # Another attempt has committed first, so `apply` now returns that attempt's output.
    except EngineLockedError as error:
        error.add_note(
            f"the task of {epoch} for shard {shard} on {this_worker()} waited "
            f"{lock_timeout_s} s for the lock. A task that Spark has abandoned may still "
            "run; pass a greater lock_timeout_s"
        )
        raise


@contextmanager
def opened(
    live: LiveShard,
    shard: int,
    epoch: Epoch,
    *,
    durability: Durability,
    uncommitted_max_bytes: int,
    lock_timeout_s: float,
    partition_time: bool = False,
) -> Iterator[StateDirectory]:
    """Open the state directory of a shard, and close it at the end. The caller commits.

    An error of the block gets a note with the epoch and the shard.
    """
    from kstore_core import open_state

    state = open_state(
        live.path,
        engine=live.engine,
        durability=durability,
        transactional=True,  # If False, rows could be committed without their epoch.
        uncommitted_max_bytes=uncommitted_max_bytes,
        lock_timeout_s=lock_timeout_s,
        partition_time=partition_time,
    )
    try:
        yield state
    except UncommittedLimitError as error:
        error.add_note(
            f"{epoch} writes more than {uncommitted_max_bytes} bytes to shard {shard}; make "
            "batches smaller, use more partitions, or pass a greater uncommitted_max_bytes"
        )
        raise
    except Exception as error:
        error.add_note(
            f"this error occurred when a task applied {epoch} to shard {shard} ({live.where}). "
            "Nothing was committed"
        )
        raise
    finally:
        state.close()


def is_applied(state: StateDirectory, epoch: Epoch, where: str) -> bool:
    """Return True if the open stores of a shard contain an epoch.

    Raises StateError if they contain a later epoch of the query.
    """
    last = last_epoch(state, epoch.query)
    if last is None or last < epoch.number:
        return False
    if last == epoch.number:
        return True
    if epoch.query == BATCH:
        raise StateError(
            f"{where} already contains batch run {last}, so {epoch}, which was planned earlier, "
            "cannot be applied. Call map_state again, and evaluate the result before the next call "
            "on the same root"
        )
    raise StateError(
        f"{where} already contains epoch {last} of the query {epoch.query}, but Spark runs epoch "
        f"{epoch.number}, so the checkpoint is older than the state. Restore the checkpoint and "
        "the state from copies of the same time, or pass another root and a new checkpoint"
    )
