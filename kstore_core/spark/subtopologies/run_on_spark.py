"""The function `run_on_spark`, which runs a topology as a streaming query."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kstore_core.checks import check_choice, check_partitions
from kstore_core.engine import DURABILITY_LEVELS, Durability
from kstore_core.processing import Topology
from kstore_core.spark.map_state.plan import UNCOMMITTED_MAX_BYTES
from kstore_core.spark.remote.layout import COMPACT_EVERY, check_compact_every
from kstore_core.spark.runtime.engines import check_shared_engine
from kstore_core.spark.runtime.server import on_server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from kstore_core.spark.subtopologies.epochs import Sink

__all__ = ["run_on_spark"]


def run_on_spark(
    topology: Topology,
    *,
    sources: Mapping[str, DataFrame],
    sinks: Mapping[str, Sink],
    root: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    partitions: int | None = None,
    engine: str = "lmdb",
    durability: Durability = "process",
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    wall_clock: bool = False,
    partition_time: bool = False,
    lock_timeout_s: float = 60,
    uncommitted_max_bytes: int = UNCOMMITTED_MAX_BYTES,
    storage_options: Mapping[str, Any] | None = None,
    compact_every: int = COMPACT_EVERY,
) -> StreamingQuery:
    """Start a streaming query that runs a topology of processors.

    Each sub-topology is divided into shards by Kafka's murmur2 hash of the record key. In each
    micro-batch, a Spark task processes the records of a shard with all stores of the sub-topology.
    If one sub-topology writes a topic that another sub-topology reads, the records pass through a
    shuffle. A task processes the records of each partition of a topic in their order. Among the
    next records of all partitions, the task takes the record with the least time first, as in Kafka
    Streams.

    The stores and the output of a micro-batch are committed exactly once: if Spark runs a
    micro-batch again, the sinks get the same rows with the same number.

    Parameters
    ----------
    topology : Topology
        A topology whose sub-topologies do not pass records in a circle.
    sources : mapping of str to DataFrame
        A streaming DataFrame for each topic that no sink of the topology writes. Its columns are
        those of Spark's Kafka source: ``key`` and ``value`` (binary, or string as UTF-8) contain
        the bytes that the serdes of the topology read, and ``timestamp`` the time. The columns
        ``headers``, ``partition`` and ``offset`` are optional; other columns are ignored. A topic
        that a sink writes may also have a source.
    sinks : mapping of str to callable
        For each topic that the caller needs, a function that is called with a DataFrame and the
        number of the micro-batch, like a function of ``foreachBatch``. docs/processors-on-spark.md
        describes the columns. A topic that no source of the topology reads must have a sink. The
        sink None drops the records.
    root : path or address
        The directory of the state, on a disk that the driver and all workers share, or on an
        object store or HDFS. The directory belongs to one query.
    checkpoint : path or address
        The checkpoint of the query.
    partitions : int, optional
        The number of shards of each sub-topology. The default is the number of an existing state,
        or ``spark.sql.shuffle.partitions`` for a new state.
    engine : str
        The name of the storage engine of the stores.
    durability : {"process", "power", "changelog"}
        The failures that the copies of the shards on the workers survive. Commits in the root are
        always durable.
    trigger : mapping, optional
        The arguments of ``DataStreamWriter.trigger``, such as ``{"availableNow": True}``.
    query_name : str, optional
        The name of the query in Spark.
    wall_clock : bool
        If True, a micro-batch also runs at a trigger without new records, so that schedules by
        wall-clock time are called.
    partition_time : bool
        If True, the header ``partition-time`` of a record advances stream time (KIP-472).
    lock_timeout_s : float
        The longest time in seconds that a task waits for a shard that another task has locked.
    uncommitted_max_bytes : int
        The greatest size in bytes, inclusive, of the writes of one micro-batch to one shard.
    storage_options : mapping, optional
        Options of an object store; see docs/spark-roots.md.
    compact_every : int
        The number of files of changes after which a full checkpoint of a shard may replace these
        files.

    Returns
    -------
    StreamingQuery

    Raises
    ------
    SpecError
        A topic has no source or no sink, or is unknown. Or a source has other columns. Or the root
        has a state with other properties.
    TypeError
        An argument has a wrong type.
    UnsupportedError
        Sub-topologies pass records in a circle, or the engine keeps its data in one process.
    StateError
        The root belongs to another query, or the state cannot be read or created.
    """
    from kstore_core.spark.subtopologies.epochs import EpochRunner
    from kstore_core.spark.subtopologies.sources import check_sinks, check_sources, records_of
    from kstore_core.spark.subtopologies.stages import bound, stages_of

    if not isinstance(topology, Topology):
        raise TypeError(f"topology must be a Topology of kstore_core.processing, not {topology!r}")
    check_shared_engine(engine)
    check_choice("durability", durability, DURABILITY_LEVELS)
    check_compact_every(compact_every)
    if partitions is not None:
        check_partitions(partitions, "state")
    parts = stages_of(topology)
    check_sources(topology, sources)
    check_sinks(topology, sinks)
    spark = next(iter(sources.values())).sparkSession
    by_default = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    stages = [
        on_server(
            spark,
            bound,
            part,
            root,
            engine,
            partitions,
            by_default,
            storage_options=storage_options,
            compact_every=compact_every,
            durability=durability,
            lock_timeout_s=lock_timeout_s,
            uncommitted_max_bytes=uncommitted_max_bytes,
            partition_time=partition_time,
        )
        for part in parts
    ]
    place = os.fspath(checkpoint)
    if "://" not in place:
        place = os.path.abspath(place)  # noqa: PTH100 - the checkpoint may be on another machine
    runner = EpochRunner(place, tuple(stages), dict(sinks))
    records = records_of(sources, wall_clock=wall_clock)
    writer = records.writeStream.foreachBatch(runner).option("checkpointLocation", place)
    if trigger:
        writer = writer.trigger(**trigger)
    if query_name is not None:
        writer = writer.queryName(query_name)
    return writer.start()
