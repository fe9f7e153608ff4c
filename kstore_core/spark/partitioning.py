"""Which shard a key belongs to: Kafka's murmur2 over a whole Arrow column at once.

The same number as :func:`kstore_core.codec.partition` gives for each key. Spark's own ``hash()`` is
another function, so rows partitioned by it would not meet a topic's partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.spark.columns import serialized

if TYPE_CHECKING:
    from kstore_core.serdes import Serde

__all__ = ["ShardOfKey", "shards_of"]

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)


def shards_of(keys: pa.Array, shards: int) -> npt.NDArray[np.int32]:
    """The shard of each key, from 0 to ``shards - 1``; 0 for a null key, which has none.

    Parameters
    ----------
    keys : pyarrow.Array of binary or string
        Serialised keys.
    shards : int
        The number of shards, at least 1.
    """
    hashes = _murmur2(*_bytes_of(keys)) & np.uint32(0x7FFFFFFF)
    numbers = (hashes % np.uint32(shards)).astype(np.int32)
    if keys.null_count:
        numbers[keys.is_null().to_numpy(zero_copy_only=False)] = 0
    return numbers


def _bytes_of(
    column: pa.Array,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Where each value starts, how long it is, and the bytes of all; a null is as if empty."""
    large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    _, offset_buffer, data_buffer = column.buffers()
    if len(column) == 0 or offset_buffer is None:
        empty = np.zeros(len(column), np.int64)
        return empty, empty, np.zeros(0, np.uint8)
    raw = np.frombuffer(offset_buffer, np.int64 if large else np.int32)
    offsets = raw[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.zeros(0, np.uint8)
    lengths = offsets[1:] - offsets[:-1]
    if column.null_count:
        lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    return offsets[:-1], lengths, data


def _murmur2(
    starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint32]:
    """32-bit murmur2 of every value: a round a block of four bytes, for those that have it."""
    hashes = _SEED ^ lengths.astype(np.uint32)
    blocks = lengths >> 2
    words = np.ndarray((max(len(data) - 3, 0),), "<u4", data, strides=(1,))  # at every offset
    active = np.flatnonzero(blocks)
    block = 0
    while len(active):
        word = words[starts[active] + 4 * block] * _M
        word ^= word >> _R
        word *= _M
        hashes[active] = (hashes[active] * _M) ^ word
        block += 1
        active = active[blocks[active] > block]
    tails = lengths & 3
    ends = starts + (blocks << 2)
    for count in (3, 2, 1):
        some = np.flatnonzero(tails >= count)
        shift = np.uint32(8 * (count - 1))
        hashes[some] ^= data[ends[some] + (count - 1)].astype(np.uint32) << shift
    some = np.flatnonzero(tails)
    hashes[some] *= _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes


@dataclass(frozen=True, slots=True)
class ShardOfKey:
    """A column of keys in, their shards out: what the Arrow UDF runs on the workers.

    Attributes
    ----------
    serde : Serde
    partitions : int
    tail : int
        How many bytes behind the key say nothing about the shard.
    """

    serde: Serde[Any]
    partitions: int
    tail: int = 0

    def __call__(self, keys: pa.Array) -> pa.Array:
        if self.tail:
            keys = pc.binary_slice(keys, 0, -self.tail)
        return pa.array(shards_of(serialized(self.serde, keys), self.partitions))
