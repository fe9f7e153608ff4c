"""The temporal join, which adds to each row the version of its key that was valid at its time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from kstore_core.checks import check_choice
from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spark.join.plan import (
    How,
    OnExpired,
    PartitionBy,
    check_size,
    resolvable,
    route_rows,
    source_at,
)
from kstore_core.spark.join.tasks import JoinTask
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.frames import check_columns, headers_type, renamed, spark_type
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from kstore_core.spark.join.versions import Source

__all__ = ["temporal_join"]

_PARTITION = "partition"


def temporal_join(
    df: DataFrame,
    root: str | os.PathLike[str],
    *,
    key: str,
    timestamp: str,
    how: How = "left",
    tolerance_ms: int | None = None,
    on_expired: OnExpired = "null",
    headers: bool = True,
    prefix: str = "table_",
    partition_by: PartitionBy = "key",
    version: int | None = None,
    follow: bool = False,
    spec: StoreSpec | None = None,
    broadcast_bytes: int = 64 * 1024 * 1024,
    cache_bytes: int = 512 * 1024 * 1024,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Join each row with the version of its key that was valid at its time.

    A version is valid from its timestamp, inclusive, until the timestamp of the key's next version
    or tombstone, exclusive. The rows may have any order. Each row matches at most one version. A
    row has no match if its time is before the key's first version or after a tombstone, or if its
    key or time is null. If a row's time is before the history of its shard, the row can match only
    the latest version of its key. That version must have begun at the row's time or before.

    Python workers cache versions between tasks. Of a small store, each worker caches all versions.
    Rows for a larger store are routed to its shards by the murmur2 hash of the key, and a worker
    caches the versions of one shard. If the versions of a shard exceed ``cache_bytes``, the keys
    of many rows are looked up in the shard together.

    Parameters
    ----------
    df : DataFrame
        A batch or a stream.
    root : path or address
        The root of a partitioned versioned store.
    key : str
        The column of ``df`` with the keys. Its type is binary, or the type of the store's key
        serde.
    timestamp : str
        The column of ``df`` with the times. Its type is timestamp, or long with ms since the
        epoch.
    how : {"left", "inner"}
        ``"left"`` returns a row without a match with nulls; ``"inner"`` drops the row.
    tolerance_ms : int, optional
        The greatest age in ms of a matching version at the row's time, inclusive; no limit if
        None.
    on_expired : {"null", "error"}
        What happens if a row's time is before the history of its shard, and the latest version of
        its key does not match. ``"null"`` treats the row as a row without a match; ``"error"``
        fails the job.
    headers : bool
        If true and the store has headers, add the headers of the version.
    prefix : str
        The prefix of the names of the added columns.
    partition_by : {"key", "partition"}
        ``"key"`` routes a row to the shard that the murmur2 hash of its key selects.
        ``"partition"`` routes a row to the shard in its column ``partition``, which Kafka's source
        provides, and saves hashing in Python. The job then fails if the key of a row belongs to
        another shard.
    version : int, optional
        The version of the store to join; the version that is newest at the call if None. A stream
        reads this version until it ends, unless ``follow`` is true.
    follow : bool
        If true, each task of a stream reads the newest version of the store at the task's start.
        The tasks of one micro-batch may then read different versions, and a retried micro-batch
        may read a newer version than before.
    spec : StoreSpec, optional
        The spec of the store, which is needed only if its serdes are not built in.
    broadcast_bytes : int
        The greatest size in bytes of the files of a store that counts as small. If 0, rows are
        routed to shards for every store.
    cache_bytes : int
        The limit in bytes of the cache of one Python worker.
    storage_options : mapping, optional
        Options of the object store of ``root``.

    Returns
    -------
    DataFrame
        The columns of ``df``, followed by ``<prefix>value``, ``<prefix>timestamp``,
        ``<prefix>valid_to``, which is null for a version that is still valid, and
        ``<prefix>headers``. The times have the type of the column ``timestamp``.

    Raises
    ------
    StateError
        The root has no manifest, or no version ``version``.
    SpecError
        A column is missing, is duplicate, has the wrong type, or has a type that Spark cannot pass
        to Python; ``key`` and ``timestamp`` name the same column; or an argument is not one of its
        choices.
    TypeError
        ``tolerance_ms``, ``version``, ``broadcast_bytes`` or ``cache_bytes`` is not an int.
    ValueError
        A number is negative, or both ``follow`` and ``version`` are given.
    UnsupportedError
        The store is not versioned, or ``follow`` is true and ``df`` is a batch.
    """
    from pyspark.errors import PySparkNotImplementedError

    at = Root.at(root, storage_options)
    check_choice("how", how, get_args(How))
    check_choice("on_expired", on_expired, get_args(OnExpired))
    check_choice("partition_by", partition_by, get_args(PartitionBy))
    if tolerance_ms is not None:
        check_size("tolerance_ms", tolerance_ms, "milliseconds, or None for no limit")
    _check_follow(df, version, follow=follow)
    source = source_at(
        at,
        spec,
        version,
        headers=headers,
        broadcast_bytes=broadcast_bytes,
        cache_bytes=cache_bytes,
        follow=follow,
    )
    schema = _schema(df, source, key, timestamp, prefix, partition_by)
    names = resolvable(schema.names)
    task = JoinTask(
        source,
        df.columns.index(key),
        df.columns.index(timestamp),
        names,
        inner=how == "inner",
        tolerance_ms=tolerance_ms,
        refuse_expired=on_expired == "error",
        check_shards=partition_by == "partition",
    )
    by = df.columns.index(_PARTITION) if task.check_shards else None
    own = names == tuple(schema.names)
    rows = route_rows(df if own else df.toDF(*names[: len(df.columns)]), source, task.key, by)
    try:
        joined = rows.mapInArrow(task.join, renamed(schema, names))
    except PySparkNotImplementedError as error:
        months = [f.name for f in schema.fields if "interval" in f.dataType.simpleString()]
        raise SpecError(
            f"Spark cannot pass {', '.join(months) or 'one of the columns'} to Python, because "
            "its Python API does not support the type; cast the column to a string, or leave the "
            "column out"
        ) from error
    return joined if own else joined.toDF(*schema.names)


