"""Functions that compute the shards of a whole Arrow column of keys, by Kafka's murmur2 hash.

For each key the result equals :func:`kstore_core.codec.partition`. Spark's ``hash()`` is another
function, so a DataFrame that is partitioned by ``hash()`` does not match a topic's partitions.
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

__all__ = ["ShardOfKey", "shards_of"]


def shards_of(keys: pa.Array, shards: int) -> npt.NDArray[np.int32]:
    """Return the shard of each serialised key, from 0 to ``shards - 1``. A null key gets 0."""
    numbers = np.empty(len(keys), np.int32)
    put_shards(keys, shards, numbers)
    return numbers


@dataclass(frozen=True, slots=True)
class ShardOfKey:
    """The function of an Arrow UDF that maps a column of keys to a column of shards."""

    serde: Serde[Any]
    partitions: int
    tail: int = 0  # the number of last bytes that do not affect the shard

    def __call__(self, keys: pa.Array) -> pa.Array:
        if self.tail:
            keys = pc.binary_slice(keys, 0, -self.tail)
        return pa.array(shards_of(serialized(self.serde, keys), self.partitions))
