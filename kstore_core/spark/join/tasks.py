"""What the tasks of a temporal join do: Arrow batches in, the same rows with versions out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstore_core.errors import RetentionExceededError, SpecError
from kstore_core.spark.join.versions import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.join.in_memory import Snapshot
    from kstore_core.spark.join.versions import Asked, Kept, Probes

__all__ = ["JoinTask", "with_versions"]

_GROUP_BYTES = 64 * 1024 * 1024
_OUT_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class JoinTask:
    """A temporal join as its tasks know it; :meth:`join` is what ``mapInArrow`` runs.

    Attributes
    ----------
    source : Source
    key, timestamp : int
        Places of the columns.
    names : tuple of str
        Of the columns of the result.
    inner : bool
        Whether a row without a match goes.
    tolerance_ms : int or None
    refuse_expired : bool
        Whether a row that the store answers for no longer is an error.
    check_shards : bool
        Whether the rows were brought to their shards by a column of their own, not by their keys.
    """

    source: Source
    key: int
    timestamp: int
    names: tuple[str, ...]
    inner: bool
    tolerance_ms: int | None
    refuse_expired: bool
    check_shards: bool

    def join(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Joined batches: of rows of all shards, or of one that is their last column."""
        check = self._check_shard if self.check_shards else None
        for some, snapshot in with_versions(self.source, batches, self._asked, check):
            yield self.joined(snapshot, some)

    def joined(self, snapshot: Snapshot, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with the versions that its rows find beside them."""
        import pyarrow as pa

        from kstore_core.spark.columns.arrow import timestamps

        given = batch.column(self.timestamp)
        rows, begins, ends = snapshot.index.find(self._keys(batch), given, self.tolerance_ms)
        if self.refuse_expired and rows.null_count:
            self._check_expired(snapshot, *self._asked(batch), rows)
        columns = batch.columns if self.source.everywhere else batch.columns[:-1]
        if self.inner and rows.null_count:
            matched = rows.is_valid()
            columns = [column.filter(matched) for column in columns]
            rows, begins, ends = (column.filter(matched) for column in (rows, begins, ends))
        as_millis = not pa.types.is_timestamp(given.type)
        begins, ends = (timestamps(column, as_millis=as_millis) for column in (begins, ends))
        value, *headers = snapshot.columns(rows, headers=self.source.headers)
        return pa.RecordBatch.from_arrays(
            [*columns, value, begins, ends, *headers], names=self.names
        )

    def _keys(self, batch: pa.RecordBatch) -> pa.Array:
        from kstore_core.spark.columns.arrow import serialized

        return serialized(self.source.reader.spec.key, batch.column(self.key))

    def _asked(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Serialised keys, and times in ms rounded down."""
        import pyarrow as pa

        times = batch.column(self.timestamp)
        if pa.types.is_timestamp(times.type):
            times = pa.compute.floor_temporal(times, 1, "millisecond").cast(pa.timestamp("ms"))
        return self._keys(batch), times.cast(pa.int64())

    def _check_shard(self, batch: pa.RecordBatch, shard: int) -> None:
        import numpy as np

        from kstore_core.spark.columns.shard_ids import shards_of

        keys = self._keys(batch)
        where = shards_of(keys, len(self.source.shards))
        wrong = np.flatnonzero((where != shard) & keys.is_valid().to_numpy(zero_copy_only=False))
        if len(wrong):
            key = keys[int(wrong[0])].as_py()
            raise SpecError(
                f"the key {key!r} came in partition {shard} and belongs to shard "
                f"{where[wrong[0]]} of {len(self.source.shards)}: the rows were not partitioned as "
                "Kafka's producers do, or into another number. Leave out partition_by"
            )

    def _check_expired(
        self, snapshot: Snapshot, keys: pa.Array, times: pa.Array, rows: pa.Array
    ) -> None:
        import pyarrow.compute as pc

        lost = pc.indices_nonzero(pc.and_(rows.is_null(), snapshot.expired(keys, times)))
        if len(lost):
            at = lost[0].as_py()
            raise RetentionExceededError(
                f"a row of the key {keys[at].as_py()!r} asks for {times[at]} ms, which lies before "
                f"the history of the store {self.source.reader.spec.name!r} in "
                f"{self.source.reader.root}. Keep a longer history, or pass on_expired='null'"
            )


def with_versions(
    source: Source,
    batches: Iterator[pa.RecordBatch],
    asked: Asked,
    check: Callable[[pa.RecordBatch, int], None] | None = None,
) -> Iterator[tuple[pa.RecordBatch, Snapshot]]:
    """The rows of a task in pieces, each with a snapshot that has the versions of its keys.

    Parameters
    ----------
    source : Source
    batches : iterator of RecordBatch
        Rows of all shards, or of one that is their last column.
    asked : callable
        The keys of a batch, and from when on versions are wanted.
    check : callable, optional
        Called with rows that were brought to one shard, and its number.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    shard = None if source.everywhere else shard_of(first, len(source.shards))
    with source.open(shard) as versions:
        for batch in groups(itertools.chain([first], batches), versions.rows):
            if check is not None and shard is not None:
                check(batch, shard)
            yield from within_reach(versions, batch, asked)


def shard_of(batch: pa.RecordBatch, shards: int) -> int:
    """The shard that a task's rows were brought to: their last column.

    Raises
    ------
    SpecError
        There is no such shard.
    """
    shard = batch.column(batch.num_columns - 1)[0].as_py()
    if shard is None or not 0 <= shard < shards:
        raise SpecError(
            f"a row came in partition {shard}, and the store has the shards 0 to {shards - 1}: it "
            "was written with another number of partitions. Leave out partition_by"
        )
    return int(shard)


def within_reach(
    versions: Kept | Probes, batch: pa.RecordBatch, asked: Asked
) -> Iterator[tuple[pa.RecordBatch, Snapshot]]:
    """Parts of a batch with what has their versions, never too much of it at once."""
    snapshot = versions.of(batch, asked)
    if snapshot is None:
        half = batch.num_rows // 2
        yield from within_reach(versions, batch.slice(0, half), asked)
        yield from within_reach(versions, batch.slice(half), asked)
        return
    for start in range(0, batch.num_rows, _OUT_ROWS):
        yield batch.slice(start, _OUT_ROWS), snapshot


def groups(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches put together until they have ``rows`` rows, or take some memory."""
    import pyarrow as pa

    group: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        group.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= rows or size >= _GROUP_BYTES:
            yield group[0] if len(group) == 1 else pa.concat_batches(group)
            group, count, size = [], 0, 0
    if group:
        yield group[0] if len(group) == 1 else pa.concat_batches(group)
