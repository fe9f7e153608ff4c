"""Reads of the versions of shards for a join, as tables of the schema `in_memory.VERSIONS`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kstore_core.codec import explode_versions
from kstore_core.spark.join.in_memory import NEVER, VERSIONS, InMemoryVersions
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.shards.published import ShardReader
from kstore_core.tables import Bounds
from kstore_core.tables.version_rows import rows_for

__all__ = ["MOST_BYTES", "all_versions", "load_versions", "versions_of_keys"]

MOST_BYTES = 2**31 - 1
"""The capacity of an Arrow column in bytes, which limits the versions that are in memory."""

_INDEX_BYTES = 24
"""The approximate size of a version in the index."""


def load_versions(
    reader: ShardReader, shards: Sequence[Shard], *, max_bytes: int
) -> InMemoryVersions | None:
    """Return all versions of shards, or None if the versions exceed ``max_bytes``."""
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
    return InMemoryVersions.of(reader.spec, tables, horizons)


def all_versions(store: Any) -> Iterator[pa.Table]:
    """Yield tables of all versions of an open store, which do not contain tombstones.

    The versions of each key are sorted from the oldest to the newest.
    """
    for keys, rows in store.table.rows.scan(Bounds()):
        yield _exploded(pa.array(keys, pa.binary()), pa.array(rows, pa.binary()))


def versions_of_keys(
    store: Any, keys: pa.Array, earliest: npt.NDArray[np.int64]
) -> Iterator[pa.Table]:
    """Yield tables of the versions of some keys.

    ``earliest`` contains for each key the earliest time in ms for which a version is needed. The
    tables contain the version that is valid at that time, and all later versions. They may also
    contain older versions. `rows_for` describes the form of ``keys`` and ``earliest``.
    """
    for row_keys, rows in rows_for(store.table, keys, earliest):
        yield _exploded(row_keys, rows)


def _exploded(keys: pa.Array, rows: pa.Array) -> pa.Table:
    return pa.table(list(explode_versions(keys, rows)), schema=VERSIONS)
