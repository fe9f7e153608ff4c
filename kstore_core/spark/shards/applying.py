"""Functions that restore records into the open store of a shard.

A store drops late records, and stream time determines which records are late. If an earlier stage
of the pipeline removes records, the times of the removed records do not advance stream time. To
avoid this, the earlier stage can send these times in the header ``partition-time`` (KIP-472) of the
remaining records. With this header, the removal does not change which records are late.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kstore_core.restore import Restored, can_restore_history, restore, restore_history
from kstore_core.spark.columns.partition_headers import header_times

if TYPE_CHECKING:
    from kstore_core.spark.shards.fresh import FreshLogs
    from kstore_core.spark.shards.log import ShardLog
    from kstore_core.state import StateDirectory

__all__ = ["apply_log", "apply_logs"]

_PIECES = 8
"""The number of pieces into which a run of records is divided to restore a versioned store."""


def apply_log(
    state: StateDirectory, store: Any, log: ShardLog, *, partition_time: bool
) -> Restored:
    """Restore records in arrival order into a store. The caller must then commit ``state``.

    ``store`` must be the only store of ``state``. If ``partition_time`` is true, the times in the
    headers ``partition-time`` of the records also advance stream time.

    Raise the SpecErrors of :func:`kstore_core.restore.restore`. Raise a FormatError if the value of
    a header ``partition-time`` does not have 8 bytes.
    """
    if not partition_time or not len(log):
        return _restored(store, log)
    if store.spec.shape != "versioned":
        read, sent = header_times(log.headers, len(log))
        # In this store, only the stream time after all records determines which rows expire.
        state.advance(int(max(read.max(), sent.max())))
        return _restored(store, log)
    in_time, latest = _in_time(log, store.clock.observed, store.clock.retention_ms)
    done = _restored(store, in_time)
    state.advance(latest)
    late = len(log) - len(in_time)
    return dataclasses.replace(done, records=len(log), late=done.late + late)


def apply_logs(
    state: StateDirectory,
    store: Any,
    logs: FreshLogs,
    *,
    partition_time: bool,
    max_bytes: int,
    scratch: Path,
) -> Restored:
    """Restore several logs one after another. The caller must commit after the last log.

    The result is the same as that of one call of :func:`apply_log` with all records. If the store
    is versioned and empty, the function divides the records by key into files in ``scratch``. It
    then computes the rows of each key from all versions of the key. For such a store, ``max_bytes``
    limits the size of the records in memory.
    """
    if not can_restore_history(store):
        done = Restored()
        for log in logs:
            done += apply_log(state, store, log, partition_time=partition_time)
            state.commit()
        return done
    counted, latest = 0, -1

    def parts() -> Iterator[ShardLog]:
        nonlocal counted, latest
        latest = store.clock.observed
        for log in logs:
            counted += len(log)
            kept = log
            if partition_time:
                kept, latest = _in_time(log, latest, store.clock.retention_ms)
            yield from kept.pieces(max_bytes // _PIECES)

    columns = ((log.keys, log.values, log.timestamps, log.headers) for log in parts())
    done = restore_history(store, columns, logs.records, max_bytes, scratch)
    if partition_time:
        state.advance(latest)
    return dataclasses.replace(done, records=counted, late=done.late + counted - done.records)


def _restored(store: Any, log: ShardLog) -> Restored:
    return restore(store, log.keys, log.values, log.timestamps, log.headers, at_once=True)


def _in_time(log: ShardLog, observed: int, retention_ms: int) -> tuple[ShardLog, int]:
    """Return the records that are not late, and the stream time after all records of ``log``.

    The store of the records must be versioned. The times and headers of earlier records also
    determine whether a record is late. ``observed`` is the stream time before the first record.
    """
    read, sent = header_times(log.headers, len(log))
    times = log.timestamps.to_numpy()
    before = np.append(np.int64(observed), sent[:-1])
    reached = np.maximum.accumulate(np.maximum(np.maximum(times, read), before))
    late = reached - np.maximum(times, 0) > retention_ms
    return log.take(np.flatnonzero(~late)), max(int(reached[-1]), int(sent[-1]))
