"""stream_into: a streaming changelog DataFrame into the shards of a store, each record once."""

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

    Each micro-batch is an epoch. Its records are applied to the live shards, below
    ``<root>/live``. One commit has the records, the number of the epoch and the offsets of the
    records: a shard skips an epoch that it contains. Then the epoch is published as a version.
    `read_store` and `temporal_join` see a version whole or not at all.

    The live shards are on one machine: every worker must see the root as a local directory.

    Parameters
    ----------
    df : DataFrame
        A stream with the columns that :func:`write_store` takes.
    root : path
        The root of the store. If it has versions, the stream continues from the newest.
    checkpoint : path
        The checkpoint of the Spark query. A root belongs to one checkpoint.
    emit : callable, optional
        Called as ``emit(changes, epoch)`` after each epoch. ``changes`` is a DataFrame with one
        row for each key in the epoch's records: the key's record after the epoch. It has the
        columns of `read_store` without ``valid_to``. If the store has no record of the key, all
        columns but the key are null. A replayed epoch calls ``emit`` again with the same rows, so
        ``emit`` must be idempotent, for instance by writing under the epoch's number.
    spec : StoreSpec, optional
        The store's description; required if the root has no version.
    partitions : int, optional
        The number of shards; required if the root has no version.
    partition_by : {"partition", "key"}, optional
        As in :func:`write_store`.
    engine : str, optional
        The storage engine of the shards; by default that of the newest version, or RocksDB.
    publish_every : int
        The number of epochs from one version to the next. A version has all epochs up to its own.
    partition_time : bool
        True: stream time, which decides whether a record is late, also follows the header
        ``partition-time``; see :func:`with_partition_time`.
    trigger : mapping, optional
        The arguments of ``DataStreamWriter.trigger``, such as ``{"availableNow": True}``.
    name : str, optional
        The query's name in Spark.

    Returns
    -------
    StreamingQuery

    Raises
    ------
    SpecError
        The columns do not fit, the root has another store, or ``spec`` is required.
    StateError
        Another stream writes to the root, or the root belongs to another checkpoint.
    UnsupportedError
        The engine keeps its data in one process, or the root is on an object store.
    """
    from kstore_core.spark.shards.frames import check_log_columns

    if not df.isStreaming:
        raise SpecError("stream_into takes a streaming DataFrame; write_store takes a batch")
    if isinstance(publish_every, bool) or not isinstance(publish_every, int) or publish_every < 1:
        raise SpecError(f"publish_every={publish_every!r} is not an int from 1 on")
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
