"""The stages of a topology on Spark, one for each sub-topology, in the order of their runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from kstore_core import serdes
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.processing import Sink, Subtopology, Topology
from kstore_core.spark.live.epochs import Epoch
from kstore_core.spark.live.stream_binding import StreamBinding
from kstore_core.spark.map_state.sharding import SUBTOPOLOGY, Sharding
from kstore_core.spark.remote.layout import RemoteLayout, layout_of
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.worker_errors import told
from kstore_core.spark.shards.frames import shard_column, spark_schema
from kstore_core.spark.shards.routing import route_to_shards
from kstore_core.spark.subtopologies.progress import PROGRESS
from kstore_core.spark.subtopologies.rows import SCHEMA
from kstore_core.spark.subtopologies.tasks import SubtopologyTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Stage", "bound", "stages_of"]


def stages_of(topology: Topology) -> list[Subtopology]:
    """Return the sub-topologies in an order in which the writers of a topic precede its readers.

    Raises
    ------
    SpecError
        A store has a name that is reserved.
    UnsupportedError
        Sub-topologies pass records in a circle.
    """
    parts = topology.subtopologies
    if PROGRESS.name in topology.specs:
        raise SpecError(
            f"a store of a topology on Spark cannot have the name {PROGRESS.name!r}, because "
            "kstore uses this name; give the store another name"
        )
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for part in parts:
        writers = [other.id for other in parts if _written(other) & part.sources.keys()]
        sorter.add(part.id, *writers)
    try:
        return [parts[number] for number in sorter.static_order()]
    except CycleError as error:
        circle = " -> ".join(map(str, error.args[1]))
        raise UnsupportedError(
            f"the sub-topologies {circle} pass records in a circle through topics. A micro-batch "
            "runs each sub-topology once, so it cannot run a circle. Write a topic of the circle "
            "to a sink, and read the topic as a source of another query"
        ) from None


def _written(part: Subtopology) -> set[str]:
    return {node.topic for node in part.nodes if isinstance(node, Sink)}


@dataclass(frozen=True, slots=True)
class Stage:
    """A sub-topology whose state exists."""

    task: SubtopologyTask
    shards: int

    @property
    def topics(self) -> list[str]:
        """The topics that the sub-topology reads."""
        return list(self.task.part.sources)

    def run(self, epoch: Epoch, records: DataFrame) -> DataFrame:
        """Return the records that the sub-topology sends in an epoch with these records."""
        from pyspark.sql import functions as F  # noqa: N812

        nothing = [F.lit(None).cast(kind).alias(name) for name, kind in records.dtypes]
        nothing[1] = F.col("id").cast("int").alias("partition")
        shards = records.sparkSession.range(self.shards).select(nothing)
        own = F.pmod(F.coalesce("partition", F.lit(0)), F.lit(self.shards))
        hashed = shard_column(F.col("key"), serdes.BYTES, self.shards)
        routed = route_to_shards(
            records.unionByName(shards),
            F.when(F.col("key").isNull(), own).otherwise(hashed),
            self.shards,
        )
        return routed.mapInArrow(told(partial(self.task.run, epoch)), spark_schema(SCHEMA))


def bound(
    part: Subtopology,
    root: str | os.PathLike[str],
    engine: str,
    partitions: int | None,
    by_default: int,
    *,
    storage_options: Mapping[str, Any] | None,
    compact_every: int,
    **arguments: Any,
) -> Stage:
    """Create or check the state of a sub-topology, and return its stage.

    ``arguments`` are further attributes of `SubtopologyTask`.
    """
    storage = Root.at(root, storage_options).storage
    if StreamBinding.of(layout_of(storage)) is not None:
        raise StateError(
            f"the root {storage.name} belongs to a stream of stream_into or of the sink kstore, so "
            "it cannot contain the state of another query; pass another root"
        )
    name = f"{SUBTOPOLOGY}-{part.id}"
    # A disk needs this layout too, because only its commits cover all stores of a shard at once.
    layout = RemoteLayout.of(storage, name, compact_every)
    known = Sharding.of(layout)
    shards = partitions or (by_default if known is None else known[1].partitions)
    given = Sharding(name, SUBTOPOLOGY, serdes.BYTES.name, engine, shards, "key")
    return Stage(SubtopologyTask(part, given.bind(layout), engine, **arguments), shards)
