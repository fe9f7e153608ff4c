"""Rows that move to the tasks of their shards as Arrow data, many rows in one row of Spark.

Spark's shuffle processes rows one at a time, and so does the transfer of rows to Python. A packed
row contains the Arrow data of many rows of one shard, so both process few rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kstore_core.errors import SpecError
from kstore_core.spark.columns.arrow import grouped, integers, serialized
from kstore_core.spark.columns.shard_ids import shards_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from kstore_core.serdes import Serde

__all__ = ["PACKED", "Packing", "unpacked"]

PACKED = pa.schema([("shard", pa.int32()), ("rows", pa.binary())])
"""The schema of packed rows: the number of a shard, and an Arrow IPC stream of rows."""

_STREAM_BYTES = 64 * 1024
"""The approximate size of a stream in bytes.

The rows of a stream have less than twice this size, unless it is a single row. The schema and the
padding of a stream are not included. Spark sends up to 10,000 packed rows to Python at once if its
settings do not limit the bytes. So these rows must fit into memory, and into an Arrow column.
"""

_GROUP_BYTES = 64 * 1024 * 1024
"""The greatest size in bytes at which a task sorts a group of rows, apart from the last batch."""

_BATCH_BYTES = 16 * 1024 * 1024
"""The size in bytes at which a batch of streams ends."""

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Packing:
    """The arguments of the tasks that pack rows. Spark calls :meth:`pack` in each task.

    Attributes
    ----------
    shards : int
        The number of shards.
    serde : Serde
        The serde of the keys.
    key : int
        The position of the column of keys.
    shard : int, optional
        The position of a column with the number of each row's shard. The shard must be that of the
        murmur2 hash of the key, unless the key is null. If None, the hash selects the shard.
    """

    shards: int
    serde: Serde[Any]
    key: int
    shard: int | None = None

    def pack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed rows, with the schema `PACKED`. The rows of a shard keep their order."""
        size = min(2 * self.shards * _STREAM_BYTES, _GROUP_BYTES)
        for batch in grouped(batches, size=size):
            yield from _written(self._pieces(batch))

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Split rows by shard. Yield the number of a shard, and a few of its rows."""
        shards = self._shards(batch)
        rows = batch.take(pa.array(np.argsort(shards, kind="stable")))
        start = 0
        for shard, count in enumerate(np.bincount(shards).tolist()):
            own = rows.slice(start, count)
            start += count
            for piece in _cut(own) if count else ():
                yield shard, piece

    def _shards(self, batch: pa.RecordBatch) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the shard of each row. NumPy sorts such small integers in linear time."""
        kind = np.uint16 if self.shards <= 1 << 16 else np.uint32
        keys = serialized(self.serde, batch.column(self.key))
        shards = shards_of(keys, self.shards)
        if self.shard is None:
            return shards.astype(kind)
        given = batch.column(self.shard)
        if given.null_count:
            raise SpecError(
                f"{given.null_count} rows have a null in the column 'partition', so they have no "
                "shard; filter these rows out, or leave out partition_by"
            )
        numbers = integers(given)
        unknown = np.flatnonzero((numbers < 0) | (numbers >= self.shards))
        if len(unknown):
            raise SpecError(
                f"a row has the partition {given[int(unknown[0])].as_py()}, but the store has only "
                f"the shards 0 to {self.shards - 1}. The rows do not come from a topic with "
                f"{self.shards} partitions. Leave out partition_by"
            )
        valid = keys.is_valid().to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero((numbers != shards) & valid)
        if len(wrong):
            row = int(wrong[0])
            raise SpecError(
                f"a row with the key {keys[row].as_py()!r} has the partition {numbers[row]}, but "
                f"the key belongs to shard {shards[row]} of {self.shards}. Either the rows were "
                "not partitioned by Kafka's murmur2, or the number of the topic's partitions "
                "differs from the number of the store's shards. Leave out partition_by"
            )
        found: npt.NDArray[np.unsignedinteger[Any]] = numbers.astype(kind)
        return found


def _cut(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut rows into pieces of about `_STREAM_BYTES`. The columns contain no dictionaries."""
    if rows.num_rows == 1 or rows.nbytes < 2 * _STREAM_BYTES:
        yield rows
        return
    step = -(-rows.num_rows // -(-rows.nbytes // _STREAM_BYTES))
    for first in range(0, rows.num_rows, step):
        yield from _cut(rows.slice(first, step))  # These rows may be larger than the average.


def _written(pieces: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Write each piece as a stream, and yield batches of the streams."""
    shards: list[int] = []
    ends = [0]
    sink = pa.BufferOutputStream()
    for shard, rows in pieces:
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows)
        # The readers use the streams in place, so each stream begins at a multiple of _ALIGNMENT.
        sink.write(bytes(-sink.tell() % _ALIGNMENT))
        shards.append(shard)
        ends.append(sink.tell())
        if ends[-1] >= _BATCH_BYTES:
            yield _packed(shards, ends, sink.getvalue())
            shards, ends, sink = [], [0], pa.BufferOutputStream()
    if shards:
        yield _packed(shards, ends, sink.getvalue())


def _packed(shards: list[int], ends: list[int], streams: pa.Buffer) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.array(ends, np.int32))
    rows = pa.Array.from_buffers(pa.binary(), len(shards), [None, offsets, streams])
    return pa.RecordBatch.from_arrays([pa.array(shards, pa.int32()), rows], schema=PACKED)


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of packed rows, each time with the number of their shard."""
    for batch in batches:
        for shard, stream in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            with pa.ipc.open_stream(stream.as_buffer()) as reader:
                for rows in reader:
                    yield shard, rows
