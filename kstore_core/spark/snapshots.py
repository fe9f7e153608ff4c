"""The history of one shard or of several, as Arrow columns searched for many rows at once.

Versions lie by key, then by time. Keys are looked up in a hash table; then all rows bisect the
versions of their keys together, in a few steps of numpy, for the last one that begins no later than
the row.
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
    """Versions by key and time.

    Attributes
    ----------
    keys : pyarrow.Array of binary
        The distinct keys.
    firsts : array of int64
        For each key the place of its first version; one more entry for the end of the last.
    begins, ends : array of int64
        For each version its time and its valid-to, ms; FOREVER where it is still valid.
    horizons : array of int64
        For each version, the oldest time that its shard answers for, ms: before it only what is
        still valid is known, the rest may have expired.
    columns : dict of str to pyarrow.Array
        What a match gives: value, timestamp, valid_to and, where asked for, headers.
    """

    keys: pa.Array
    firsts: Times
    begins: Times
    ends: Times
    horizons: Times
    columns: dict[str, pa.Array]

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
        numbers = encoded.indices.to_numpy(zero_copy_only=False)
        order = np.lexsort((begins, numbers))
        order = order[ends[order] > horizons[order]]
        counts = np.bincount(numbers[order], minlength=len(encoded.dictionary))
        begins, ends, by_key = begins[order], ends[order], pa.array(order)
        columns = {
            "value": values.take(by_key),
            "timestamp": pa.array(begins),
            "valid_to": pa.array(ends, mask=ends == FOREVER),
        }
        if headers is not None:
            columns["headers"] = headers.take(by_key)
        firsts = np.concatenate([[0], np.cumsum(counts)])
        return cls(encoded.dictionary, firsts, begins, ends, horizons[order], columns)

    @classmethod
    def empty(cls, value_type: pa.DataType, *, headers: bool) -> Snapshot:
        """A snapshot without versions."""
        none = np.zeros(0, np.int64)
        lists = pa.array([], arrow.headers_type()) if headers else None
        return cls.of(pa.array([], pa.binary()), none, none, pa.array([], value_type), lists, none)

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def nbytes(self) -> int:
        """Memory that it takes, about."""
        arrays = (self.firsts, self.begins, self.ends, self.horizons)
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

        The hash table of the keys is built by every call, so calls with many rows are cheaper.

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
        if not len(self):
            return pa.nulls(len(keys), pa.int64())
        numbers = pc.index_in(keys, value_set=self.keys)
        number = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        first = self.firsts[number]
        at = self._bisect(first, self.firsts[number + 1], times) - 1
        end = self.ends[at]
        found = (at >= first) & (times < end) & ((times >= self.horizons[at]) | (end == FOREVER))
        if numbers.null_count:
            found &= numbers.is_valid().to_numpy(zero_copy_only=False)
        if tolerance_ms is not None:
            found &= (times if latest is None else latest) - self.begins[at] <= tolerance_ms
        return pa.array(at, mask=~found)

    def _bisect(self, low: Times, high: Times, times: Times) -> Times:
        """For each row the first version in ``[low, high)`` that begins after its time, or high."""
        last = len(self) - 1
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            begun = (low < high) & (self.begins[np.minimum(middle, last)] <= times)
            low = np.where(begun, middle + 1, low)
            high = np.where(begun, high, middle)
        return low


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
