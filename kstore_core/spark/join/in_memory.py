"""The versions of one shard or of several in memory, searched for many rows at once."""

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
"""Gives the serialised keys of rows, and the times (ms) from which on they ask for versions."""

VERSIONS = pa.schema(
    [("key", pa.binary()), ("stored", pa.binary()), ("begin", pa.int64()), ("end", pa.int64())]
)
"""A table of versions. `stored` is the value, behind its headers where the store keeps them; times
are ms; a version without an end is still valid."""

NEVER = -(2**63)
"""The horizon of an empty shard, of which nothing has expired."""

_MOST_ENTRIES = 1024


@dataclass(frozen=True, slots=True)
class InMemoryVersions:
    """Versions, and the index by which they are found.

    Values and headers stay encoded together: a match costs one copy, and only matches are decoded.

    Attributes
    ----------
    index : VersionIndex
        Positions in ``stored``, by key and time.
    horizons : tuple of int
        For each shard, by number, the oldest time that it answers for, ms.
    """

    spec: StoreSpec
    index: VersionIndex
    stored: pa.Array
    horizons: tuple[int, ...]

    rows_at_once: ClassVar[int] = 1
    """How many rows to gather before they are looked up."""

    @classmethod
    def of(
        cls, spec: StoreSpec, tables: Iterable[pa.Table], horizons: Sequence[int]
    ) -> InMemoryVersions:
        """Index tables of versions, which may come in any order."""
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
        """Values of some rows, of the serde's type and null for null; and their headers."""
        stored = self.stored.take(rows)
        if not self.spec.format.headers:
            return [arrow.to_typed(self.spec.value, stored)]
        decode = decode_column if headers else split_column
        values, _, lists = decode(stored, layout="aggregation_with_headers")
        typed = arrow.to_typed(self.spec.value, values)
        return [typed, lists] if headers else [typed]

    def expired(self, keys: pa.Array, times: pa.Array) -> pa.Array:
        """A mask of the rows whose time (ms) lies before the history of their key's shard."""
        from kstore_core.spark.columns.shard_ids import shards_of

        horizons = np.array(self.horizons, np.int64)
        if len(horizons) > 1:
            horizons = horizons[shards_of(keys, len(horizons))]
        asked = pa.compute.and_(keys.is_valid(), times.is_valid())
        return pa.compute.and_(asked, pa.array(np.asarray(times.fill_null(0)) < horizons))


class VersionsCache:
    """Versions that a worker process keeps between tasks; the least recently used go first.

    A size that was found to be too large is remembered as None.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, InMemoryVersions | None] = OrderedDict()

    def get(
        self, name: Hashable, make: Callable[[], InMemoryVersions | None], *, max_bytes: int
    ) -> InMemoryVersions | None:
        """The versions of this name, made where they are not cached; None where `make` gave None.

        Parameters
        ----------
        max_bytes : int
            Budget of the whole cache. Versions that exceed it alone are returned, not cached.
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
