"""The versions of one or several shards in memory, and the cache of them in a worker."""

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
"""A function that returns the serialised key of each row, and the earliest time to look up.

The times are in ms.
"""

VERSIONS = pa.schema(
    [("key", pa.binary()), ("stored", pa.binary()), ("begin", pa.int64()), ("end", pa.int64())]
)
"""The schema of a table of versions.

The column ``stored`` contains the encoded value; in a store with headers, the encoded headers
precede the value. Times are in ms. The end is null for a version that is still valid.
"""

NEVER = -(2**63)
"""The start of the history of an empty shard. No version of such a shard has expired."""

_MOST_ENTRIES = 1024


@dataclass(frozen=True, slots=True)
class InMemoryVersions:
    """Versions of keys, and an index of the versions.

    The value and the headers of a version stay encoded together, so that a match copies one
    string of bytes. Only versions that match a row are decoded.

    Attributes
    ----------
    spec : StoreSpec
        The spec of the store.
    index : VersionIndex
        The index by key and time, which returns positions in ``stored``.
    stored : Array
        The encoded value and headers of each version.
    horizons : tuple of int
        The start of the history of each shard in ms, by the number of the shard.
    """

    spec: StoreSpec
    index: VersionIndex
    stored: pa.Array
    horizons: tuple[int, ...]

    rows_at_once: ClassVar[int] = 1
    """The number of rows that a task should collect before it looks up their versions."""

    @classmethod
    def of(
        cls, spec: StoreSpec, tables: Iterable[pa.Table], horizons: Sequence[int]
    ) -> InMemoryVersions:
        """Return an index of the versions in ``tables``, which may have any order."""
        whole = pa.concat_tables([VERSIONS.empty_table(), *tables])
        keys, stored, begins, ends = (combined(whole[name], name) for name in VERSIONS.names)
        return cls(spec, VersionIndex(keys, begins, ends, horizons), stored, tuple(horizons))

    def for_rows(self, batch: pa.RecordBatch, keys_and_times: KeysAndTimes) -> InMemoryVersions:
        """Return all versions, whichever rows are passed."""
        return self

    @property
    def nbytes(self) -> int:
        """The approximate size of the versions and their index in bytes."""
        return int(self.index.nbytes + self.stored.nbytes)

    def columns(self, rows: pa.Array, *, headers: bool) -> list[pa.Array]:
        """Return the column of the values of some versions, and the column of their headers.

        ``rows`` contains the positions of the versions in ``stored``. The values have the type of
        the serde. A null position returns a null value. The second column is missing if
        ``headers`` is false or the store has no headers.
        """
        stored = self.stored.take(rows)
        if not self.spec.format.headers:
            return [arrow.to_typed(self.spec.value, stored)]
        decode = decode_column if headers else split_column
        values, _, lists = decode(stored, layout="aggregation_with_headers")
        typed = arrow.to_typed(self.spec.value, values)
        return [typed, lists] if headers else [typed]

    def expired(self, keys: pa.Array, times: pa.Array) -> pa.Array:
        """Return a mask that is true where a time is before the history of the key's shard.

        The times are in ms. The mask is false for a null key or a null time.
        """
        from kstore_core.spark.columns.shard_ids import shards_of

        horizons = np.array(self.horizons, np.int64)
        if len(horizons) > 1:
            horizons = horizons[shards_of(keys, len(horizons))]
        valid = pa.compute.and_(keys.is_valid(), times.is_valid())
        return pa.compute.and_(valid, pa.array(np.asarray(times.fill_null(0)) < horizons))


class VersionsCache:
    """The cache of versions in a worker process, which evicts the least recently used entry first.

    An entry is None if the versions do not fit into memory and must be looked up in the shard.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, InMemoryVersions | None] = OrderedDict()

    def get(
        self, name: Hashable, make: Callable[[], InMemoryVersions | None], *, max_bytes: int
    ) -> InMemoryVersions | None:
        """Return the cached entry ``name``; if there is none, call ``make`` and cache its result.

        ``max_bytes`` limits the size of the whole cache. A result that is larger is returned, but
        not cached.
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
"""The only instance of the cache in this process."""
