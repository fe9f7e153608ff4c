"""The function `map_state`, which processes the rows of a DataFrame by key, with a store."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from kstore_core.checks import check_choice
from kstore_core.engine import Durability
from kstore_core.errors import SpecError
from kstore_core.spark.map_state.plan import UNCOMMITTED_MAX_BYTES, check_unique, plan
from kstore_core.spark.remote.layout import COMPACT_EVERY
from kstore_core.spark.shards.frames import (
    accepted_types,
    check_columns,
    headers_type,
    shard_column,
)
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
    storage_options: Mapping[str, Any] | None = None,
    compact_every: int = COMPACT_EVERY,
) -> DataFrame:
    """Process rows by key, with a store that keeps its state from one micro-batch to the next.

    The store is divided into shards, and each key belongs to one shard. For each key of a
    micro-batch, a Spark task calls ``fn(key, rows, store)`` once. ``key`` is the key, deserialised
    by the key serde of ``spec``. ``rows`` contains the rows of the key as named tuples; see
    :class:`~kstore_core.spark.map_state.rows.Rows`. ``store`` is the store of the key's shard. It
    has the methods of a store that ``state.open(spec)`` returns.

    ``fn`` must return None or an iterable of rows. Each row must be a tuple with a value for each
    column of ``schema``, or a dict of these values by the names of the columns. A value of a column
    of headers may be a :class:`~kstore_core.Headers`. A value of a column of timestamps must be an
    aware datetime or int milliseconds.

    Each micro-batch is applied exactly once. The commit of a shard contains the writes of ``fn``,
    the number of the micro-batch, and the rows that ``fn`` returned. If Spark replays the
    micro-batch, the task returns the stored rows and does not call ``fn``.

    If ``df`` is a batch, each call of map_state is one run. If several Spark actions evaluate the
    DataFrame that map_state returned, each action returns the same rows. Evaluate this DataFrame
    before you call map_state again with the same root and the same store name.

    Parameters
    ----------
    df : DataFrame
        A streaming DataFrame or a batch DataFrame.
    fn : callable
        The function that a task calls with the rows of each key, as described above.
    spec : StoreSpec
        The spec of the store.
    root : path or address
        The directory that contains the state, on a disk that the driver and all workers share and
        mount at the same path; or the address of a directory on an object store or HDFS, such as
        ``s3://bucket/prefix``. docs/map-state.md describes the differences. The state is in
        ``<root>/live/<store>/``. A state that a stream has used belongs to the query of this
        stream.
    schema : StructType or str
        The schema of the rows that ``fn`` returns.
    key : str
        The name of the column of keys. The type of the column must be binary, or the type of the
        key serde.
    partitions : int, optional
        The number of shards. If None, an existing state keeps its number of shards, and a new state
        gets ``spark.sql.shuffle.partitions`` shards.
    partition_by : {"key", "partition"}
        The choice of a row's shard: ``"key"`` uses Kafka's murmur2 hash of the key, and
        ``"partition"`` uses the number in the row's column ``partition``.
    order_by : sequence of str
        The names of the columns by which the rows of a key are sorted. If empty, the rows have the
        order in which Spark delivers them, and rows of the same source partition are in the order
        of their arrival.
    timestamps : {"timestamp", "millis"}
        The type of the timestamps in ``rows``: aware datetimes, or int milliseconds.
    engine : str
        The name of the storage engine of the shards.
    durability : {"process", "power", "changelog"}
        The failures that a commit survives; see :func:`kstore_core.open_state`.
    lock_timeout_s : float
        The longest time in seconds that a task waits for a shard that another task has locked.
    uncommitted_max_bytes : int
        The greatest size in bytes, inclusive, of the writes of one micro-batch to one shard.
    partition_time : str, optional
        The name of a column of headers, which may contain the header ``partition-time``. At the end
        of each micro-batch, a shard's stream time advances to the greatest partition time of the
        micro-batch's rows in that shard. If None, the header has no effect. See
        :func:`with_partition_time`.
    storage_options : mapping, optional
        Options of an object store; see docs/spark-roots.md.
    compact_every : int
        On an object store, the number of files of changes after which a full checkpoint of a shard
        may replace the files. The checkpoint is uploaded when the changes are as large as the
        previous checkpoint, and at the latest after ten times this number of files.

    Returns
    -------
    DataFrame
        The rows that ``fn`` returned, with the schema ``schema``. The DataFrame is a stream if
        ``df`` is a stream.

    Raises
    ------
    SpecError
        A column is missing, is duplicate or has a wrong type; an argument has an unknown value; or
        the root has a state with other properties, for instance another number of shards.
    TypeError
        ``fn`` cannot be called with three arguments, or ``spec`` is not a StoreSpec.
    UnsupportedError
        The engine keeps its data in one process, or cannot commit a store of this shape in one
        transaction; or the object store ignores the condition that a file must be new.
    StateError
        A stream of :func:`stream_into` writes to the root, or the state cannot be read or created.
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
        storage_options=storage_options,
        compact_every=compact_every,
    )


def _check_function(fn: Callable[..., Any]) -> None:
    if not callable(fn):
        raise TypeError(f"fn must be a function, not {fn!r}")
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # Some builtin functions have no signature.
        return
    try:
        signature.bind(None, None, None)
    except TypeError as error:
        name = getattr(fn, "__qualname__", repr(fn))
        raise TypeError(
            f"{name}{signature} cannot be called as fn(key, rows, store): {error}"
        ) from error


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
        raise SpecError(f"order_by={order_by!r} is a str; pass a list of column names")
    kinds = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    allowed: dict[str, tuple[str, ...]] = {name: (kinds.get(name, ""),) for name in order_by}
    if partition_by == "partition":
        allowed["partition"] = ("int", "bigint")
    if partition_time is not None:
        if spec.shape == "key_value":
            raise SpecError(
                f"partition_time={partition_time!r} cannot be used with the key-value store "
                f"{spec.name!r}, because such a store has no stream time; leave out partition_time"
            )
        allowed[partition_time] = (headers_type().simpleString(),)
    allowed[key] = accepted_types(spec.key)
    check_columns(df, allowed)
    for name in order_by:
        if "<" in kinds[name]:
            raise SpecError(
                f"rows cannot be sorted by the column {name!r} of the type {kinds[name]}; leave "
                "the column out of order_by"
            )


def _schema(schema: StructType | str) -> StructType:
    from pyspark.sql.types import StructType

    if isinstance(schema, str):
        schema = cast("StructType", StructType.fromDDL(schema))
    if not isinstance(schema, StructType) or not schema.fields:
        raise SpecError(
            f"schema={schema!r} has no columns; pass the columns that fn returns, as a StructType "
            "or a text such as 'key string, total bigint'"
        )
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise SpecError(f"the schema has two columns named {twice[0]!r}; rename one of them")
    return schema
