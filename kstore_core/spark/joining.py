"""temporal_join: to each row of a DataFrame the version of its key that was valid at its time."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spark.frames import by_shard, headers_type, shard_column, spark_type
from kstore_core.spark.manifest import Shard
from kstore_core.spark.reading import manifest_spec
from kstore_core.spark.roots import Root
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from kstore_core.spark.contents import ShardReader
    from kstore_core.spark.snapshots import Snapshot

__all__ = ["temporal_join"]

How = Literal["left", "inner"]
_SHARD = "shard"
_GROUP_ROWS = 100_000
_GROUP_BYTES = 64 * 1024 * 1024


def temporal_join(
    df: DataFrame,
    root: str | os.PathLike[str],
    *,
    key: str,
    timestamp: str,
    how: How = "left",
    tolerance_ms: int | None = None,
    headers: bool = True,
    prefix: str = "table_",
    version: int | None = None,
    spec: StoreSpec | None = None,
    broadcast_bytes: int = 64 * 1024 * 1024,
    cache_bytes: int = 512 * 1024 * 1024,
) -> DataFrame:
    """Join each row with the version of its key that was valid at its time.

    A version is valid from its own time, inclusive, until the next version's or a tombstone's,
    exclusive. Rows may come in any order. A row matches one version or none: none before the first
    version, after a tombstone, and where its key or time is null. A row from before the history
    that the shard keeps matches the version that is the latest still, if that is old enough.

    Rows are looked up, many at once, in an Arrow snapshot of the history, which a Python worker
    keeps for its next tasks: where they are, in a snapshot of a small store as a whole; else the
    rows are brought to their keys' shards, by murmur2, and looked up in a snapshot of one shard.

    Parameters
    ----------
    df : DataFrame
    root : path
        Of a partitioned versioned store.
    key, timestamp : str
        Columns of ``df``: the key, binary or of the type that the store's key serde names; and the
        time, a timestamp or long milliseconds.
    how : {"left", "inner"}
        Whether a row without a match stays, with nulls, or goes.
    tolerance_ms : int, optional
        How long before the row the version may have begun, inclusive.
    headers : bool
        Whether to add the version's headers, where the store keeps them.
    prefix : str
        What the names of the added columns begin with.
    version : int, optional
        Another version of the store than the newest.
    spec : StoreSpec, optional
        The store's description; needed where its serdes are not built in.
    broadcast_bytes : int
        Up to this size of its files a store is a small one; 0 makes none small.
    cache_bytes : int
        What the snapshots kept by one Python worker may take. One that takes more is made anew by
        every task.

    Returns
    -------
    DataFrame
        The columns of ``df`` and ``<prefix>value``, ``<prefix>timestamp``, ``<prefix>valid_to``
        (null: still valid) and ``<prefix>headers``; times of the type of ``timestamp``.

    Raises
    ------
    StateError
        There is no manifest, or not that version.
    SpecError
        A column is missing, of another type, there already, or both key and timestamp.
    TypeError
        ``tolerance_ms`` or ``version`` is not an int.
    UnsupportedError
        The store keeps no history.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from kstore_core.spark.contents import ShardReader

    home = Root.at(root)
    manifest = home.load(version)
    spec = manifest_spec(manifest, spec, str(home.path))
    if how not in ("left", "inner"):
        raise ValueError(f"how={how!r}; there are: 'left', 'inner'")
    if tolerance_ms is not None and (
        isinstance(tolerance_ms, bool) or not isinstance(tolerance_ms, int)
    ):
        raise TypeError(
            f"tolerance_ms={tolerance_ms!r} is {type(tolerance_ms).__name__}, not int; pass whole "
            "milliseconds, or None for no limit"
        )
    if tolerance_ms is not None and tolerance_ms < 0:
        raise ValueError(f"tolerance_ms={tolerance_ms}; it is 0 or more, or None for no limit")
    if not spec.format.versioned:
        raise UnsupportedError(
            f"the store {spec.name!r} has the format {spec.format.name!r}, which keeps no history; "
            "join what read_store gives with DataFrame.join"
        )
    schema = _schema(df, spec, key, timestamp, prefix, headers=headers and spec.format.headers)
    task = JoinTask(
        ShardReader(home, spec, manifest.engine),
        f"{home.path}@{manifest.version}.{manifest.job}",
        manifest.shards,
        df.columns.index(key),
        df.columns.index(timestamp),
        _places(len(schema.names)),
        inner=how == "inner",
        tolerance_ms=tolerance_ms,
        headers=headers and spec.format.headers,
        everywhere=manifest.bytes <= broadcast_bytes,
        cache_bytes=cache_bytes,
    )
    # Spark resolves columns by name: dots in one, or one that is there twice, would not pass.
    rows = df.toDF(*_places(len(df.columns)))
    if not task.everywhere:
        keys = F.col(rows.columns[task.key])
        placed = rows.withColumn(_SHARD, shard_column(keys, spec.key, manifest.partitions))
        rows = by_shard(placed, manifest.partitions, _SHARD)
    return rows.mapInArrow(task.join, _renamed(schema, task.names)).toDF(*schema.names)


