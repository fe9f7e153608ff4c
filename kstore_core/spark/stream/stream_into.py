"""`stream_into`: writes a streaming changelog into the shards of a store, each record once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.errors import SpecError
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.routing import placed_by_key
from kstore_core.spark.stream.epoch_runner import Emit, EpochRunner
from kstore_core.spark.stream.plan import plan_stream
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["stream_into"]


def stream_into(
    df: DataFrame,
    root: str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str],
    emit: Emit | None = None,
    spec: StoreSpec | None = None,
    partitions: int | None = None,
    partition_by: Literal["key", "partition"] | None = None,
    engine: str | None = None,
    publish_every: int = 1,
    partition_time: bool = False,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> StreamingQuery:
    """Write a stream of changelog records into a partitioned store, each exactly once.

    Each micro-batch is an epoch. The stream first applies the epoch's records to the live shards in
    ``<root>/live``. One commit of a shard contains the records, their offsets, and the number of
    the epoch, so a shard can skip an epoch that it contains already. The stream then publishes the
    epoch as a version. `read_store` and `temporal_join` see either all of a version or none of it.

    The live shards are on one machine, so every worker must see the root as a local directory.

    Parameters
    ----------
    df : DataFrame
        A streaming DataFrame with the columns that :func:`write_store` takes.
    root : path
        The root of the store. If the root has versions, the stream continues from the newest.
    checkpoint : path
        The directory of the query's checkpoint. A root belongs to one checkpoint.
    emit : callable, optional
        A function that is called as ``emit(changes, epoch)`` after each epoch. ``changes`` is a
        DataFrame with one row for each key that the epoch's records contain. The row is the key's
        record in the store after the epoch; its columns are those of `read_store` without
        ``valid_to``. If the store has no record of the key, all columns but the key are null. If
        Spark replays an epoch, ``emit`` is called again with the same rows. So ``emit`` must be
        idempotent; for instance, it can write to a place that is named by the epoch's number.
    spec : StoreSpec, optional
        The store's description; required if the root has no version.
    partitions : int, optional
        The number of shards; required if the root has no version.
    partition_by : {"partition", "key"}, optional
        How records are assigned to shards; see :func:`write_store`.
    engine : str, optional
        The storage engine of the shards. The default is the engine of the newest version, or
        RocksDB for a new root.
    publish_every : int
        The number of epochs after which a version is published. A version contains all epochs
        that precede its publication.
    partition_time : bool
        If true, the header ``partition-time`` of a record also advances stream time, which decides
        whether a record is late; see :func:`with_partition_time`.
    trigger : mapping, optional
        The arguments of ``DataStreamWriter.trigger``, such as ``{"availableNow": True}``.
    name : str, optional
        The query's name in Spark.

    Returns
    -------
    StreamingQuery
        The running query.

    Raises
    ------
    SpecError
        ``df`` is not a stream, or its columns do not fit the store; the root has another store; or
        ``spec`` or ``partitions`` is missing for a new root.
    StateError
        Another stream writes to the root, or the root belongs to another checkpoint.
    UnsupportedError
        The engine keeps its data in one process, or the root is on an object store.
    """
    from kstore_core.spark.shards.frames import check_log_columns

    if not df.isStreaming:
        raise SpecError("stream_into takes a streaming DataFrame; write_store takes a batch")
    if isinstance(publish_every, bool) or not isinstance(publish_every, int) or publish_every < 1:
        raise SpecError(f"publish_every={publish_every!r} must be an int of 1 or more")
    versions = plan_stream(
        Root.at(root),
        spec,
        partitions=partitions,
        engine=engine,
        partition_by="key" if placed_by_key(df.columns, partition_by) else "partition",
        checkpoint=os.fspath(checkpoint),
        publish_every=publish_every,
    )
    check_log_columns(df.schema, versions.spec, partition_time=partition_time)
    runner = EpochRunner(versions, emit, partition_time)
    return runner.start(df, trigger=trigger, name=name)