def _check_follow(df: DataFrame, version: int | None, *, follow: bool) -> None:
    if follow and version is not None:
        raise ValueError(
            f"version={version} and follow=True contradict each other; pass only one of them"
        )
    if follow and not df.isStreaming:
        raise UnsupportedError(
            "follow=True is for a stream, but this DataFrame is a batch, which reads one version "
            "of the store. Leave out follow"
        )


def _schema(
    df: DataFrame, source: Source, key: str, timestamp: str, prefix: str, partition_by: PartitionBy
) -> StructType:
    """Check the columns of ``df``, and return the schema of the joined DataFrame."""
    from pyspark.sql.types import LongType, StructType, TimestampType

    if key == timestamp:
        raise SpecError(
            f"key and timestamp both name the column {key!r}; pass two different columns"
        )
    key_type = spark_type(source.reader.spec.key.arrow_type).simpleString()
    allowed = {key: ("binary", key_type), timestamp: ("timestamp", "bigint")}
    if partition_by == "partition":
        allowed[_PARTITION] = ("int", "bigint")
    check_columns(df, allowed)
    as_millis = df.schema[timestamp].dataType.simpleString() == "bigint"
    time = LongType() if as_millis else TimestampType()
    added = StructType().add(f"{prefix}value", spark_type(source.reader.spec.value.arrow_type))
    added.add(f"{prefix}timestamp", time).add(f"{prefix}valid_to", time)
    if source.headers:
        added.add(f"{prefix}headers", headers_type())
    taken = {name.lower() for name in df.columns}
    clash = [name for name in added.names if name.lower() in taken]
    if clash:
        raise SpecError(
            f"the join adds a column {clash[0]!r}, but the DataFrame already has a column of this "
            "name; pass another prefix="
        )
    return StructType([*df.schema.fields, *added.fields])
