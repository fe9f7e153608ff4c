"""The foreign-key join, which joins the histories of two stores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from kstore_core.checks import check_choice
from kstore_core.errors import UnsupportedError
from kstore_core.spark.join.plan import How, OnExpired, route_rows, source_at
from kstore_core.spark.join.span_tasks import SpanTask
from kstore_core.spark.read.read_store import Timestamps, read_store
from kstore_core.spark.root.manifest import manifest_spec
from kstore_core.spark.root.root import loaded
from kstore_core.spark.runtime.server import on_server
from kstore_core.spark.runtime.worker_errors import told
from kstore_core.spark.shards.frames import accepted_types, check_columns, headers_type, spark_type
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["foreign_key_join"]


def foreign_key_join(
    spark: SparkSession,
    left_root: str | os.PathLike[str],
    right_root: str | os.PathLike[str],
    *,
    foreign_key: str | Column,
    how: How = "inner",
    on_expired: OnExpired = "null",
    headers: bool = True,
    timestamps: Timestamps = "timestamp",
    left_version: int | None = None,
    right_version: int | None = None,
    left_spec: StoreSpec | None = None,
    right_spec: StoreSpec | None = None,
    broadcast_bytes: int = 256 * 1024 * 1024,
    cache_bytes: int = 512 * 1024 * 1024,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Join the histories of two stores by foreign keys, which the values of the left store contain.

    A foreign key is a key of the right store. Each row of the result contains a version of the left
    store, the right store's version of the foreign key, and the span of time during which both
    versions were valid. To get the join of both stores as of a time, select the rows whose spans
    contain this time. In contrast, a table-table join of Kafka Streams returns only the current
    rows.

    The join uses only versions that have not expired. Therefore the result is complete only for
    times within the histories of both stores. If the left store is a key-value store with
    timestamps, its history has only the latest value of each key.

    Parameters
    ----------
    spark : SparkSession
        The session that reads the stores.
    left_root, right_root : path or address
        The roots of partitioned stores. The right store must be versioned.
    foreign_key : str or Column
        An expression that returns the foreign key of a version of the left store, such as
        ``"value"`` or ``"get_json_object(value, '$.customer')"``. The expression may use the
        columns that :func:`read_store` returns for the left store. The type of the expression must
        be binary, or the type of the right store's key serde. A null matches no key of the right
        store.
    how : {"inner", "left"}
        The treatment of a span during which the foreign key has no version in the right store.
        ``"inner"`` drops the span, and ``"left"`` returns the span with nulls.
    on_expired : {"null", "error"}
        The treatment of a span without a version in the right store, if the span begins before the
        history of the foreign key's shard. ``"null"`` does what ``how`` says, and ``"error"`` fails
        the job.
    headers : bool
        If true, add a column with the headers of the versions of each store that has headers.
    timestamps : {"timestamp", "millis"}
        The type of the columns of times: Spark timestamps, or long values in ms since the epoch.
    left_version, right_version : int, optional
        The versions of the stores to join. If None, the newest versions.
    left_spec, right_spec : StoreSpec, optional
        The specs of the stores. A spec is needed only if a serde of the store is not built in.
    broadcast_bytes, cache_bytes : int
        The arguments with the same names of :func:`temporal_join`. They apply to the right store.
    storage_options : mapping, optional
        Options of the object stores of both roots.

    Returns
    -------
    DataFrame
        A DataFrame with three groups of columns. ``key``, ``value``, ``timestamp`` and ``headers``
        belong to the version of the left store. ``foreign_key``, ``foreign_value``,
        ``foreign_timestamp`` and ``foreign_headers`` belong to the version of the right store.
        ``valid_from``, inclusive, and ``valid_to``, exclusive, are the bounds of the span.
        ``valid_to`` is null if the span has not ended.

    Raises
    ------
    StateError
        A root has no version, or does not have the given version.
    SpecError
        A spec does not describe the store of its root; the foreign key has the wrong type; or an
        argument has an unknown value.
    TypeError
        ``broadcast_bytes`` or ``cache_bytes`` is not an int.
    ValueError
        ``broadcast_bytes`` or ``cache_bytes`` is negative.
    UnsupportedError
        The right store is not versioned. Or the left store is neither versioned nor a key-value
        store with timestamps.
    RetentionExceededError
        The query itself raises this error if ``on_expired`` is ``"error"`` and a span has expired;
        see :func:`kstore_error`.
    """
    from pyspark.sql import functions as F  # noqa: N812

    check_choice("how", how, get_args(How))
    check_choice("on_expired", on_expired, get_args(OnExpired))
    check_choice("timestamps", timestamps, get_args(Timestamps))
    left_home, left_manifest = on_server(spark, loaded, left_root, storage_options, left_version)
    left = manifest_spec(left_manifest, left_spec, str(left_home))
    if left.shape not in ("key_value", "versioned") or not left.format.timestamped:
        raise UnsupportedError(
            f"the left store {left.name!r} in {left_home} is a {left.shape} store of the format "
            f"{left.format.name!r}; pass a versioned store, or a key-value store with timestamps, "
            "as the left store"
        )
    source = source_at(
        spark,
        right_root,
        right_spec,
        right_version,
        headers=headers,
        broadcast_bytes=broadcast_bytes,
        cache_bytes=cache_bytes,
        storage_options=storage_options,
    )
    rows = read_store(
        spark,
        left_root,
        history=left.format.versioned,
        headers=headers and left.format.headers,
        timestamps="millis",
        version=left_manifest.version,
        spec=left_spec,
        storage_options=storage_options,
    )
    named = F.expr(foreign_key) if isinstance(foreign_key, str) else foreign_key
    end = F.col("valid_to") if left.format.versioned else F.lit(None).cast("bigint")
    own = [name for name in rows.columns if name not in ("valid_to", "partition")]
    rows = rows.select(*own, named.alias("foreign_key"), end.alias("end"))
    check_columns(rows, {"foreign_key": accepted_types(source.reader.spec.key)})
    task = SpanTask(
        source,
        tuple(own),
        inner=how == "inner",
        refuse_expired=on_expired == "error",
        as_millis=timestamps == "millis",
    )
    at = rows.columns.index("foreign_key")
    return route_rows(rows, source, at).mapInArrow(told(task.join), _schema(rows, task))


def _schema(rows: DataFrame, task: SpanTask) -> Any:
    """Return the schema of the joined DataFrame."""
    from pyspark.sql.types import LongType, StructType, TimestampType

    time = LongType() if task.as_millis else TimestampType()
    schema = StructType()
    for name in task.left:
        schema.add(name, time if name == "timestamp" else rows.schema[name].dataType)
    schema.add("foreign_key", rows.schema["foreign_key"].dataType)
    schema.add("foreign_value", spark_type(task.source.reader.spec.value.arrow_type))
    schema.add("foreign_timestamp", time)
    if task.source.headers:
        schema.add("foreign_headers", headers_type())
    return schema.add("valid_from", time).add("valid_to", time)
