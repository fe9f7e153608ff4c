"""Functions that compute the shards of a whole Arrow column of keys, by Kafka's murmur2 hash.

The shard of each key equals the result of :func:`kstore_core.codec.partition` for the key. Spark's
``hash()`` is another hash function, so it does not give the numbers of a topic's partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.spark.columns.arrow import serialized
from kstore_core.spark.columns.key_shards import put_shards

if TYPE_CHECKING:
    from kstore_core.serdes import Serde

__all__ = ["ShardOfKey", "hashes_of", "shards_of"]

_MOST = 2**31 - 1


def shards_of(keys: pa.Array, shards: int) -> npt.NDArray[np.int32]:
    """Return the shard of each serialised key as a number from 0 to ``shards - 1``.

    The shard of a null key is 0.
    """
    numbers = np.empty(len(keys), np.int32)
    put_shards(keys, shards, numbers)
    return numbers


def hashes_of(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return ``murmur2(key) & 0x7fffffff`` of each serialised key.

    The shard of a key is this number modulo the number of shards.
    """
    hashes = shards_of(keys, _MOST).astype(np.int64)
    # A remainder of 0 belongs to the hash 2**31 - 1, which is odd, or to the hash 0, which is even.
    zeros = np.flatnonzero(hashes == 0)
    if len(zeros):
        hashes[zeros] = shards_of(keys.take(pa.array(zeros)), 2).astype(np.int64) * _MOST
    return hashes


@dataclass(frozen=True, slots=True)
class ShardOfKey:
    """The function of an Arrow UDF that returns the shard of each key in a column.

    The last ``tail`` bytes of a serialised key do not affect the key's shard.
    """

    serde: Serde[Any]
    partitions: int
    tail: int = 0

    def __call__(self, keys: pa.Array) -> pa.Array:
        if self.tail:
            keys = pc.binary_slice(keys, 0, -self.tail)
        return pa.array(shards_of(serialized(self.serde, keys), self.partitions))
