"""Versions read from open shards for a join: all of them, or those of some keys.

They come as tables of :data:`kstore_core.spark.join.in_memory.VERSIONS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.clock import segment_id
from kstore_core.codec import explode_versions
from kstore_core.spark.join.in_memory import NEVER, VERSIONS, Snapshot
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.shards.published import ShardReader
from kstore_core.tables import Bounds
from kstore_core.tables.versioned import LATEST_PREFIX

__all__ = ["MOST_BYTES", "all_versions", "snapshot_of", "versions_of_keys"]

MOST_BYTES = 2**31 - 1
"""What one Arrow column of a snapshot holds, and so what a snapshot of a shard may take at most."""

_INDEX_BYTES = 24  # a version
_MIN_TIME = slice(8, 16)  # of a segment row: when its oldest version begins
Times = npt.NDArray[np.int64]


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


def versions_of_keys(store: Any, keys: pa.Array, earliest: Times) -> Iterator[pa.Table]:
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
    table = store.table
    found, rows = _looked_up(table, LATEST_PREFIX, keys)
    open_places = np.ones(len(keys), bool)
    if len(found):
        latest = _exploded(_row_keys(LATEST_PREFIX, keys.take(pa.array(found))), rows)
        yield latest
        begins = latest["begin"].to_numpy()
        open_places[found] = begins > earliest[found]
    for segment in reversed(table.segments):
        wanted = np.flatnonzero(open_places)
        if not len(wanted):
            break
        first = segment_id(int(earliest[wanted].min()), table.segment_interval_ms)
        if segment < first:
            break
        prefix = segment.to_bytes(8, "big")
        some = keys.take(pa.array(wanted))
        found, rows = _looked_up(table, prefix, some)
        if not len(found):
            continue
        yield _exploded(_row_keys(prefix, some.take(pa.array(found))), rows)
        oldest = _big_endian(pc.binary_slice(rows, _MIN_TIME.start, _MIN_TIME.stop))
        open_places[wanted[found]] = oldest > earliest[wanted[found]]


def _looked_up(table: Any, prefix: bytes, keys: pa.Array) -> tuple[Times, pa.Array]:
    """Which of the keys have a row under a prefix, and these rows."""
    rows = pa.array(table.rows.get_many(_row_keys(prefix, keys).to_pylist()), pa.binary())
    found = np.flatnonzero(rows.is_valid().to_numpy(zero_copy_only=False))
    return found, rows.drop_null()


def _row_keys(prefix: bytes, keys: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(prefix, pa.binary()), keys, b"")


def _big_endian(column: pa.Array) -> Times:
    """Eight bytes a row as integers."""
    fixed = column.cast(pa.binary(8))
    numbers = np.frombuffer(fixed.buffers()[1], ">i8", len(fixed), fixed.offset * 8)
    return numbers.astype(np.int64)


def _exploded(keys: pa.Array, rows: pa.Array) -> pa.Table:
    return pa.table(list(explode_versions(keys, rows)), schema=VERSIONS)
