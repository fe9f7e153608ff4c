"""The history of one shard or of several, as Arrow columns searched for many rows at once.

Versions are sorted by a composite rank, the key's number times a stride plus the rank of the
version's time, so that one ``searchsorted`` finds for every row of a batch the last version of its
key that begins no later than the row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core import arrow

__all__ = ["CACHE", "FOREVER", "Snapshot", "SnapshotCache"]

FOREVER = 2**63 - 1
"""The valid-to of a version that is still valid."""

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Versions in the order of their ranks.

    Attributes
    ----------
    keys : pyarrow.Array of binary
        The distinct keys.
    times : array of int64
        The distinct times at which versions begin, ascending, ms.
    ranks : array of int64
        For each version ``key * (len(times) + 1) + rank of its time``, ascending.
    begins, ends : array of int64
        For each version its time and its valid-to, ms; FOREVER where it is still valid.
    columns : dict of str to pyarrow.Array
        What a match gives: value, timestamp, valid_to and, where asked for, headers.
    horizons : array of int64
        For each version, the oldest time that its shard answers for, ms: before it only what is
        still valid is known, the rest may have expired.
    """

    keys: pa.Array
    times: Times
    ranks: Times
    begins: Times
    ends: Times
    columns: dict[str, pa.Array]
    horizons: Times

    @classmethod
    def of(
        cls,
        keys: pa.Array,
        begins: Times,
        ends: Times,
        values: pa.Array,
        headers: pa.Array | None,
        horizons: Times,
    ) -> Snapshot:
        """Sort versions, given in any order. What ended by its horizon is left out."""
        encoded = keys.dictionary_encode()
        numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        times, rank_of = np.unique(begins, return_inverse=True)
        ranks = numbers * (len(times) + 1) + rank_of + 1
        order = np.argsort(ranks, kind="stable")
        order = order[ends[order] > horizons[order]]
        begins, ends, by_rank = begins[order], ends[order], pa.array(order)
        columns = {
            "value": values.take(by_rank),
            "timestamp": pa.array(begins),
            "valid_to": pa.array(ends, mask=ends == FOREVER),
        }
        if headers is not None:
            columns["headers"] = headers.take(by_rank)
        return cls(encoded.dictionary, times, ranks[order], begins, ends, columns, horizons[order])

    @classmethod
    def empty(cls, value_type: pa.DataType, *, headers: bool) -> Snapshot:
        """A snapshot without versions."""
        none = np.zeros(0, np.int64)
        lists = pa.array([], arrow.headers_type()) if headers else None
        return cls.of(pa.array([], pa.binary()), none, none, pa.array([], value_type), lists, none)

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def nbytes(self) -> int:
        """Memory that it takes, about."""
        arrays = (self.times, self.ranks, self.begins, self.ends, self.horizons)
        return int(
            self.keys.nbytes
            + sum(array.nbytes for array in arrays)
            + sum(column.nbytes for column in self.columns.values())
        )

    def find(
        self,
        keys: pa.Array,
        times: Times,
        *,
        latest: Times | None = None,
        tolerance_ms: int | None = None,
    ) -> pa.Array:
        """Which version is valid for each row: its index, null where there is none.

        Parameters
        ----------
        keys : pyarrow.Array of binary
            Serialised keys; a null key has no version.
        times : array of int64
            The rows' times, ms, rounded down. A version that begins at the very time is valid.
        latest : array of int64, optional
            The same, rounded up; what ``tolerance_ms`` is measured from.
        tolerance_ms : int, optional
            How long ago the version may have begun, inclusive.
        """
        if not len(self.ranks):
            return pa.nulls(len(keys), pa.int64())
        numbers = pc.index_in(keys, value_set=self.keys).fill_null(-1)
        number = numbers.to_numpy(zero_copy_only=False).astype(np.int64)
        first = number * (len(self.times) + 1)
        rank = first + np.searchsorted(self.times, times, side="right")
        at = np.searchsorted(self.ranks, rank, side="right") - 1
        at[number < 0] = -1
        found = (at >= 0) & (self.ranks[at] >= first)
        end = self.ends[at]
        found &= (times < end) & ((times >= self.horizons[at]) | (end == FOREVER))
        if tolerance_ms is not None:
            found &= (times if latest is None else latest) - self.begins[at] <= tolerance_ms
        return pa.array(at, mask=~found)


class SnapshotCache:
    """The snapshots that a worker process keeps between tasks, least recently used dropped first.

    Parameters
    ----------
    max_bytes : int
        What all of them may take together. A bigger one is given out and not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, Snapshot] = OrderedDict()

    def get(self, name: Hashable, make: Callable[[], Snapshot]) -> Snapshot:
        """The snapshot of this name, made where it is not kept."""
        found = self._kept.get(name)
        if found is not None:
            self._kept.move_to_end(name)
            return found
        made = make()
        if made.nbytes <= self.max_bytes:
            self._kept[name] = made
            self.shrink(self.max_bytes)
        return made

    def shrink(self, max_bytes: int) -> None:
        """Set the budget, and drop what is over it."""
        self.max_bytes = max_bytes
        total = sum(snapshot.nbytes for snapshot in self._kept.values())
        while total > max_bytes:
            _, dropped = self._kept.popitem(last=False)
            total -= dropped.nbytes


CACHE = SnapshotCache(0)
"""This process's. A join sets the budget before it asks."""
