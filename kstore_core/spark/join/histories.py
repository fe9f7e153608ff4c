"""Versions read from open shards for a join: all of them, or those of some keys.

They come as tables of :data:`kstore_core.spark.join.in_memory.VERSIONS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kstore_core.codec import explode_versions
from kstore_core.spark.join.in_memory import NEVER, VERSIONS, Snapshot
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.shards.published import ShardReader
from kstore_core.tables import Bounds
from kstore_core.tables.version_rows import rows_for

__all__ = ["MOST_BYTES", "all_versions", "snapshot_of", "versions_of_keys"]

MOST_BYTES = 2**31 - 1
"""What one Arrow column of a snapshot holds, and so what a snapshot of a shard may take at most."""

_INDEX_BYTES = 24  # a version


def snapshot_of(reader: ShardReader, shards: Sequence[Shard], *, max_bytes: int) -> Snapshot | None:
    """The versions of shards, or None as soon as they are seen to take more than ``max_bytes``."""
    max_bytes = min(max_bytes, MOST_BYTES)
    tables: list[pa.Table] = []
    horizons = []
    size = 0
    for shard in shards:
        horizons.append(NEVER)
        if shard.path is None:
            continue
        with reader.open(shard) as store:
            horizons[-1] = store.clock.horizon
            for table in all_versions(store):
                tables.append(table)
                size += table.nbytes + _INDEX_BYTES * table.num_rows
                if size > max_bytes:
                    return None
    return Snapshot.of(reader.spec, tables, horizons)


def all_versions(store: Any) -> Iterator[pa.Table]:
    """Every version that an open store keeps, tombstones left out; oldest first within a key."""
    for keys, rows in store.table.rows.scan(Bounds()):
        yield _exploded(pa.array(keys, pa.binary()), pa.array(rows, pa.binary()))


def versions_of_keys(
    store: Any, keys: pa.Array, earliest: npt.NDArray[np.int64]
) -> Iterator[pa.Table]:
    """The versions of some keys, as far back as those that are valid at a time of each key's own.

    Few lookups: one of the latest versions, then one a segment, from the newest back, of the keys
    that are not settled yet. Older versions may come along.

    Parameters
    ----------
    store : VersionedStore
        An open one.
    keys : pyarrow.Array of binary
        Distinct, without nulls, sorted: so an engine reads each block once.
    earliest : array of int64
        For each key the oldest time that is asked for, ms.
    """
    for row_keys, rows in rows_for(store.table, keys, earliest):
        yield _exploded(row_keys, rows)


def _exploded(keys: pa.Array, rows: pa.Array) -> pa.Table:
    return pa.table(list(explode_versions(keys, rows)), schema=VERSIONS)
