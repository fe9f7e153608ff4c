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
from kstore_core.spark.runtime.worker_errors import told
from kstore_core.spark.shards.frames import (
    accepted_types,
    check_columns,
    headers_type,
    renamed,
    spark_type,
)
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from kstore_core.spark.join.versions import Source

__all__ = ["temporal_join"]

_PARTITION = "partition"


def temporal_join(
    df: DataFrame,
    root: str | os.PathLike[str],
    *,
    key: str | Column,
    timestamp: str | Column,
    how: How = "left",
    tolerance_ms: int | None = None,
    on_expired: OnExpired = "null",
    headers: bool = True,
    prefix: str = "table_",
    partition_by: PartitionBy = "key",
    version: int | None = None,
    follow: bool = False,
    spec: StoreSpec | None = None,
    broadcast_bytes: int = 256 * 1024 * 1024,
    cache_bytes: int = 512 * 1024 * 1024,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Join each row with the version of its key that was valid at its time.

    A version is valid from its timestamp, inclusive, until the timestamp of the key's next version
    or tombstone, exclusive. The rows of ``df`` may have any order. Each row matches at most one
    version. A row has no match if its key has no version that was valid at its time, or if its key
    or time is null. The history of a shard lacks versions that have expired. So a row whose time is
    before the history of its key's shard can match only a version that began at the row's time or
    before, and that is still valid.

    Python workers cache versions between tasks. On Linux, the workers of a machine that cache the
    same versions share one copy in memory. If the store is small, each worker caches all versions.
    If the store is larger, Spark routes each row to the task of a shard, and a worker caches the
    versions of that shard. If the versions of a shard exceed ``cache_bytes``, the worker does not
    cache them, but looks up the keys of many rows in the shard at once.

    Parameters
    ----------
    df : DataFrame
        The rows to join, as a batch or a stream.
    root : path or address
        The root of a partitioned versioned store.
    key : str or Column
        The name of the column of ``df`` with the keys, such as ``"sku"`` or ``"item.sku"``, or an
        expression. Its type must be binary, the type of the store's key serde, or a narrower type
        of numbers.
    timestamp : str or Column
        The name of the column of ``df`` with the times, or an expression. Its type must be
        timestamp, or long with ms since the epoch.
    how : {"left", "inner"}
        The treatment of a row without a match. ``"left"`` returns the row with nulls in the added
        columns, and ``"inner"`` drops the row.
    tolerance_ms : int, optional
        The greatest age in ms, inclusive, that a version may have at the row's time. No limit if
        None.
    on_expired : {"null", "error"}
        The treatment of a row without a match whose time is before the history of its key's
        shard. ``"null"`` does what ``how`` says, and ``"error"`` fails the job.
    headers : bool
        If true and the store has headers, add a column with the headers of the version.
    prefix : str
        The prefix of the names of the added columns.
    partition_by : {"key", "partition"}
        The choice of a row's shard. ``"key"`` chooses the shard by the murmur2 hash of the
        key. ``"partition"`` takes the shard from the column ``partition``, which Spark's Kafka
        source provides, and the job fails if the key of a row does not belong to this shard. If the
        store is small, the join does not read this column.
    version : int, optional
        The version of the store to join. If None, the version that is newest when
        ``temporal_join`` is called. If ``follow`` is false, a stream reads this version as long as
        the stream runs.
    follow : bool
        If true, each task of a stream reads the version of the store that is newest when the task
        starts. The tasks of one micro-batch may then read different versions, and the retry of a
        micro-batch may read a newer version than the first attempt.
    spec : StoreSpec, optional
        The spec of the store, which is needed only if a serde of the store is not built in.
    broadcast_bytes : int
        The greatest size of a small store in bytes, inclusive. A store is small if the total size
        of its files is at most ``broadcast_bytes`` and at most ``cache_bytes``. If 0, only an empty
        store is small.
    cache_bytes : int
        The greatest size in bytes of the cache of one Python worker. Versions that workers share
        count in full for each worker.
    storage_options : mapping, optional
        Options of the object store or HDFS of ``root``.

    Returns
    -------
    DataFrame
        The columns of ``df``, followed by the columns ``<prefix>value``, ``<prefix>timestamp``,
        ``<prefix>valid_to`` and, with ``headers``, ``<prefix>headers``. ``<prefix>timestamp`` is
        the inclusive begin of the version's validity. ``<prefix>valid_to`` is the exclusive end, or
        null if the version is still valid. Both columns have the type of the times that the
        argument ``timestamp`` names.

    Raises
    ------
    StateError
        The root has no version of the store, or does not have the version ``version``.
    SpecError
        A column is missing, is duplicate, has the wrong type, or has a type that Spark cannot pass
        to Python; ``key`` and ``timestamp`` name the same column; ``df`` has a column with the name
        of an added column; or an argument has an unknown value.
    TypeError
        ``tolerance_ms``, ``version``, ``broadcast_bytes`` or ``cache_bytes`` is not an int.
    ValueError
        A number other than ``version`` is negative, or both ``follow`` and ``version`` are given.
    UnsupportedError
        The store is not versioned, or ``follow`` is true and ``df`` is a batch.
    RetentionExceededError
        The query itself raises this error if ``on_expired`` is ``"error"`` and a row has expired;
        see :func:`kstore_error`.
    """
    from pyspark.errors import PySparkNotImplementedError

    check_choice("how", how, get_args(How))
    check_choice("on_expired", on_expired, get_args(OnExpired))
    check_choice("partition_by", partition_by, get_args(PartitionBy))
    if tolerance_ms is not None:
        check_size("tolerance_ms", tolerance_ms, "milliseconds, or None for no limit")
    _check_follow(df, version, follow=follow)
    source = source_at(
        df.sparkSession,
        root,
        spec,
        version,
        headers=headers,
        broadcast_bytes=broadcast_bytes,
        cache_bytes=cache_bytes,
        follow=follow,
        storage_options=storage_options,
    )
    given = len(df.columns)
    df, key = _with_column(df, key, "key")
    df, timestamp = _with_column(df, timestamp, "timestamp")
    computed = df.columns[given:]
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
    )
    by = df.columns.index(_PARTITION) if partition_by == "partition" else None
    own = names == tuple(schema.names)
    rows = df if own else df.toDF(*names[: len(df.columns)])
    try:
        rows = route_rows(rows, source, task.key, by)
        joined = rows.mapInArrow(told(task.join), renamed(schema, names))
    except PySparkNotImplementedError as error:
        months = [f.name for f in schema.fields if "interval" in f.dataType.simpleString()]
        raise SpecError(
            f"Spark cannot pass {', '.join(months) or 'one of the columns'} to Python, because "
            "Spark's Python API does not support the type; cast the column to a string, or drop "
            "the column"
        ) from error
    joined = joined if own else joined.toDF(*schema.names)
    return joined.drop(*computed) if computed else joined


def _with_column(df: DataFrame, given: str | Column, argument: str) -> tuple[DataFrame, str]:
    """Return a DataFrame with the column of an argument, and the name of this column.

    An expression becomes a new column. A text that is the whole name of a column names this column.
    Spark resolves every other text. By default, Spark ignores the case of letters, reads ``a.b`` as
    the field ``b`` of the column ``a``, and reads backquotes as the quotes of a name.
    """
    if isinstance(given, str) and given not in df.columns and any(mark in given for mark in ".`"):
        given = _resolved(df, given)
    if not isinstance(given, str):
        taken = {name.lower() for name in df.columns}
        name = f"_{argument}"
        while name in taken:
            name = f"_{name}"
        return df.withColumn(name, given), name
    same = [name for name in df.columns if name.lower() == given.lower()]
    sensitive = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    return df, same[0] if len(same) == 1 and not sensitive else given


def _resolved(df: DataFrame, name: str) -> str | Column:
    """Return the column that Spark finds by a name, or the name if Spark finds none."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    try:
        df.select(F.col(name)).schema  # noqa: B018 - only Spark Connect needs the schema
    except AnalysisException:
        return name
    return F.col(name)


def _check_follow(df: DataFrame, version: int | None, *, follow: bool) -> None:
    if follow and version is not None:
        raise ValueError(
            f"version={version} and follow=True contradict each other; pass only one of them"
        )
    if follow and not df.isStreaming:
        raise UnsupportedError(
            "follow=True can be used only with a stream, but this DataFrame is a batch, which "
            "reads one version of the store. Leave out follow"
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
    key_types = accepted_types(source.reader.spec.key)
    allowed = {key: key_types, timestamp: ("timestamp", "bigint")}
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
