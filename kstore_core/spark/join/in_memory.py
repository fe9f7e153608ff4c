"""The versions of one or several shards in memory, and a worker's cache of such versions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from kstore_core import arrow
from kstore_core.codec.arrow.decoder import decode_gathered
from kstore_core.spark.columns.arrow import combined
from kstore_core.spark.join.lookup import VersionLookup
from kstore_core.spark.join.version_index import VersionIndex
from kstore_core.spec import StoreSpec

__all__ = ["CACHE", "NEVER", "VERSIONS", "InMemoryVersions", "KeysAndTimes", "VersionsCache"]

KeysAndTimes = Callable[[pa.RecordBatch], tuple[pa.Array, pa.Array]]
"""The type of a function that returns two columns for the rows of a batch.

The first column contains the serialised key of each row. The second column contains the earliest
time in ms for which the join looks up a version of this key.
"""

VERSIONS = pa.schema(
    [("key", pa.binary()), ("stored", pa.binary()), ("begin", pa.int64()), ("end", pa.int64())]
)
"""The schema of a table of versions.

The column ``stored`` contains the encoded value of each version; in a store with headers, the
encoded headers precede the value. The columns ``begin``, inclusive, and ``end``, exclusive, bound
the time in ms during which the version was valid. The end is null if the version is still valid.
"""

NEVER = -(2**63)
"""The start of the history of an empty shard.

This value is less than every time, because no version of an empty shard has expired.
"""

_MOST_DECODED = 16 * 1024 * 1024
"""The greatest size of several versions that are decoded at once, in bytes."""

_MOST_ENTRIES = 1024

_MOST_OPEN_FILES = 512
"""The greatest number of files that the entries of a cache may keep open."""


@dataclass(frozen=True, slots=True)
class InMemoryVersions:
    """Versions of keys, and a lookup of the versions.

    The value and the headers of a version are stored as one encoded string of bytes. Only the
    versions that match a row are decoded.

    Attributes
    ----------
    spec : StoreSpec
        The spec of the store.
    lookup : VersionLookup
        The lookup by key and time, which returns the positions of versions in ``stored``.
    stored : tuple of Array
        The encoded value and headers of each version. The positions of each array follow those of
        the array before it.
    horizons : tuple of int
        The start of the history of each shard in ms. The first item belongs to the first shard.
    open_files : int
        The number of files that remain open as long as the object exists.
    """

    spec: StoreSpec
    lookup: VersionLookup
    stored: tuple[pa.Array, ...]
    horizons: tuple[int, ...]
    open_files: int = 0

    rows_at_once: ClassVar[int] = 1
    """The number of rows that a task should collect before it looks up their versions."""

    @classmethod
    def of(
        cls, spec: StoreSpec, tables: Iterable[pa.Table], horizons: Sequence[int]
    ) -> InMemoryVersions:
        """Make an InMemoryVersions of the versions in ``tables``.

        The tables must have the schema `VERSIONS`. The versions may have any order. ``horizons``
        contains the start of the history of each shard in ms.
        """
        whole = pa.concat_tables([VERSIONS.empty_table(), *tables])
        keys, stored, begins, ends = (combined(whole[name], name) for name in VERSIONS.names)
        lookup = VersionLookup([VersionIndex(keys, begins, ends, horizons)])
        return cls(spec, lookup, (stored,), tuple(horizons))

    def for_rows(self, batch: pa.RecordBatch, keys_and_times: KeysAndTimes) -> InMemoryVersions:
        """Return this object, because it contains the versions of all keys of its shards."""
        return self

    @property
    def nbytes(self) -> int:
        """The approximate size of the versions and their indexes in bytes."""
        return self.lookup.nbytes + sum(int(each.nbytes) for each in self.stored)

    def columns(self, rows: pa.Array, *, headers: bool) -> list[pa.Array]:
        """Return the column of the values of some versions, and the column of their headers.

        ``rows`` contains the positions of the versions in ``stored``. A null position gives a null
        value. The values have the type of the value serde. If ``headers`` is false or the store has
        no headers, the result has only the column of the values.

        Raises OverflowError if several versions are larger than 16 MiB together.
        """
        values, _, lists = decode_gathered(
            self.stored,
            rows,
            "aggregation_with_headers" if self.spec.format.headers else None,
            headers=headers,
            max_bytes=_MOST_DECODED if len(rows) > 1 else None,
        )
        typed = arrow.to_typed(self.spec.value, values)
        return [typed] if lists is None else [typed, lists]

    def expired(self, keys: pa.Array, times: pa.Array) -> pa.Array:
        """Return a mask of the rows whose times are before the histories of their keys' shards.

        ``keys`` contains the serialised key of each row, and ``times`` the time of each row in ms.
        The mask is False for a row whose key or time is null.
        """
        from kstore_core.spark.columns.shard_ids import shards_of

        horizons = np.array(self.horizons, np.int64)
        if len(horizons) > 1:
            horizons = horizons[shards_of(keys, len(horizons))]
        valid = pa.compute.and_(keys.is_valid(), times.is_valid())
        return pa.compute.and_(valid, pa.array(np.asarray(times.fill_null(0)) < horizons))


class VersionsCache:
    """A worker's cache of versions. The cache evicts the least recently used entry first.

    An entry is None if its versions do not fit into memory. A task must then look up the versions
    in the shard.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, InMemoryVersions | None] = OrderedDict()

    def get(
        self, name: Hashable, make: Callable[[], InMemoryVersions | None], *, max_bytes: int
    ) -> InMemoryVersions | None:
        """Return the entry ``name``. If there is no such entry, call ``make`` and cache its result.

        ``max_bytes`` is the greatest size of the whole cache in bytes. A result of ``make`` that is
        larger is returned, but not cached.
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
        made = {name: each for name, each in self._entries.items() if each is not None}
        size = sum(each.nbytes for each in made.values())
        files = sum(each.open_files for each in made.values())
        for name, each in made.items():
            if size <= max_bytes and files <= _MOST_OPEN_FILES:
                break
            del self._entries[name]
            size -= each.nbytes
            files -= each.open_files


CACHE = VersionsCache()
"""The cache that all tasks of this process share."""
