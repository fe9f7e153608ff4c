"""map_state: any stateful processing of a DataFrame, by key, with a kstore store in the worker."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from kstore_core.engine import DURABILITY_LEVELS, Durability
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark.cluster_engines import check_shared_engine
from kstore_core.spark.frames import by_shard, shard_column, spark_type
from kstore_core.spark.map_state_home import MapStateHome, Sharding
from kstore_core.spark.roots import Root
from kstore_core.spark.streaming_home import LiveHome
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from kstore_core.spark.map_state_rows import Rows, Times
    from kstore_core.spark.map_state_task import ShardTask

__all__ = ["map_state"]

PartitionBy = Literal["key", "partition"]
_SHARD = "shard"
_UNCOMMITTED_MAX_BYTES = 256 * 1024 * 1024


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
    uncommitted_max_bytes: int = _UNCOMMITTED_MAX_BYTES,
) -> DataFrame:
    """Process rows by key with a store that outlives the batch, exactly once.

    ``fn(key, rows, store)`` is called once for each key of a micro-batch, on the worker that has
    the key's shard. ``key`` is what the key serde of ``spec`` reads; ``rows`` a sequence of named
    tuples of the DataFrame's columns (see :class:`~kstore_core.spark.map_state_rows.Rows`);
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
    _check_function(fn)
    _check_engine(engine, spec)
    _check_options(partition_by, timestamps, durability)
    place = Root.at(root).path
    home = MapStateHome.of(place, spec.name)
    shards = _partitions(df, home, partitions)
    _check_columns(df, spec, key, partition_by, order_by)
    if LiveHome.of(place).stream() is not None:
        raise StateError(
            f"{place} is written by stream_into, which has its live shards there; use another root"
        )
    from kstore_core.spark.map_state_task import KeyedFunction, ShardTask

    promised, arrow_schema = _schema(df, schema)
    home = home.bind(Sharding(spec.name, spec.shape, spec.key.name, engine, shards, partition_by))
    task = ShardTask(
        home,
        spec,
        engine,
        shards,
        tuple(df.columns),
        arrow_schema,
        _places(len(arrow_schema)),
        KeyedFunction(fn, spec, key, tuple(order_by), timestamps, arrow_schema),
        None if df.isStreaming else home.begin_run(),
        durability,
        lock_timeout_s,
        uncommitted_max_bytes,
    )
    return planned(df, task, promised, key if partition_by == "key" else None)


def planned(df: DataFrame, task: ShardTask, schema: StructType, key: str | None) -> DataFrame:
    """The rows brought to their shards, by a key or else by ``partition``, and the task on each."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructField, StructType

    # Spark resolves columns by name: a dot in one would not pass.
    rows = df.toDF(*_places(len(df.columns)))
    column = F.col(rows.columns[df.columns.index("partition" if key is None else key)])
    if key is None:
        shard = column.cast("int")
    else:
        shard = shard_column(column, task.spec.key, task.partitions)
    given = StructType(
        [
            StructField(place, field.dataType, field.nullable)
            for place, field in zip(task.places, schema.fields, strict=True)
        ]
    )
    placed = by_shard(rows.withColumn(_SHARD, shard), task.partitions, _SHARD)
    return placed.mapInArrow(task.run, given).toDF(*schema.names)


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


def _check_engine(engine: str, spec: StoreSpec) -> None:
    from kstore_core.registry import engine_class

    check_shared_engine(engine)
    if not isinstance(spec, StoreSpec):
        raise TypeError(f"a store is described by a StoreSpec of kstore_core.stores, not {spec!r}")
    if engine_class(engine).capabilities.children and spec.shape in ("window", "session"):
        raise UnsupportedError(
            f"the engine {engine!r} keeps the {spec.shape} store {spec.name!r} in a database for "
            "each segment, which cannot commit a micro-batch at once: one that is replayed after a "
            "crash could be applied twice. Use engine='lmdb'"
        )


def _check_options(partition_by: str, timestamps: str, durability: str) -> None:
    for name, given, allowed in (
        ("partition_by", partition_by, ("key", "partition")),
        ("timestamps", timestamps, ("timestamp", "millis")),
        ("durability", durability, DURABILITY_LEVELS),
    ):
        if given not in allowed:
            raise SpecError(f"{name}={given!r}; there are: {', '.join(map(repr, allowed))}")


def _partitions(df: DataFrame, home: MapStateHome, partitions: int | None) -> int:
    if partitions is None:
        there = home.partitions()
        if there is not None:
            return there
        return int(cast("str", df.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
        raise SpecError(f"partitions={partitions!r}; a state has at least one")
    return partitions


def _check_columns(
    df: DataFrame, spec: StoreSpec, key: str, partition_by: str, order_by: Sequence[str]
) -> None:
    names = df.columns
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SpecError(f"the DataFrame has two columns {twice[0]!r}; rename one")
    if isinstance(order_by, str):
        raise SpecError(f"order_by={order_by!r} is one str; pass a list of columns")
    allowed: dict[str, tuple[str, ...]] = dict.fromkeys(order_by, ())
    if partition_by == "partition":
        allowed["partition"] = ("int", "bigint")
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


def _schema(df: DataFrame, schema: StructType | str) -> tuple[StructType, pa.Schema]:
    """The schema of the result, for Spark and for Arrow."""
    from pyspark.sql.pandas.types import to_arrow_schema
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
    return schema, to_arrow_schema(schema, timezone="UTC")


def _places(count: int) -> tuple[str, ...]:
    """Names of columns by their places, to go by while Spark resolves them."""
    return tuple(f"column{place}" for place in range(count))
