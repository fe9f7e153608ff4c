"""Functions that read the versions of shards for a join, as tables of the schema `VERSIONS`."""

from __future__ import annotations

import contextlib
import io
import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kstore_core.codec import explode_versions
from kstore_core.codec.arrow.decoder import binary_column
from kstore_core.spark.join.in_memory import NEVER, VERSIONS, InMemoryVersions
from kstore_core.spark.join.shared_file import TooLargeError, share_files
from kstore_core.spark.join.snapshots import LAYOUT, open_snapshot, write_snapshot
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.shards.published import ShardReader
from kstore_core.tables import Bounds
from kstore_core.tables.version_rows import rows_for

__all__ = ["MOST_BYTES", "all_versions", "load_versions", "versions_of_keys"]

MOST_BYTES = 2**31 - 1
"""The greatest size of the versions in a file, in bytes. An Arrow column cannot be larger."""

_MOST_FILES = 16
"""The greatest number of files of a snapshot. A process keeps each file open while it uses it."""

_ROWS, _BYTES = 8192, 1024 * 1024
"""The greatest number of rows of a table, and the size in bytes at which a table ends."""

_INDEX_BYTES = 24
"""The bytes of the index for each version, beyond the version's columns and without the keys."""


def load_versions(
    reader: ShardReader,
    shards: Sequence[Shard],
    *,
    max_bytes: int,
    share_as: Callable[[Sequence[Shard]], str] | None = None,
) -> InMemoryVersions | None:
    """Read all versions of ``shards``. Return None if the versions exceed ``max_bytes``.

    If ``share_as`` is given, the processes of this machine share the memory of the versions, and
    the work of reading them: each shard is read by only one process. ``share_as`` returns a text
    that identifies the versions of some shards. If the processes cannot share files, each process
    reads all shards, and has its own copy of the versions.
    """
    count = min(len(shards), _MOST_FILES)
    parts = [range(number, len(shards), count) for number in range(count)]

    def write(number: int, file: BinaryIO, rest: int) -> None:
        horizons = [NEVER] * len(shards)
        tables = _tables(reader, shards, parts[number], horizons)
        write_snapshot(file, _limited(tables, min(rest, MOST_BYTES)), horizons)

    files: Sequence[mmap.mmap | memoryview] | None = None
    try:
        if share_as is not None:
            names = [
                repr((LAYOUT, len(shards), number, share_as([shards[n] for n in part])))
                for number, part in enumerate(parts)
            ]
            with contextlib.suppress(OSError):  # The device is full, or has no locks.
                files = share_files(names, write, max_bytes=max_bytes)
        if files is None:
            files = _own_files(count, write, max_bytes)
    except TooLargeError:
        return None
    return open_snapshot(files, reader.spec)


def _own_files(
    count: int, write: Callable[[int, BinaryIO, int], None], rest: int
) -> list[memoryview]:
    """Write files to the memory of this process. Raise a TooLargeError if they exceed ``rest``."""
    files = []
    for number in range(count):
        file = io.BytesIO()
        write(number, file, rest)
        rest -= file.tell()
        if rest < 0:
            raise TooLargeError
        files.append(file.getbuffer())
    return files


def _tables(
    reader: ShardReader, shards: Sequence[Shard], numbers: range, horizons: list[int]
) -> Iterator[pa.Table]:
    """Yield all versions of the shards with some numbers. Set their items in ``horizons``."""
    for number in numbers:
        if shards[number].path is not None:
            with reader.open(shards[number]) as store:
                horizons[number] = store.clock.horizon
                yield from all_versions(store)


def _limited(tables: Iterator[pa.Table], max_bytes: int) -> Iterator[pa.Table]:
    """Yield tables. Raise a TooLargeError if their versions and index exceed ``max_bytes``."""
    size = 0
    for table in tables:
        size += table.nbytes + _INDEX_BYTES * table.num_rows
        if size > max_bytes:
            raise TooLargeError
        yield table


def all_versions(store: Any) -> Iterator[pa.Table]:
    """Yield tables of all versions of an open store.

    The tables contain no tombstones. The versions of each key are sorted from the oldest to the
    newest.
    """
    chunks = store.table.rows.scan(Bounds())
    while True:
        read = getattr(chunks, "packed", None)
        found = None if read is None else read(_ROWS, _BYTES)
        if found is None:
            found = next(chunks, None)
        if found is None:
            return
        yield _exploded(*map(binary_column, found))


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
