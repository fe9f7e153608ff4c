"""The history of one shard or of several in memory, searched for many rows at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kstore_core import arrow
from kstore_core.codec import decode_column, split_column
from kstore_core.spark.columns.arrow import combined
from kstore_core.spark.join.lookup import VersionIndex
from kstore_core.spec import StoreSpec

__all__ = ["CACHE", "NEVER", "VERSIONS", "Snapshot", "SnapshotCache"]

VERSIONS = pa.schema(
    [("key", pa.binary()), ("stored", pa.binary()), ("begin", pa.int64()), ("end", pa.int64())]
)
"""A table of versions: what is stored is the value, behind its headers where the store keeps them;
times are ms, and a version without an end is still valid."""

NEVER = -(2**63)
"""The horizon of a shard that nothing was written to: nothing of it has expired."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Versions, and the index by which they are found.

    Values and headers are kept as the store keeps them, together: a row that is found costs one
    copy, and only what is found is decoded.

    Attributes
    ----------
    spec : StoreSpec
    index : VersionIndex
        Says which of ``stored`` are wanted.
    stored : pyarrow.Array of binary
    horizons : tuple of int
        For each shard, by number, the oldest time that it answers for, ms.
    """

    spec: StoreSpec
    index: VersionIndex
    stored: pa.Array
    horizons: tuple[int, ...]

    @classmethod
    def of(cls, spec: StoreSpec, tables: Iterable[pa.Table], horizons: Sequence[int]) -> Snapshot:
        """From tables of versions in any order, as `join.histories` reads them."""
        whole = pa.concat_tables([VERSIONS.empty_table(), *tables])
        keys, stored, begins, ends = (combined(whole[name], name) for name in VERSIONS.names)
        return cls(spec, VersionIndex(keys, begins, ends, horizons), stored, tuple(horizons))

    @property
    def nbytes(self) -> int:
        """Memory that it takes, about."""
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
        """Which rows ask for a time (ms) that their key's shard answers for no longer."""
        from kstore_core.spark.columns.shard_ids import shards_of

        horizons = np.array(self.horizons, np.int64)
        if len(horizons) > 1:
            horizons = horizons[shards_of(keys, len(horizons))]
        asked = pa.compute.and_(keys.is_valid(), times.is_valid())
        return pa.compute.and_(asked, pa.array(np.asarray(times.fill_null(0)) < horizons))


class SnapshotCache:
    """The snapshots that a worker process keeps between tasks, least recently used dropped first.

    Parameters
    ----------
    max_bytes : int
        What all of them may take together. A bigger one is given out and not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, Snapshot | None] = OrderedDict()

    def get(self, name: Hashable, make: Callable[[], Snapshot | None]) -> Snapshot | None:
        """The snapshot of this name, made where it is not kept; None where it would be too big.

        That it would be is kept too.
        """
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name]
        made = make()
        if made is None or made.nbytes <= self.max_bytes:
            self._kept[name] = made
            self.shrink(self.max_bytes)
        return made

    def shrink(self, max_bytes: int) -> None:
        """Set the budget, and drop what is over it."""
        self.max_bytes = max_bytes
        sizes = {name: made.nbytes for name, made in self._kept.items() if made is not None}
        total = sum(sizes.values())
        for name, size in sizes.items():
            if total <= max_bytes:
                break
            del self._kept[name]
            total -= size


CACHE = SnapshotCache(0)
"""This process's. A join sets the budget before it asks."""
