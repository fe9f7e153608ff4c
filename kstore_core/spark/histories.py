"""Versions read from open shards for a join: all of them, or those of some keys.

They come as tables of ``key`` and ``value`` (binary), ``begin`` and ``end`` (ms; null: still valid)
and ``headers`` where they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.clock import segment_id
from kstore_core.codec import decode_column, explode_versions, split_column
from kstore_core.spark.contents import ShardReader
from kstore_core.spark.manifest import Shard
from kstore_core.spark.snapshots import NEVER, Snapshot
from kstore_core.tables import Bounds
from kstore_core.versioned import LATEST_PREFIX

__all__ = ["MOST_BYTES", "all_versions", "snapshot_of", "versions_of_keys"]

MOST_BYTES = 2**31 - 1
"""What one Arrow column of a snapshot holds, and so what a snapshot of a shard may take at most."""

_INDEX_BYTES = 24  # a version
_MIN_TIME = slice(8, 16)  # of a segment row: when its oldest version begins
Times = npt.NDArray[np.int64]


def snapshot_of(
    reader: ShardReader, shards: Sequence[Shard], *, headers: bool, max_bytes: int
) -> Snapshot | None:
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
            for table in all_versions(store, headers=headers):
                tables.append(table)
                size += table.nbytes + _INDEX_BYTES * table.num_rows
                if size > max_bytes:
                    return None
    return Snapshot.of(tables, reader.spec.value, horizons, headers=headers)


def all_versions(store: Any, *, headers: bool) -> Iterator[pa.Table]:
    """Every version that an open store keeps, tombstones left out; oldest first within a key."""
    for keys, rows in store.table.rows.scan(Bounds()):
        yield _exploded(store, pa.array(keys, pa.binary()), pa.array(rows, pa.binary()), headers)


def versions_of_keys(
    store: Any, keys: pa.Array, earliest: Times, *, headers: bool
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
    table = store.table
    found, rows = _looked_up(table, LATEST_PREFIX, keys)
    open_places = np.ones(len(keys), bool)
    if len(found):
        latest = _exploded(
            store, _row_keys(LATEST_PREFIX, keys.take(pa.array(found))), rows, headers
        )
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
        yield _exploded(store, _row_keys(prefix, some.take(pa.array(found))), rows, headers)
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


def _exploded(store: Any, keys: pa.Array, rows: pa.Array, headers: bool) -> pa.Table:
    columns = list(explode_versions(keys, rows))
    names = ["key", "value", "begin", "end"]
    if store.spec.format.headers:
        decode = decode_column if headers else split_column
        columns[1], _, lists = decode(columns[1], layout="aggregation_with_headers")
        columns.append(lists)
        names.append("headers")
    return pa.table(columns, names=names)
