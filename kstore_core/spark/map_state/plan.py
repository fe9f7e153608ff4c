"""The Spark plan of `map_state` and `with_partition_time`, which routes rows to their shards."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from kstore_core.checks import check_choice, check_partitions
from kstore_core.engine import DURABILITY_LEVELS, Durability
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark.live.stream_binding import StreamBinding
from kstore_core.spark.map_state.sharding import BoundState, Sharding
from kstore_core.spark.remote.layout import COMPACT_EVERY, check_compact_every, layout_of
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import check_shared_engine
from kstore_core.spark.runtime.server import on_server
from kstore_core.spark.runtime.worker_errors import told
from kstore_core.spark.shards.frames import renamed
from kstore_core.spark.shards.routing import route_to_shards
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
    storage_options: Mapping[str, Any] | None = None,
    compact_every: int = COMPACT_EVERY,
) -> DataFrame:
    """Return a DataFrame that routes rows to their shards and processes the rows of each shard.

    ``work`` is called with the schema of the output, and must return the `Work` that processes the
    rows. ``place`` is a pair. Its first item is the name of a column, and its second item is a
    function that computes the shard of a row from this column and the number of shards. The other
    parameters and the exceptions are those of :func:`kstore_core.spark.map_state`.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import to_arrow_schema

    from kstore_core.spark.map_state.tasks import ShardTask

    _check_engine(engine, spec)
    check_compact_every(compact_every)
    check_choice("durability", durability, DURABILITY_LEVELS)
    spark = df.sparkSession
    if partitions is not None:
        check_partitions(partitions, "state")
    by_default = int(cast("str", spark.conf.get("spark.sql.shuffle.partitions")))
    sharding = Sharding(
        spec.name, spec.shape, spec.key.name, engine, partitions or by_default, partition_by
    )
    state, shards = on_server(
        spark,
        _bound,
        root,
        sharding,
        kept=partitions is None,
        storage_options=storage_options,
        compact_every=compact_every,
    )
    given = to_arrow_schema(schema, timezone="UTC")
    # Rename the columns, because Spark finds columns by name, and takes a dot in a name as the
    # access to a field of a struct.
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
        batch_run=None if df.isStreaming else on_server(spark, state.begin_run),
        durability=durability,
        lock_timeout_s=lock_timeout_s,
        uncommitted_max_bytes=uncommitted_max_bytes,
        partition_time=partition_time,
    )
    shard = shard_of(F.col(rows.columns[df.columns.index(name)]), shards)
    routed = route_to_shards(rows, shard, shards)
    return routed.mapInArrow(told(task.run), renamed(schema, columns)).toDF(*schema.names)


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
            "separate databases, so it cannot commit a micro-batch in one transaction. A replay "
            "after a crash could apply the micro-batch twice. Use engine='lmdb'"
        )


def _bound(
    root: str | os.PathLike[str],
    given: Sharding,
    *,
    kept: bool,
    storage_options: Mapping[str, Any] | None,
    compact_every: int,
) -> tuple[BoundState[Any], int]:
    """Create or check the state with the properties ``given``, and return its number of shards.

    If ``kept`` is true, an existing state keeps its number of shards.
    """
    storage = Root.at(root, storage_options).storage
    layout = layout_of(storage, given.store, compact_every)
    bound = Sharding.of(layout) if kept else None
    if StreamBinding.of(layout_of(storage)) is not None:
        raise StateError(
            f"the root {storage.name} belongs to a stream of stream_into or of the sink kstore, so "
            "it cannot contain the state of another query; pass another root"
        )
    shards = given.partitions if bound is None else bound[1].partitions
    return replace(given, partitions=shards).bind(layout), shards


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"column{number}" for number in range(count))
