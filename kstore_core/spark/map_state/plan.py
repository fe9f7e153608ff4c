"""The plan of `map_state`, which routes each row of a DataFrame to the task of its shard."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from kstore_core.checks import check_choice
from kstore_core.engine import DURABILITY_LEVELS, Durability
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.live.stream_binding import StreamBinding
from kstore_core.spark.map_state.sharding import Sharding
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import check_shared_engine
from kstore_core.spark.shards.frames import renamed
from kstore_core.spark.shards.routing import check_partitions, route_to_shards
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from kstore_core.spark.map_state.tasks import Work

__all__ = ["UNCOMMITTED_MAX_BYTES", "check_unique", "plan"]

UNCOMMITTED_MAX_BYTES = 256 * 1024 * 1024


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
    """Return a DataFrame that routes rows to their shards and processes each shard's rows.

    ``work`` is called with the schema of the output and returns the `Work` that processes the rows.
    ``place`` is the name of a column, and a function that computes a row's shard from the column
    and the number of shards. The other parameters and the exceptions are those of
    :func:`kstore_core.spark.map_state`.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import to_arrow_schema

    from kstore_core.spark.map_state.tasks import ShardTask

    _check_engine(engine, spec)
    check_choice("durability", durability, DURABILITY_LEVELS)
    directory = Root.at(root).path
    layout = LiveLayout.of(directory, spec.name)
    shards = _partitions(df, layout, partitions)
    if StreamBinding.of(LiveLayout.of(directory)) is not None:
        raise StateError(
            f"{directory} contains the live shards of a stream of stream_into, so map_state "
            "cannot use it; use another root"
        )
    sharding = Sharding(spec.name, spec.shape, spec.key.name, engine, shards, partition_by)
    state = sharding.bind(layout)
    given = to_arrow_schema(schema, timezone="UTC")
    # Spark finds columns by name, and reads a dot in a name as the access to a field of a struct.
    rows = df.toDF(*_numbered(len(df.columns)))
    columns = _numbered(len(given))
    name, shard_of = place
    task = ShardTask(
        state=state,
        spec=spec,
        engine=engine,
        partitions=shards,
        names=tuple(df.columns),
        schema=given,
        columns=columns,
        work=work(given),
        batch_run=None if df.isStreaming else state.begin_run(),
        durability=durability,
        lock_timeout_s=lock_timeout_s,
        uncommitted_max_bytes=uncommitted_max_bytes,
        partition_time=partition_time,
    )
    shard = shard_of(F.col(rows.columns[df.columns.index(name)]), shards)
    routed = route_to_shards(rows, shard, shards)
    return routed.mapInArrow(task.run, renamed(schema, columns)).toDF(*schema.names)


def check_unique(df: DataFrame) -> None:
    """Raise SpecError if two columns of a DataFrame have the same name."""
    names = df.columns
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SpecError(f"the DataFrame has two columns named {twice[0]!r}; rename one of them")


def _check_engine(engine: str, spec: StoreSpec) -> None:
    from kstore_core.discovery.registry import engine_class

    check_shared_engine(engine)
    if engine_class(engine).capabilities.children and spec.shape in ("window", "session"):
        raise UnsupportedError(
            f"the engine {engine!r} stores the segments of the {spec.shape} store {spec.name!r} in "
            "separate databases, so it cannot commit a micro-batch in one batch. A replay after a "
            "crash could apply the micro-batch twice. Use engine='lmdb'"
        )


def _partitions(df: DataFrame, layout: LiveLayout, partitions: int | None) -> int:
    if partitions is not None:
        return check_partitions(partitions, "state")
    bound = Sharding.of(layout)
    if bound is not None:
        return bound[1].partitions
    return int(cast("str", df.sparkSession.conf.get("spark.sql.shuffle.partitions")))


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"column{number}" for number in range(count))
