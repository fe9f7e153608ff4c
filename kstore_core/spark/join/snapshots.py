"""The files of a snapshot. Each file has all versions of some of the shards, and their index.

::

    the encoded versions, one after the other
    int32 offsets of the versions, and the end of the last one
    the arrays of the index
    int64 start of the history of each shard, or `NEVER` if another file has the shard
    the numbers of `_TAIL`

Each part begins at a multiple of 8 bytes. A file is read in place, so its numbers have the byte
order of the machine. Only processes of one machine share a file. If a snapshot has `n` files, the
file at the position `i` has the shards `i`, `i + n`, `i + 2 * n` and so on.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Sequence
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kstore_core.spark.columns.arrow import combined
from kstore_core.spark.join.in_memory import VERSIONS, InMemoryVersions
from kstore_core.spark.join.lookup import VersionLookup
from kstore_core.spark.join.version_index import VersionIndex
from kstore_core.spec import StoreSpec

__all__ = ["LAYOUT", "open_snapshot", "write_snapshot"]

LAYOUT = 2
"""The number of this layout. Increase it with every change of the file or of the index."""

_TAIL = struct.Struct("=6q")
"""The size of all versions in bytes, the four numbers of the index's shape, the count of shards."""

_INDEXED = [VERSIONS.field(name) for name in ("key", "begin", "end")]


def write_snapshot(file: BinaryIO, tables: Iterable[pa.Table], horizons: list[int]) -> None:
    """Write the versions in ``tables``, which have the schema `VERSIONS`, to an empty file.

    Only the keys and times of the versions are collected in memory. Once the last table has been
    read, ``horizons`` must contain the start of each shard's history in ms. The start of a shard
    without versions in ``tables`` is `NEVER`.
    """
    indexed = [pa.schema(_INDEXED).empty_table()]
    ends = [np.zeros(1, np.int32)]
    size = 0
    for table in tables:
        indexed.append(table.select([field.name for field in _INDEXED]))
        for stored in filter(len, table["stored"].chunks):
            _, offsets, data = stored.buffers()
            places = np.frombuffer(offsets, np.int32, len(stored) + 1, stored.offset * 4)
            if places[-1] > places[0]:
                file.write(memoryview(data)[places[0] : places[-1]])
            ends.append(places[1:] - places[0] + np.int32(size))
            size += int(places[-1] - places[0])
    _pad(file)
    file.write(np.concatenate(ends).tobytes())
    _pad(file)
    whole = pa.concat_tables(indexed)
    keys, begins, until = (combined(whole[name], name) for name in whole.column_names)
    index = VersionIndex(keys, begins, until, horizons)
    file.writelines(index.arrays)
    _pad(file)
    file.write(np.array(horizons, np.int64).tobytes())
    file.write(_TAIL.pack(size, *index.shape, len(horizons)))


def open_snapshot(files: Sequence[mmap.mmap | memoryview], spec: StoreSpec) -> InMemoryVersions:
    """Return the versions of a snapshot without copying them. Each item of ``files`` is a file."""
    opened = [_opened(memoryview(file)) for file in files]
    n_open = sum(isinstance(file, mmap.mmap) for file in files)
    horizons = np.max([starts for *_, starts in opened], axis=0).tolist()
    lookup = VersionLookup([index for index, *_ in opened], len(horizons))
    stored = tuple(each for _, each, _ in opened)
    return InMemoryVersions(spec, lookup, stored, tuple(horizons), n_open)


def _opened(data: memoryview) -> tuple[VersionIndex, pa.Array, npt.NDArray[np.int64]]:
    """Return the index, the encoded versions and the starts of the histories of a file."""
    size, n_keys, n_versions, n_bytes, shift, shards = _TAIL.unpack(data[-_TAIL.size :])
    offsets_at = _padded(size)
    index_at = offsets_at + _padded(4 * (n_versions + 1))
    horizons_at = len(data) - _TAIL.size - 8 * shards
    index_end = horizons_at - (_padded(n_bytes) - n_bytes)
    index = VersionIndex.mapped(data[index_at:index_end], (n_keys, n_versions, n_bytes, shift))
    buffers = [None, pa.py_buffer(data[offsets_at:index_at]), pa.py_buffer(data[:size])]
    stored = pa.Array.from_buffers(pa.binary(), n_versions, buffers)
    return index, stored, np.frombuffer(data, np.int64, shards, horizons_at)


def _pad(file: BinaryIO) -> None:
    file.write(bytes(-file.tell() % 8))


def _padded(size: int) -> int:
    return -(-size // 8) * 8
