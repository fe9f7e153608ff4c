"""map_state: any stateful processing of a DataFrame, by key, with a kstore store in the worker."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from kstore_core.engine import Durability
from kstore_core.errors import SpecError
from kstore_core.spark.map_state.plan import UNCOMMITTED_MAX_BYTES, check_unique, plan
from kstore_core.spark.shards.frames import headers_type, shard_column, spark_type
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
    the key's shard. ``key`` is what the key serde of ``spec`` reads; ``rows`` a sequence of named
    tuples of the DataFrame's columns (see :class:`~kstore_core.spark.map_state.rows.Rows`);
    ``store`` the store that ``state.open(spec)`` gives, with all of its methods. It gives None, or
    an iterable of rows, each a tuple or a dict of the columns of ``schema``; a column of headers
    takes :class:`~kstore_core.Headers`, one of timestamps aware datetimes or int milliseconds.

    What it writes, the number of the micro-batch and what it gave are committed in one batch of the
    engine. A micro-batch that Spark gives again is not applied again; what it gave is given again.
    So is a batch DataFrame: one call of map_state is one run, however many actions evaluate it, and
    it is evaluated before the next run on its root is made.

    Parameters
    ----------
    df : DataFrame
        A stream or not.
    fn : callable
    spec : StoreSpec
    root : path
        A directory that all machines see. The state is below ``live/<store>/``, a Kafka Streams
        task directory for each shard. It belongs to one streaming query.
    schema : StructType or str
        Of the result.
    key : str
        The column of the key: binary, or of the type that the key serde names.
    partitions : int, optional
        The number of shards. Left out, as many as there are, or ``spark.sql.shuffle.partitions``.
    partition_by : {"key", "partition"}
        Whether a row's shard is the one where Kafka's murmur2 puts its key, or the number in its
        column ``partition``.
    order_by : sequence of str
        Columns that a key's rows are sorted by; without, they come as Spark brings them, which is
        the order of arrival for those of one source partition.
    timestamps : {"timestamp", "millis"}
        Whether ``rows`` have timestamps as aware datetimes or as int milliseconds.
    engine : str
        The storage engine. LMDB opens a shard in a few milliseconds, which each task does.
    durability : {"process", "power", "changelog"}
        What a commit survives; see :func:`kstore_core.open_state`.
    lock_timeout_s : float
        How long a task waits for a shard that another one has.
    uncommitted_max_bytes : int
        What a micro-batch may write to one shard.
    partition_time : str, optional
        A column of headers. When a micro-batch of a shard is done, the store's stream time moves on
        to the latest that the header ``partition-time`` of its rows tells; see
        :func:`with_partition_time`.

    Returns
    -------
    DataFrame
        With ``schema``; a stream where ``df`` is one.

    Raises
    ------
    SpecError
        A column is missing, there twice or of another type; an option is none of those that there
        are; the root has the state of other shards.
    TypeError
        ``fn`` does not take a key, rows and a store.
    UnsupportedError
        The engine keeps its data in one process, or commits such a store in several batches; the
        root is on an object store.
    StateError
        Another kind of stream writes to the root.
    """
    from kstore_core.spark.map_state.tasks import KeyedFunction

    _check_function(fn)
    for name, given, allowed in (
        ("partition_by", partition_by, ("key", "partition")),
        ("timestamps", timestamps, ("timestamp", "millis")),
    ):
        if given not in allowed:
            raise SpecError(f"{name}={given!r}; there are: {', '.join(map(repr, allowed))}")
    if not isinstance(spec, StoreSpec):
        raise TypeError(f"a store is described by a StoreSpec of kstore_core.stores, not {spec!r}")
    _check_columns(df, spec, key, partition_by, order_by, partition_time)

    def keyed(promised: pa.Schema) -> KeyedFunction:
        return KeyedFunction(fn, spec, key, tuple(order_by), timestamps, promised)

    def shard_of_key(column: Column, shards: int) -> Column:
        return shard_column(column, spec.key, shards)

    def as_it_is(column: Column, _: int) -> Column:
        return column.cast("int")

    return plan(
        df,
        keyed,
        _schema(schema),
        spec,
        (key, shard_of_key) if partition_by == "key" else ("partition", as_it_is),
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
        raise TypeError(f"map_state calls a function, not {fn!r}")
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
    names = df.columns
    if isinstance(order_by, str):
        raise SpecError(f"order_by={order_by!r} is one str; pass a list of columns")
    allowed: dict[str, tuple[str, ...]] = dict.fromkeys(order_by, ())
    if partition_by == "partition":
        allowed["partition"] = ("int", "bigint")
    if partition_time is not None:
        if spec.shape == "key_value":
            raise SpecError(
                f"the key-value store {spec.name!r} has no stream time that partition_time="
                f"{partition_time!r} could move on; leave it out"
            )
        allowed[partition_time] = (headers_type().simpleString(),)
    allowed[key] = ("binary", spark_type(spec.key.arrow_type).simpleString())
    for name, kinds in allowed.items():
        if name not in names:
            raise SpecError(f"the DataFrame has no column {name!r}; it has: {', '.join(names)}")
        kind = df.schema[name].dataType.simpleString()
        if kinds and kind not in kinds:
            wanted = " or ".join(dict.fromkeys(kinds))
            raise SpecError(f"the column {name!r} is {kind}, not {wanted}")
        if not kinds and "<" in kind:
            raise SpecError(f"the column {name!r} is {kind}, which has no order to sort rows by")


def _schema(schema: StructType | str) -> StructType:
    """The schema of the result."""
    from pyspark.sql.types import StructType

    if isinstance(schema, str):
        schema = cast("StructType", StructType.fromDDL(schema))
    if not isinstance(schema, StructType) or not schema.fields:
        raise SpecError(
            f"schema={schema!r}; pass the columns that fn gives, as 'key string, total bigint' or "
            "a StructType"
        )
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise SpecError(f"the schema has two columns {twice[0]!r}")
    return schema
