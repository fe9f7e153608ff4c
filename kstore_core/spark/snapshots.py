"""The history of one shard or of several in memory, searched for many rows at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kstore_core import arrow
from kstore_core.serdes import Serde
from kstore_core.spark.columns import combined
from kstore_core.spark.header_lists import take_headers
from kstore_core.spark.lookup import VersionIndex

__all__ = ["CACHE", "NEVER", "Snapshot", "SnapshotCache"]

NEVER = -(2**63)
"""The horizon of a shard that nothing was written to: nothing of it has expired."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Versions, and the index by which they are found.

    Attributes
    ----------
    index : VersionIndex
        Says which rows of the columns are wanted.
    values : pyarrow.Array
        Of the type that the value serde names.
    headers : pyarrow.Array or None
        None where they were not asked for.
    horizons : tuple of int
        For each shard, by number, the oldest time that it answers for, ms.
    """

    index: VersionIndex
    values: pa.Array
    headers: pa.Array | None
    horizons: tuple[int, ...]

    @classmethod
    def of(
        cls,
        tables: Iterable[pa.Table],
        serde: Serde[Any],
        horizons: Sequence[int],
        *,
        headers: bool,
    ) -> Snapshot:
        """Of tables of versions, in any order, as :mod:`kstore_core.spark.histories` reads them."""
        names = ["key", "begin", "end", "value", *(["headers"] if headers else [])]
        read = [table.select(names) for table in tables]
        if not read:
            types = [pa.binary(), pa.int64(), pa.int64(), pa.binary(), arrow.headers_type()]
            empty = [pa.array([], kind) for kind in types[: len(names)]]
            read = [pa.table(empty, names=names)]
        whole = pa.concat_tables(read)
        found = {name: combined(whole[name], name) for name in names}
        return cls(
            VersionIndex(found["key"], found["begin"], found["end"], horizons),
            arrow.to_typed(serde, found["value"]),
            found.get("headers"),
            tuple(horizons),
        )

    @property
    def nbytes(self) -> int:
        """Memory that it takes, about."""
        headers = 0 if self.headers is None else self.headers.nbytes
        return int(self.index.nbytes + self.values.nbytes + headers)

    def columns(self, rows: pa.Array) -> list[pa.Array]:
        """Values of some rows, null for null, and their headers if it has any."""
        values = [self.values.take(rows)]
        return values if self.headers is None else [*values, take_headers(self.headers, rows)]

    def expired(self, keys: pa.Array, times: pa.Array) -> pa.Array:
        """Which rows ask for a time (ms) that their key's shard answers for no longer."""
        from kstore_core.spark.partitioning import shards_of

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
