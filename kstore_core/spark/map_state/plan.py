"""From a DataFrame to tasks that each have one shard's rows and state: checked, bound, planned."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from kstore_core.engine import DURABILITY_LEVELS, Durability
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark.live.layout import LiveHome
from kstore_core.spark.live.map_state_layout import MapStateHome, Sharding
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import check_shared_engine
from kstore_core.spark.shards.frames import by_shard
from kstore_core.spark.shards.routing import check_partitions
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from kstore_core.spark.map_state.tasks import ShardTask, Work

__all__ = ["UNCOMMITTED_MAX_BYTES", "check_unique", "plan"]

UNCOMMITTED_MAX_BYTES = 256 * 1024 * 1024
_SHARD = "shard"


def plan(
    df: DataFrame,
    work: Callable[[pa.Schema], Work],
    schema: StructType,
    spec: StoreSpec,
    place: tuple[str, Callable[[Column, int], Column]],
    *,
    root: str | os.PathLike[str],
    engine: str,
    partitions: int | None,
    partition_by: str,
    durability: Durability = "process",
    lock_timeout_s: float = 60,
    uncommitted_max_bytes: int = UNCOMMITTED_MAX_BYTES,
    partition_time: str | None = None,
) -> DataFrame:
    """The rows brought to their shards, and work done on each shard's once a micro-batch.

    Parameters
    ----------
    work : callable
        Makes the work, of the schema that it is to give.
    place : tuple of str and callable
        The column that the shard is made of, and how: it takes the column and how many there are.
    others
        As of :func:`kstore_core.spark.map_state`.

    Raises
    ------
    SpecError, StateError, UnsupportedError
        As of ``map_state``. Nothing was made then.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    from kstore_core.spark.map_state.tasks import ShardTask

    _check_engine(engine, spec)
    if durability not in DURABILITY_LEVELS:
        raise SpecError(
            f"durability={durability!r}; there are: {', '.join(map(repr, DURABILITY_LEVELS))}"
        )
    directory = Root.at(root).path
    home = MapStateHome.of(directory, spec.name)
    shards = _partitions(df, home, partitions)
    if LiveHome.of(directory).stream() is not None:
        raise StateError(
            f"{directory} is written by stream_into, which has its live shards there; use another "
            "root"
        )
    given = to_arrow_schema(schema, timezone="UTC")
    home = home.bind(Sharding(spec.name, spec.shape, spec.key.name, engine, shards, partition_by))
    task = ShardTask(
        home=home,
        spec=spec,
        engine=engine,
        partitions=shards,
        names=tuple(df.columns),
        schema=given,
        places=_places(len(given)),
        work=work(given),
        batch_run=None if df.isStreaming else home.begin_run(),
        durability=durability,
        lock_timeout_s=lock_timeout_s,
        uncommitted_max_bytes=uncommitted_max_bytes,
        partition_time=partition_time,
    )
    return _planned(df, task, schema, place)


def _planned(
    df: DataFrame,
    task: ShardTask,
    schema: StructType,
    place: tuple[str, Callable[[Column, int], Column]],
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructField, StructType

    # Spark resolves columns by name: a dot in one would not pass.
    rows = df.toDF(*_places(len(df.columns)))
    name, shard_of = place
    shard = shard_of(F.col(rows.columns[df.columns.index(name)]), task.partitions)
    given = StructType(
        [
            StructField(there, field.dataType, field.nullable)
            for there, field in zip(task.places, schema.fields, strict=True)
        ]
    )
    placed = by_shard(rows.withColumn(_SHARD, shard), task.partitions, _SHARD)
    return placed.mapInArrow(task.run, given).toDF(*schema.names)


def check_unique(df: DataFrame) -> None:
    """Refuse a DataFrame with two columns of one name.

    Raises
    ------
    SpecError
    """
    names = df.columns
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SpecError(f"the DataFrame has two columns {twice[0]!r}; rename one")


def _check_engine(engine: str, spec: StoreSpec) -> None:
    from kstore_core.plugins.registry import engine_class

    check_shared_engine(engine)
    if engine_class(engine).capabilities.children and spec.shape in ("window", "session"):
        raise UnsupportedError(
            f"the engine {engine!r} keeps the {spec.shape} store {spec.name!r} in a database for "
            "each segment, which cannot commit a micro-batch at once: one that is replayed after a "
            "crash could be applied twice. Use engine='lmdb'"
        )


def _partitions(df: DataFrame, home: MapStateHome, partitions: int | None) -> int:
    if partitions is None:
        there = home.partitions()
        if there is not None:
            return there
        return int(cast("str", df.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    return check_partitions(partitions, "state")


def _places(count: int) -> tuple[str, ...]:
    """Names of columns by their places, to go by while Spark resolves them."""
    return tuple(f"column{place}" for place in range(count))
