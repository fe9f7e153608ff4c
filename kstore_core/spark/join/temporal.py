"""temporal_join: adds to each row the version of its key that was valid at its time."""

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

    A version is valid from its time, inclusive, until the time of the next version or tombstone,
    exclusive. Rows may have any order, in a batch or a stream. A row matches one version at most.
    It matches none before the first version, after a tombstone, or with a null key or time. A row
    before its shard's history matches the latest version if that version had begun.

    Python workers cache versions between tasks: all versions of a small store, else the versions
    of one shard, to which murmur2 routes the rows. If the versions of a shard exceed
    ``cache_bytes``, keys are looked up in the shard, many in one lookup.

    Parameters
    ----------
    df : DataFrame
        A batch or a stream.
    root : path
        The root of a partitioned versioned store.
    key, timestamp : str
        Columns of ``df``: the key, binary or of the type of the store's key serde; and the time, a
        timestamp or long milliseconds.
    how : {"left", "inner"}
        Return rows without a match, with nulls, or drop them.
    tolerance_ms : int, optional
        Greatest age of a matching version at the row's time, inclusive.
    on_expired : {"null", "error"}
        For a row before the history of its shard, if the latest version does not match either: no
        match, or a failed job.
    headers : bool
        Add the version's headers, if the store has them.
    prefix : str
        Prefix of the added columns' names.
    partition_by : {"key", "partition"}
        Route rows to shards by murmur2 of the key, or by their column ``partition`` from Kafka. The
        latter saves hashing in Python; a row whose key belongs to another shard fails the job.
    version : int, optional
        The version of the store; by default the newest. A stream reads the version that was newest
        at its start.
    follow : bool
        Streams: each task looks for a newer version first. Tasks of one micro-batch may then read
        different versions, and a retried micro-batch a newer version.
    spec : StoreSpec, optional
        The store's description; needed if its serdes are not built in.
    broadcast_bytes : int
        The greatest size of the files of a small store, bytes; 0 routes rows for every store.
    cache_bytes : int
        The limit of one Python worker's cache, bytes.
    storage_options : mapping, optional
        Options of the object store of ``root``.

    Returns
    -------
    DataFrame
        The columns of ``df`` and ``<prefix>value``, ``<prefix>timestamp``, ``<prefix>valid_to``
        (null: still valid) and ``<prefix>headers``; times of the type of ``timestamp``.

    Raises
    ------
    StateError
        There is no manifest, or no such version.
    SpecError
        A column is missing, duplicate, of another type or of a type that Spark does not pass to
        Python; key and timestamp are one column; or an argument is not one of its choices.
    TypeError
        ``tolerance_ms``, ``version`` or a number of bytes is not an int.
    ValueError
        A number is negative, or ``follow`` is passed with ``version``.
    UnsupportedError
        The store has no history, or ``follow`` is passed for a batch.
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
            f"Spark cannot pass {', '.join(months) or 'one of the columns'} to Python, because of "
            "its type: cast the column to a string, or leave it out"
        ) from error
    return joined if own else joined.toDF(*schema.names)


def _check_follow(df: DataFrame, version: int | None, *, follow: bool) -> None:
    if follow and version is not None:
        raise ValueError(f"version={version} and follow=True contradict each other; pass one")
    if follow and not df.isStreaming:
        raise UnsupportedError(
            "follow=True is for a stream, and this DataFrame is a batch, which reads one version. "
            "Leave out follow"
        )


def _schema(
    df: DataFrame, source: Source, key: str, timestamp: str, prefix: str, partition_by: PartitionBy
) -> StructType:
    """Check the columns, and return the schema of the result."""
    from pyspark.sql.types import LongType, StructType, TimestampType

    if key == timestamp:
        raise SpecError(f"key and timestamp are both the column {key!r}; pass two columns")
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
        raise SpecError(f"the DataFrame has a column {clash[0]!r} already; pass another prefix=")
    return StructType([*df.schema.fields, *added.fields])
