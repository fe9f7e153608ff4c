"""An iterator over the records that a write adds to a shard.

The iterator omits the records that the continued version of the shard already contains.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.offsets import Ahead, still_ahead
from kstore_core.spark.shards.log import ShardLog
from kstore_core.spark.shards.spool import LogSpool
from kstore_core.spec import StoreSpec

__all__ = ["FreshLogs"]


class FreshLogs:
    """An iterator over the runs of a spool, without the records that the parent shard contains.

    A run is a log that fits into memory. The parent is the shard in the version that the write
    continues. The attributes ``replayed``, ``offsets`` and ``stream_time`` describe only the runs
    that the iterator has read so far.

    Attributes
    ----------
    replayed : int
        The number of records that were omitted, because the parent contains them.
    offsets : tuple of Offset
        The last offset of each source partition, in the parent or in the runs.
    stream_time : int
        The greatest time of the returned records in ms, or -1 if the records have no times.
    records : int
        The number of all records in the spool.
    is_empty : bool
        True if the parent contains all records of the spool.
    """

    def __init__(self, spool: LogSpool, parent: Shard, spec: StoreSpec) -> None:
        self._spec = spec
        self._parent = parent
        self.records = spool.records
        self.replayed = 0
        self.offsets = parent.offsets
        self.stream_time = -1
        runs = self._runs(spool)
        first = next(runs, None)
        self.is_empty = first is None
        self._runs_left = runs if first is None else itertools.chain([first], runs)

    def __iter__(self) -> Iterator[ShardLog]:
        return self._runs_left

    @property
    def ahead(self) -> tuple[Ahead, ...]:
        """The entries of the parent's ``ahead`` that are still greater than ``offsets``."""
        return still_ahead(self._parent.ahead, self.offsets)

    def _runs(self, spool: LogSpool) -> Iterator[ShardLog]:
        for log in spool.runs():
            fresh, replayed = log.after(self._parent.offsets, self._parent.ahead)
            self.replayed += replayed
            if len(fresh):
                fresh.check_decodable(self._spec)
                self.offsets = fresh.last_offsets(self.offsets)
                self.stream_time = max(self.stream_time, fresh.stream_time)
                yield fresh
