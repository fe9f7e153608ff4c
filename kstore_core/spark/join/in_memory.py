"""The versions of one or several shards in memory; one search serves many rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from kstore_core import arrow
from kstore_core.codec import decode_column, split_column
from kstore_core.spark.columns.arrow import combined
from kstore_core.spark.join.lookup import VersionIndex
from kstore_core.spec import StoreSpec

__all__ = ["CACHE", "NEVER", "VERSIONS", "InMemoryVersions", "KeysAndTimes", "VersionsCache"]

KeysAndTimes = Callable[[pa.RecordBatch], tuple[pa.Array, pa.Array]]
"""Returns the serialised keys of rows, and the first time (ms) of each row's lookup."""

VERSIONS = pa.schema(
    [("key", pa.binary()), ("stored", pa.binary()), ("begin", pa.int64()), ("end", pa.int64())]
)
"""A table of versions. `stored` is the value, behind its headers if the store has them; times are
ms; a version without an end is still valid."""

NEVER = -(2**63)
"""The horizon of an empty shard, in which nothing has expired."""

_MOST_ENTRIES = 1024


@dataclass(frozen=True, slots=True)
class InMemoryVersions:
    """Versions, and an index of them.

    Values and headers stay encoded together: a match costs one copy, and only matches are decoded.
    """

    spec: StoreSpec
    index: VersionIndex  # positions in ``stored``, by key and time
    stored: pa.Array
    horizons: tuple[int, ...]  # for each shard, by number, the start of its history, ms

    rows_at_once: ClassVar[int] = 1
    """The number of rows to gather before a lookup."""

    @classmethod
    def of(
        cls, spec: StoreSpec, tables: Iterable[pa.Table], horizons: Sequence[int]
    ) -> InMemoryVersions:
        """Index tables of versions, in any order."""
        whole = pa.concat_tables([VERSIONS.empty_table(), *tables])
        keys, stored, begins, ends = (combined(whole[name], name) for name in VERSIONS.names)
        return cls(spec, VersionIndex(keys, begins, ends, horizons), stored, tuple(horizons))

    def for_rows(self, batch: pa.RecordBatch, keys_and_times: KeysAndTimes) -> InMemoryVersions:
        """Return all versions for any rows."""
        return self

    @property
    def nbytes(self) -> int:
        """Approximate memory, in bytes."""
        return int(self.index.nbytes + self.stored.nbytes)

    def columns(self, rows: pa.Array, *, headers: bool) -> list[pa.Array]:
        """The values of some versions, of the serde's type, null for a null; and their headers."""
        stored = self.stored.take(rows)
        if not self.spec.format.headers:
            return [arrow.to_typed(self.spec.value, stored)]
        decode = decode_column if headers else split_column
        values, _, lists = decode(stored, layout="aggregation_with_headers")
        typed = arrow.to_typed(self.spec.value, values)
        return [typed, lists] if headers else [typed]

    def expired(self, keys: pa.Array, times: pa.Array) -> pa.Array:
        """Return a mask of the rows with a time (ms) before the history of their key's shard."""
        from kstore_core.spark.columns.shard_ids import shards_of

        horizons = np.array(self.horizons, np.int64)
        if len(horizons) > 1:
            horizons = horizons[shards_of(keys, len(horizons))]
        valid = pa.compute.and_(keys.is_valid(), times.is_valid())
        return pa.compute.and_(valid, pa.array(np.asarray(times.fill_null(0)) < horizons))


class VersionsCache:
    """The cache of versions of a worker process; the least recently used entry is evicted first.

    An entry is None for versions that exceed their limit.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, InMemoryVersions | None] = OrderedDict()

    def get(
        self, name: Hashable, make: Callable[[], InMemoryVersions | None], *, max_bytes: int
    ) -> InMemoryVersions | None:
        """Return the cached versions of this name, else the result of `make`, which may be None.

        ``max_bytes`` limits the whole cache. Larger versions are returned, but not cached.
        """
        self._evict(max_bytes)
        if name in self._entries:
            self._entries.move_to_end(name)
            return self._entries[name]
        made = make()
        if made is None or made.nbytes <= max_bytes:
            self._entries[name] = made
            self._evict(max_bytes)
        return made

    def _evict(self, max_bytes: int) -> None:
        while len(self._entries) > _MOST_ENTRIES:
            self._entries.popitem(last=False)
        sizes = {name: made.nbytes for name, made in self._entries.items() if made is not None}
        total = sum(sizes.values())
        for name, size in sizes.items():
            if total <= max_bytes:
                break
            del self._entries[name]
            total -= size


CACHE = VersionsCache()
"""The cache of this process."""