@dataclass(frozen=True, slots=True)
class JoinTask:
    """What the tasks of a join do; :meth:`join` is what ``mapInArrow`` runs.

    Attributes
    ----------
    reader : ShardReader
    store : str
        Names the version; snapshots are kept under it.
    shards : tuple of Shard
    key, timestamp : int
        Places of the columns.
    names : tuple of str
        Of the columns of the result, before they get their own: see :func:`_places`.
    """

    reader: ShardReader
    store: str
    shards: tuple[Shard, ...]
    key: int
    timestamp: int
    names: tuple[str, ...]
    inner: bool
    tolerance_ms: int | None
    headers: bool
    everywhere: bool
    cache_bytes: int

    def join(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Joined batches: of rows of all shards, or of one that is their last column."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        snapshot = self.snapshot(
            None if self.everywhere else first.column(first.num_columns - 1)[0].as_py()
        )
        rest = itertools.chain([first], batches)
        for group in _groups(rest, min(len(snapshot.keys), _GROUP_ROWS)):
            found = self.find(snapshot, group)
            start = 0
            for batch in group:
                yield self.joined(snapshot, batch, found.slice(start, batch.num_rows))
                start += batch.num_rows

    def find(self, snapshot: Snapshot, group: list[pa.RecordBatch]) -> pa.Array:
        """The places of the versions for the rows of some batches."""
        import pyarrow as pa

        from kstore_core.spark.columns import millis, serialized

        given = [batch.column(self.key) for batch in group]
        keys = pa.concat_arrays([serialized(self.reader.spec.key, column) for column in given])
        when = pa.concat_arrays([batch.column(self.timestamp) for batch in group])
        if when.null_count:
            keys = pa.compute.if_else(when.is_valid(), keys, None)
        times, rounded_up = millis(when)
        return snapshot.find(keys, times, latest=rounded_up, tolerance_ms=self.tolerance_ms)

    def joined(self, snapshot: Snapshot, batch: pa.RecordBatch, found: pa.Array) -> pa.RecordBatch:
        """A batch with the versions at the places ``found`` beside its rows."""
        import pyarrow as pa

        from kstore_core.spark.columns import timestamps

        rows = batch.columns if self.everywhere else batch.columns[:-1]
        if self.inner:
            matched = found.is_valid()
            rows = [column.filter(matched) for column in rows]
            found = found.drop_null()
        added = {name: column.take(found) for name, column in snapshot.columns.items()}
        as_millis = not pa.types.is_timestamp(batch.column(self.timestamp).type)
        for name in ("timestamp", "valid_to"):
            added[name] = timestamps(added[name], as_millis=as_millis)
        return pa.RecordBatch.from_arrays([*rows, *added.values()], names=self.names)

    def snapshot(self, shard: int | None) -> Snapshot:
        """The history of a shard, or of all: kept from an earlier task, or made."""
        from kstore_core.spark.histories import snapshot_of
        from kstore_core.spark.snapshots import CACHE

        shards = self.shards if shard is None else (self.shards[shard],)
        CACHE.shrink(self.cache_bytes)
        return CACHE.get(
            (self.store, shard, self.headers),
            lambda: snapshot_of(self.reader, shards, headers=self.headers),
        )


def _groups(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[list[pa.RecordBatch]]:
    """Batches in groups that together have ``rows`` rows, or take some memory, but for the last."""
    group: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        group.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= rows or size >= _GROUP_BYTES:
            yield group
            group, count, size = [], 0, 0
    if group:
        yield group


def _places(count: int) -> tuple[str, ...]:
    """Names of columns by their places, to go by while Spark resolves them."""
    return tuple(f"column{place}" for place in range(count))


def _renamed(schema: StructType, names: tuple[str, ...]) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [
            StructField(name, field.dataType, field.nullable, field.metadata)
            for name, field in zip(names, schema.fields, strict=True)
        ]
    )


def _schema(
    df: DataFrame, spec: StoreSpec, key: str, timestamp: str, prefix: str, *, headers: bool
) -> StructType:
    """The schema of the result, after a look at the columns."""
    from pyspark.sql.types import LongType, StructType, TimestampType

    names = df.columns
    if key == timestamp:
        raise SpecError(
            f"key and timestamp are both the column {key!r}; the key of a row and its time are "
            "two columns"
        )
    allowed = {
        key: ("binary", spark_type(spec.key.arrow_type).simpleString()),
        timestamp: ("timestamp", "bigint"),
    }
    for name, kinds in allowed.items():
        if names.count(name) != 1:
            there = "two columns" if name in names else "no column"
            raise SpecError(f"the DataFrame has {there} {name!r}; it has: {', '.join(names)}")
        kind = df.schema[name].dataType.simpleString()
        if kind not in kinds:
            wanted = " or ".join(dict.fromkeys(kinds))
            raise SpecError(f"the column {name!r} is {kind}, not {wanted}")
    as_millis = df.schema[timestamp].dataType.simpleString() == "bigint"
    time = LongType() if as_millis else TimestampType()
    added = StructType()
    added.add(f"{prefix}value", spark_type(spec.value.arrow_type))
    added.add(f"{prefix}timestamp", time).add(f"{prefix}valid_to", time)
    if headers:
        added.add(f"{prefix}headers", headers_type())
    taken = {name.lower() for name in names}
    clash = [name for name in added.names if name.lower() in taken]
    if clash:
        raise SpecError(f"the DataFrame has a column {clash[0]!r} already; pass another prefix=")
    return StructType([*df.schema.fields, *added.fields])
