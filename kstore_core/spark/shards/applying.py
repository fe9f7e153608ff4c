"""The restore of records into the open store of a shard.

A store drops records that are late, which depends on stream time. If an earlier stage of the
pipeline removed records, stream time lacks their times, unless the remaining records carry these
times in the header ``partition-time`` (KIP-472). With this header, the same records are late as
without the removal.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kstore_core.restore import Restored, restore
from kstore_core.spark.columns.partition_headers import header_times

if TYPE_CHECKING:
    from kstore_core.clock import StreamClock
    from kstore_core.spark.shards.log import ShardLog
    from kstore_core.state import StateDirectory

__all__ = ["apply_log"]


def apply_log(
    state: StateDirectory, store: Any, log: ShardLog, *, partition_time: bool
) -> Restored:
    """Restore records in arrival order into a store. The caller must commit.

    ``store`` must be the only store of the state directory. If ``partition_time`` is true, the
    header ``partition-time`` advances stream time too.

    Raise a SpecError in the cases of :func:`kstore_core.restore.restore`, and a FormatError if such
    a header does not have 8 bytes.
    """
    if not partition_time or not len(log):
        return _restored(store, log)
    read, sent = header_times(log.headers, len(log))
    latest = int(max(read.max(), sent.max()))
    if store.spec.shape != "versioned":
        # What has expired depends only on the stream time after all records.
        state.advance(latest)
        return _restored(store, log)
    in_time = log.take(np.flatnonzero(~_late(log, read, sent, store.clock)))
    done = _restored(store, in_time)
    state.advance(latest)
    late = len(log) - len(in_time)
    return dataclasses.replace(done, records=len(log), late=done.late + late)


def _restored(store: Any, log: ShardLog) -> Restored:
    return restore(store, log.keys, log.values, log.timestamps, log.headers)


def _late(
    log: ShardLog, read: npt.NDArray[np.int64], sent: npt.NDArray[np.int64], clock: StreamClock
) -> npt.NDArray[np.bool_]:
    """Return a mask that is true for late records.

    Whether a record is late depends on the times and headers of the records before it. ``read``
    and ``sent`` are the results of `header_times`.
    """
    times = log.timestamps.to_numpy()
    before = np.append(np.int64(clock.observed), sent[:-1])
    reached = np.maximum.accumulate(np.maximum(np.maximum(times, read), before))
    late: npt.NDArray[np.bool_] = reached - np.maximum(times, 0) > clock.retention_ms
    return late
