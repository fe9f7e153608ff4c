"""The function `stream_into`, which writes each record of a stream exactly once into a store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spark.remote.layout import COMPACT_EVERY, check_compact_every
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.server import is_connect, on_server
from kstore_core.spark.shards.routing import placed_by_key
from kstore_core.spark.stream.epoch_runner import Emit, EpochRunner
from kstore_core.spark.stream.plan import plan_stream
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from kstore_core.spark.stream.versions import Versions

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
    storage_options: Mapping[str, Any] | None = None,
    compact_every: int = COMPACT_EVERY,
) -> StreamingQuery:
    """Write each record of a streaming changelog exactly once into a partitioned store.

    Each micro-batch is an epoch. The stream first applies the records of the epoch to the live
    shards in ``<root>/live``. One commit of a shard contains the records, their offsets, and the
    number of the epoch. Therefore a replayed epoch is not applied again to a shard. After every
    ``publish_every`` epochs, the stream publishes a version of the store. `read_store` and
    `temporal_join` see either the whole version or nothing of it.

    On a disk, the live shards change in place, so every worker must see the root as a local
    directory. On an object store, each epoch uploads its changes; see docs/streaming.md.

    Parameters
    ----------
    df : DataFrame
        A streaming DataFrame with the columns of a changelog; :func:`write_store` describes them.
    root : path or address
        The root of the store, on a disk of the driver's machine, or on an object store or HDFS. If
        the root has versions, the stream continues the newest version.
    checkpoint : path
        The directory of the query's checkpoint. All streams into a root must use the same
        directory.
    emit : callable, optional
        A function that is called as ``emit(changes, epoch)`` after each epoch. ``changes`` is a
        DataFrame with one row for each key that occurs in the epoch. The row contains the store's
        record of the key after the epoch. The row has the columns of `read_store` without
        ``valid_to``, and the column ``partition`` with the number of the shard. If the store has no
        record of the key, all columns except those of the key and ``partition`` are null. If Spark
        replays an epoch, the stream calls ``emit`` again with the same rows. So ``emit`` must be
        idempotent. For example, ``emit`` can replace a file whose name contains ``epoch``.
    spec : StoreSpec, optional
        The description of the store. You must pass ``spec`` if the root has no version.
    partitions : int, optional
        The number of shards. You must pass ``partitions`` if the root has no version.
    partition_by : {"partition", "key"}, optional
        The way to choose the shard of a record; see :func:`write_store`.
    engine : str, optional
        The storage engine of the shards. The default is the engine of the newest version, or
        RocksDB for a new root.
    publish_every : int
        The number of epochs after which the stream publishes a version. A version contains all
        epochs before its publication.
    partition_time : bool
        If true, the header ``partition-time`` of a record also advances stream time. Stream time
        determines which records are late; see :func:`with_partition_time`.
    trigger : mapping, optional
        The arguments of ``DataStreamWriter.trigger``, such as ``{"availableNow": True}``.
    name : str, optional
        The name of the query in Spark, or no name if None.
    storage_options : mapping, optional
        Options of an object store; see docs/spark-roots.md.
    compact_every : int
        On an object store, the number of files of changes after which a full checkpoint of a live
        shard may replace these files; see :func:`map_state`.

    Returns
    -------
    StreamingQuery
        The running query.

    Raises
    ------
    SpecError
        ``df`` is not a streaming DataFrame, its columns do not fit the store, or the root contains
        another store. Or the root has no version, and ``spec`` or ``partitions`` is missing.
    StateError
        Another stream is writing to the root, or the root belongs to another checkpoint.
    UnsupportedError
        The engine keeps its data in one process, or the object store ignores the condition that a
        file must be new. Or ``emit`` is given with a session of Spark Connect.

    Notes
    -----
    With Spark Connect, the server runs the stream like ``df.writeStream.format("kstore")``, so only
    the server needs the root; docs/clusters.md describes the differences.
    """
    from kstore_core.spark.shards.frames import check_log_columns

    if not df.isStreaming:
        raise SpecError(
            "df is a batch DataFrame, but stream_into needs a streaming DataFrame; pass the "
            "batch to write_store"
        )
    if isinstance(publish_every, bool) or not isinstance(publish_every, int) or publish_every < 1:
        raise SpecError(f"publish_every={publish_every!r} is not an int of 1 or more")
    check_compact_every(compact_every)
    connected = is_connect(df.sparkSession)
    if connected and emit is not None:
        raise UnsupportedError(
            "stream_into cannot call emit with a session of Spark Connect, because the epochs run "
            "on the server. Leave out emit, and read the changes between two versions with "
            "kstore_core.spark.read_changes; or run the stream in a classic session"
        )
    versions = on_server(
        df.sparkSession,
        _planned,
        root,
        spec,
        partitions=partitions,
        engine=engine,
        partition_by="key" if placed_by_key(df.columns, partition_by) else "partition",
        checkpoint=os.fspath(checkpoint),
        publish_every=publish_every,
        storage_options=storage_options,
        compact_every=compact_every,
    )
    check_log_columns(df.schema, versions.spec, partition_time=partition_time)
    if connected:
        from kstore_core.spark.stream.on_server import start_sink

        return start_sink(df, versions, partition_time, trigger=trigger, name=name)
    runner = EpochRunner(versions, emit, partition_time)
    return runner.start(df, trigger=trigger, name=name)


def _planned(
    root: str | os.PathLike[str],
    spec: StoreSpec | None,
    *,
    storage_options: Mapping[str, Any] | None,
    **given: Any,
) -> Versions:
    return plan_stream(Root.at(root, storage_options), spec, **given)
