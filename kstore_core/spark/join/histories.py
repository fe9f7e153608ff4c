"""Functions that read the versions of shards for a join, as tables of the schema `VERSIONS`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kstore_core.codec import explode_versions
from kstore_core.spark.join.in_memory import NEVER, VERSIONS, InMemoryVersions
from kstore_core.spark.join.shared_file import share_file
from kstore_core.spark.join.snapshots import LAYOUT, open_snapshot, write_snapshot
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.shards.published import ShardReader
from kstore_core.tables import Bounds
from kstore_core.tables.version_rows import rows_for

__all__ = ["MOST_BYTES", "all_versions", "load_versions", "versions_of_keys"]

MOST_BYTES = 2**31 - 1
"""The greatest size in bytes of the versions in memory. An Arrow column cannot be larger."""

_INDEX_BYTES = 24
"""The approximate size of a version in the index, in bytes."""


def load_versions(
    reader: ShardReader, shards: Sequence[Shard], *, max_bytes: int, share_as: str | None = None
) -> InMemoryVersions | None:
    """Read all versions of ``shards``. Return None if the versions exceed ``max_bytes``.

    If ``share_as`` is given, the processes of this machine share the memory of the versions. Only
    the first process that calls the function with the name ``share_as`` reads the shards. If the
    processes cannot share a file, each process has its own copy of the versions.
    """

    def write(file: BinaryIO) -> None:
        horizons: list[int] = []
        tables = _limited(_tables(reader, shards, horizons), min(max_bytes, MOST_BYTES))
        write_snapshot(file, tables, horizons)

    try:
        if share_as is not None:
            with contextlib.suppress(OSError):  # The device is full, or has no locks.
                mapped = share_file(f"{LAYOUT}\n{share_as}", write)
                if mapped is not None:
                    if mapped.size() > max_bytes:  # Another process has a greater limit.
                        return None
                    return open_snapshot(memoryview(mapped), reader.spec)
        own = io.BytesIO()
        write(own)
    except _TooLargeError:
        return None
    return open_snapshot(own.getbuffer(), reader.spec)


class _TooLargeError(Exception):
    """The versions exceed the limit."""


def _tables(
    reader: ShardReader, shards: Sequence[Shard], horizons: list[int]
) -> Iterator[pa.Table]:
    """Yield all versions of shards. Append the start of each shard's history to ``horizons``."""
    for shard in shards:
        horizons.append(NEVER)
        if shard.path is not None:
            with reader.open(shard) as store:
                horizons[-1] = store.clock.horizon
                yield from all_versions(store)


def _limited(tables: Iterator[pa.Table], max_bytes: int) -> Iterator[pa.Table]:
    """Yield tables. Raise a _TooLargeError if their versions and index exceed ``max_bytes``."""
    size = 0
    for table in tables:
        size += table.nbytes + _INDEX_BYTES * table.num_rows
        if size > max_bytes:
            raise _TooLargeError
        yield table


def all_versions(store: Any) -> Iterator[pa.Table]:
    """Yield tables of all versions of an open store.

    The tables contain no tombstones. The versions of each key are sorted from the oldest to the
    newest.
    """
    for keys, rows in store.table.rows.scan(Bounds()):
        yield _exploded(pa.array(keys, pa.binary()), pa.array(rows, pa.binary()))


def versions_of_keys(
    store: Any, keys: pa.Array, earliest: npt.NDArray[np.int64]
) -> Iterator[pa.Table]:
    """Yield tables of the versions of some keys.

    ``earliest`` contains each key's earliest time in ms for which a version is needed. For each
    key, the tables contain the version that is valid at this time, and all later versions. The
    tables may also contain older versions. See `rows_for` for the requirements on ``keys`` and
    ``earliest``.
    """
    for row_keys, rows in rows_for(store.table, keys, earliest):
        yield _exploded(row_keys, rows)


def _exploded(keys: pa.Array, rows: pa.Array) -> pa.Table:
    return pa.table(list(explode_versions(keys, rows)), schema=VERSIONS)
