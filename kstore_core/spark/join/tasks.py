"""The tasks of a temporal join, which add versions to the rows of Arrow batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kstore_core.errors import RetentionExceededError
from kstore_core.spark.join.versions import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.join.in_memory import InMemoryVersions, KeysAndTimes
    from kstore_core.spark.join.versions import ShardLookup

__all__ = ["JoinTask", "in_parts", "with_versions"]

_GROUP_BYTES = 64 * 1024 * 1024
"""The size in bytes at which a task looks up the rows that it has collected."""

_GROUP_ROWS = 10_000
"""The number of rows to collect from packed rows, because a lookup of few rows is slow."""

_OUT_ROWS = 20_000
"""The greatest number of rows in a batch of the result."""


@dataclass(frozen=True, slots=True)
class JoinTask:
    """The arguments of a temporal join for its tasks. Spark calls :meth:`join` in each task.

    Attributes
    ----------
    source : Source
        The store to join.
    key, timestamp : int
        The positions of the column of keys and of the column of times in the rows.
    names : tuple of str
        The names of the columns of the result.
    inner : bool
        If true, drop rows without a match.
    tolerance_ms : int, optional
        The greatest age in ms, inclusive, that a version may have at the row's time. No limit if
        None.
    refuse_expired : bool
        If true, raise an error for a row that has no match and whose time is before the history of
        its key's shard.
    """

    source: Source
    key: int
    timestamp: int
    names: tuple[str, ...]
    inner: bool
    tolerance_ms: int | None
    refuse_expired: bool

    def join(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join the rows of a task, and yield batches of the result."""
        for some, versions in with_versions(self.source, batches, self._keys_and_times):
            yield from in_parts(partial(self.joined, versions), some)

    def joined(self, versions: InMemoryVersions, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Join the rows of a batch with the versions that the rows match, and return the result.

        Raises OverflowError if the versions are too large to be decoded at once.
        """
        import pyarrow as pa

        from kstore_core.spark.columns.arrow import timestamps

        given = batch.column(self.timestamp)
        rows, begins, ends = versions.lookup.find(self._keys(batch), given, self.tolerance_ms)
        if self.refuse_expired and rows.null_count:
            self._check_expired(versions, *self._keys_and_times(batch), rows)
        columns = batch.columns
        if self.inner and rows.null_count:
            matched = rows.is_valid()
            columns = [column.filter(matched) for column in columns]
            rows, begins, ends = (column.filter(matched) for column in (rows, begins, ends))
        as_millis = not pa.types.is_timestamp(given.type)
        begins, ends = (timestamps(column, as_millis=as_millis) for column in (begins, ends))
        value, *headers = versions.columns(rows, headers=self.source.headers)
        return pa.RecordBatch.from_arrays(
            [*columns, value, begins, ends, *headers], names=self.names
        )

    def _keys(self, batch: pa.RecordBatch) -> pa.Array:
        from kstore_core.spark.columns.arrow import serialized

        return serialized(self.source.reader.spec.key, batch.column(self.key))

    def _keys_and_times(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Return the serialised key of each row, and the time of each row rounded down to ms."""
        import pyarrow as pa

        from kstore_core.spark.columns.arrow import millis

        times = batch.column(self.timestamp)
        missing = times.is_null().to_numpy(zero_copy_only=False)
        return self._keys(batch), pa.array(millis(times)[0], mask=missing)

    def _check_expired(
        self, versions: InMemoryVersions, keys: pa.Array, times: pa.Array, rows: pa.Array
    ) -> None:
        import pyarrow.compute as pc

        lost = pc.indices_nonzero(pc.and_(rows.is_null(), versions.expired(keys, times)))
        if len(lost):
            at = lost[0].as_py()
            raise RetentionExceededError(
                f"a row with the key {keys[at].as_py()!r} has no match, and its time {times[at]} "
                f"ms is before the history of the store {self.source.reader.spec.name!r} in "
                f"{self.source.reader.root}. Set a longer history retention, or pass "
                "on_expired='null'"
            )


def with_versions(
    source: Source, batches: Iterator[pa.RecordBatch], keys_and_times: KeysAndTimes
) -> Iterator[tuple[pa.RecordBatch, InMemoryVersions]]:
    """Split the rows of a task, and yield each piece with the versions that its rows may match.

    If the task reads one shard, ``batches`` contains packed rows of this shard.
    """
    from kstore_core.spark.columns.arrow import grouped
    from kstore_core.spark.shards.packing import unpacked

    numbered = ((None, batch) for batch in batches) if source.everywhere else unpacked(batches)
    first = next((pair for pair in numbered if pair[1].num_rows), None)
    if first is None:
        return
    with source.open(first[0]) as lookup:
        rows = (batch for _, batch in itertools.chain([first], numbered))
        at_once = max(lookup.rows_at_once, 1 if source.everywhere else _GROUP_ROWS)
        for batch in grouped(rows, rows=at_once, size=_GROUP_BYTES):
            yield from _in_memory(lookup, batch, keys_and_times)


def in_parts(
    join: Callable[[pa.RecordBatch], pa.RecordBatch], rows: pa.RecordBatch
) -> Iterator[pa.RecordBatch]:
    """Yield the result of ``join`` for rows. Halve the rows if ``join`` raises an OverflowError."""
    try:
        joined = join(rows)
    except OverflowError:
        if rows.num_rows == 1:
            raise
        half = rows.num_rows // 2
        yield from in_parts(join, rows.slice(0, half))
        yield from in_parts(join, rows.slice(half))
    else:
        yield joined


def _in_memory(
    lookup: InMemoryVersions | ShardLookup, batch: pa.RecordBatch, keys_and_times: KeysAndTimes
) -> Iterator[tuple[pa.RecordBatch, InMemoryVersions]]:
    """Split a batch into pieces whose versions fit into memory.

    Yield each piece with all versions that its rows may match.
    """
    versions = lookup.for_rows(batch, keys_and_times)
    if versions is None:
        half = batch.num_rows // 2
        yield from _in_memory(lookup, batch.slice(0, half), keys_and_times)
        yield from _in_memory(lookup, batch.slice(half), keys_and_times)
        return
    for start in range(0, batch.num_rows, _OUT_ROWS):
        yield batch.slice(start, _OUT_ROWS), versions
