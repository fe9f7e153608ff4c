"""temporal_join: to each row of a DataFrame the version of its key that was valid at its time."""

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
    renamed,
    resolvable,
    route_rows,
    source_at,
    versions_schema,
)
from kstore_core.spark.join.tasks import JoinTask
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.frames import check_columns, spark_type
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

    A version is valid from its own time, inclusive, until the next version's or a tombstone's,
    exclusive. Rows may come in any order, in a batch or a stream. A row matches one version or
    none: none before the first version, after a tombstone, or with a null key or time. A row from
    before its shard's history matches the latest version if that one had begun.

    Python workers cache versions between tasks: all versions of a small store, else those of one
    shard, to which rows are routed by murmur2. The keys of a shard whose versions exceed
    ``cache_bytes`` are looked up in the shard itself, many at once.

    Parameters
    ----------
    df : DataFrame
        A batch or a stream.
    root : path
        Of a partitioned versioned store.
    key, timestamp : str
        Columns of ``df``: the key, binary or of the type that the store's key serde names; and the
        time, a timestamp or long milliseconds.
    how : {"left", "inner"}
        Keep rows without a match, with nulls, or drop them.
    tolerance_ms : int, optional
        Greatest age of a matching version at the row's time, inclusive.
    on_expired : {"null", "error"}
        For a row from before the history of its shard that the latest version does not match
        either: no match, or a failed job.
    headers : bool
        Add the version's headers, if the store keeps them.
    prefix : str
        Prefix of the added columns' names.
    partition_by : {"key", "partition"}
        Route rows to shards by murmur2 of the key, or by their column ``partition`` from Kafka. The
        latter saves hashing in Python; a row whose key belongs to another shard fails the job.
    version : int, optional
        Of the store; by default the newest. A stream keeps to the version that was the newest when
        it was started.
    follow : bool
        Streams: each task looks for a newer version first. Tasks of one micro-batch may then see
        two versions, and a retried micro-batch a newer one.
    spec : StoreSpec, optional
        The store's description; needed if its serdes are not built in.
    broadcast_bytes : int
        Greatest size of the files of a small store; 0 for none.
    cache_bytes : int
        Budget of one Python worker's cache.
    storage_options : mapping, optional
        For the file system of ``root``.

    Returns
    -------
    DataFrame
        The columns of ``df`` and ``<prefix>value``, ``<prefix>timestamp``, ``<prefix>valid_to``
        (null: still valid) and ``<prefix>headers``; times of the type of ``timestamp``.

    Raises
    ------
    StateError
        No manifest, or no such version.
    SpecError
        A column is missing, duplicate, of another type or of one that Spark does not pass to
        Python; the key is the timestamp, too; or an argument is not one of its choices.
    TypeError
        ``tolerance_ms``, ``version`` or a number of bytes is not an int.
    ValueError
        A negative number, or ``follow`` with ``version``.
    UnsupportedError
        The store keeps no history, or ``follow`` for a batch.
    """
    from pyspark.errors import PySparkNotImplementedError

    home = Root.at(root, storage_options)
    check_choice("how", how, get_args(How))
    check_choice("on_expired", on_expired, get_args(OnExpired))
    check_choice("partition_by", partition_by, get_args(PartitionBy))
    if tolerance_ms is not None:
        check_size("tolerance_ms", tolerance_ms, "milliseconds, or None for no limit")
    _check_follow(df, version, follow=follow)
    source = source_at(
        home,
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
            "Spark does not hand every column to Python, such as intervals of months "
            f"({', '.join(months) or 'there is none'}): cast it to a string, or leave it out"
        ) from error
    return joined if own else joined.toDF(*schema.names)


def _check_follow(df: DataFrame, version: int | None, *, follow: bool) -> None:
    if follow and version is not None:
        raise ValueError(f"version={version} and follow=True contradict each other; pass one")
    if follow and not df.isStreaming:
        raise UnsupportedError(
            "follow=True is for a stream, and this DataFrame is a batch: it keeps to the version "
            "that is the newest now. Leave out follow"
        )


def _schema(
    df: DataFrame, source: Source, key: str, timestamp: str, prefix: str, partition_by: PartitionBy
) -> StructType:
    """The schema of the result, after a look at the columns."""
    from pyspark.sql.types import LongType, StructType, TimestampType

    if key == timestamp:
        raise SpecError(
            f"key and timestamp are both the column {key!r}; the key of a row and its time are "
            "two columns"
        )
    key_type = spark_type(source.reader.spec.key.arrow_type).simpleString()
    allowed = {key: ("binary", key_type), timestamp: ("timestamp", "bigint")}
    if partition_by == "partition":
        allowed[_PARTITION] = ("int", "bigint")
    check_columns(df, allowed)
    as_millis = df.schema[timestamp].dataType.simpleString() == "bigint"
    added = versions_schema(source, LongType() if as_millis else TimestampType(), prefix)
    taken = {name.lower() for name in df.columns}
    clash = [name for name in added.names if name.lower() in taken]
    if clash:
        raise SpecError(f"the DataFrame has a column {clash[0]!r} already; pass another prefix=")
    return StructType([*df.schema.fields, *added.fields])
