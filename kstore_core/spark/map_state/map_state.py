"""map_state: stateful processing of a DataFrame by key, with a store on the worker."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from kstore_core.checks import check_choice
from kstore_core.engine import Durability
from kstore_core.errors import SpecError
from kstore_core.spark.map_state.plan import UNCOMMITTED_MAX_BYTES, check_unique, plan
from kstore_core.spark.shards.frames import check_columns, headers_type, shard_column, spark_type
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from kstore_core.spark.map_state.rows import Rows, Times

__all__ = ["map_state"]

PartitionBy = Literal["key", "partition"]


def map_state(
    df: DataFrame,
    fn: Callable[[Any, Rows, Any], Any],
    spec: StoreSpec,
    *,
    root: str | os.PathLike[str],
    schema: StructType | str,
    key: str = "key",
    partitions: int | None = None,
    partition_by: PartitionBy = "key",
    order_by: Sequence[str] = (),
    timestamps: Times = "timestamp",
    engine: str = "lmdb",
    durability: Durability = "process",
    lock_timeout_s: float = 60,
    uncommitted_max_bytes: int = UNCOMMITTED_MAX_BYTES,
    partition_time: str | None = None,
) -> DataFrame:
    """Process rows by key with a store that outlives the batch, exactly once.

    ``fn(key, rows, store)`` is called once for each key of a micro-batch, on the worker that has
    the key's shard. ``key`` is the key, deserialised by the key serde of ``spec``. ``rows`` is a
    sequence of named tuples of the DataFrame's columns,
    :class:`~kstore_core.spark.map_state.rows.Rows`. ``store`` is the store of ``state.open(spec)``,
    with all its methods. ``fn`` returns None, or an iterable of rows, each a tuple or a dict of the
    columns of ``schema``. A column of headers takes :class:`~kstore_core.Headers`; a column of
    timestamps takes aware datetimes or int milliseconds.

    One engine batch commits the writes, the number of the micro-batch and its output. A replayed
    micro-batch is not applied again; its output is returned again. For a batch DataFrame, one call
    of map_state is one run: if several actions evaluate it, each returns the same output. Evaluate
    it before the next call on its root.

    Parameters
    ----------
    df : DataFrame
        A stream or a batch.
    fn : callable
    spec : StoreSpec
    root : path
        A directory that all machines see. The state is below ``live/<store>/``, a Kafka Streams
        task directory for each shard. It belongs to one streaming query.
    schema : StructType or str
        The schema of the result.
    key : str
        The column of the key: binary, or of the key serde's type.
    partitions : int, optional
        The number of shards; by default the number of the root, or
        ``spark.sql.shuffle.partitions``.
    partition_by : {"key", "partition"}
        A row's shard: by Kafka's murmur2 of its key, or the number in its column ``partition``.
    order_by : sequence of str
        Columns that sort a key's rows. By default the rows have Spark's order, which is the order
        of arrival for rows of one source partition.
    timestamps : {"timestamp", "millis"}
        The timestamps of ``rows``: aware datetimes, or int milliseconds.
    engine : str
        The storage engine. Each task opens a shard, which takes LMDB a few milliseconds.
    durability : {"process", "power", "changelog"}
        The failures that a commit survives; see :func:`kstore_core.open_state`.
    lock_timeout_s : float
        The time that a task waits for a shard locked by another task, seconds.
    uncommitted_max_bytes : int
        The limit of a micro-batch's writes to one shard, bytes.
    partition_time : str, optional
        A column of headers. After a micro-batch of a shard, stream time advances to the latest
        header ``partition-time`` of its rows; see :func:`with_partition_time`.

    Returns
    -------
    DataFrame
        The output with ``schema``; a stream if ``df`` is a stream.

    Raises
    ------
    SpecError
        A column is missing, duplicate or of another type; an option has an unknown value; the root
        has a state with other shards.
    TypeError
        ``fn`` does not take a key, rows and a store.
    UnsupportedError
        The engine stores its data in one process, or commits such a store in several batches; the
        root is on an object store.
    StateError
        Another kind of stream writes to the root.
    """
    from kstore_core.spark.map_state.tasks import KeyedFunction

    _check_function(fn)
    check_choice("partition_by", partition_by, get_args(PartitionBy))
    check_choice("timestamps", timestamps, ("timestamp", "millis"))
    if not isinstance(spec, StoreSpec):
        raise TypeError(f"spec must be a StoreSpec of kstore_core.stores, not {spec!r}")
    _check_columns(df, spec, key, partition_by, order_by, partition_time)

    def keyed(promised: pa.Schema) -> KeyedFunction:
        return KeyedFunction(fn, spec, key, tuple(order_by), timestamps, promised)

    def shard_of_key(column: Column, shards: int) -> Column:
        return shard_column(column, spec.key, shards)

    def number(column: Column, _: int) -> Column:
        return column.cast("int")

    return plan(
        df,
        keyed,
        _schema(schema),
        spec,
        (key, shard_of_key) if partition_by == "key" else ("partition", number),
        root=root,
        engine=engine,
        partitions=partitions,
        partition_by=partition_by,
        durability=durability,
        lock_timeout_s=lock_timeout_s,
        uncommitted_max_bytes=uncommitted_max_bytes,
        partition_time=partition_time,
    )


def _check_function(fn: Callable[..., Any]) -> None:
    if not callable(fn):
        raise TypeError(f"fn must be a function, not {fn!r}")
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a builtin may have none
        return
    try:
        signature.bind(None, None, None)
    except TypeError as error:
        name = getattr(fn, "__qualname__", repr(fn))
        raise TypeError(f"{name}{signature} is called as fn(key, rows, store): {error}") from error


def _check_columns(
    df: DataFrame,
    spec: StoreSpec,
    key: str,
    partition_by: str,
    order_by: Sequence[str],
    partition_time: str | None,
) -> None:
    check_unique(df)
    if isinstance(order_by, str):
        raise SpecError(f"order_by={order_by!r} is a str; pass a list of columns")
    kinds = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    allowed: dict[str, tuple[str, ...]] = {name: (kinds.get(name, ""),) for name in order_by}
    if partition_by == "partition":
        allowed["partition"] = ("int", "bigint")
    if partition_time is not None:
        if spec.shape == "key_value":
            raise SpecError(
                f"the key-value store {spec.name!r} has no stream time that partition_time="
                f"{partition_time!r} could advance; leave it out"
            )
        allowed[partition_time] = (headers_type().simpleString(),)
    allowed[key] = ("binary", spark_type(spec.key.arrow_type).simpleString())
    check_columns(df, allowed)
    for name in order_by:
        if "<" in kinds[name]:
            raise SpecError(
                f"the column {name!r} is {kinds[name]}, which cannot be sorted; leave it out of "
                "order_by"
            )


def _schema(schema: StructType | str) -> StructType:
    from pyspark.sql.types import StructType

    if isinstance(schema, str):
        schema = cast("StructType", StructType.fromDDL(schema))
    if not isinstance(schema, StructType) or not schema.fields:
        raise SpecError(
            f"schema={schema!r} has no columns; pass those that fn returns, such as 'key string, "
            "total bigint' or a StructType"
        )
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise SpecError(f"the schema has two columns {twice[0]!r}; rename one")
    return schema
