"""stream_into: a streaming changelog DataFrame into the shards of a store, each record once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.errors import SpecError, StateError
from kstore_core.spark.live.layout import LiveHome, StreamLock
from kstore_core.spark.root.root import Root
from kstore_core.spark.stream.plan import plan_stream
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from kstore_core.spark.stream.shards import Step
    from kstore_core.spark.stream.versions import Versions

__all__ = ["Emit", "stream_into"]

Emit = Callable[["DataFrame", int], object]
"""Takes an epoch's output and the epoch."""

_BIND_TIMEOUT_S = 120.0

_holders: dict[Path, tuple[StreamingQuery, threading.Thread]] = {}
"""The last query of this process into each live directory, and who holds its lock."""


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
    _step: Step | None = None,
) -> StreamingQuery:
    """Write a stream of changelog records into a partitioned store, each of them exactly once.

    Each micro-batch is an epoch. Its records are applied to the shards where they live, below
    ``<root>/live``, and committed together with the number of the epoch and the offsets of the
    records: an epoch that Spark gives again is skipped where it is contained. Then the epoch is
    published as a version, which `read_store` and `temporal_join` see as a whole or not at all.

    The shards live on one machine: every worker has to see the root as a local directory.

    Parameters
    ----------
    df : DataFrame
        A stream with the columns that :func:`write_store` takes.
    root : path
        Of the store. Where it holds versions, the stream goes on from the newest one.
    checkpoint : path
        Of the query, as Spark keeps it. A root belongs to one checkpoint.
    emit : callable, optional
        Called as ``emit(changes, epoch)`` after each epoch. ``changes`` is a DataFrame of the keys
        that the epoch's records name, with the record that the store has of each after the epoch:
        the columns of `read_store` without ``valid_to``, all but the key null where there is none.
        It is called again with the same rows when an epoch is replayed, so what it does has to
        bear that: by writing under the epoch's number, for instance.
    spec : StoreSpec, optional
        The store's description; needed where the root holds no version.
    partitions : int, optional
        The number of shards; needed there too.
    partition_by : {"partition", "key"}, optional
        As in :func:`write_store`.
    engine : str, optional
        The storage engine of the shards. Left out, that of the newest version, or RocksDB.
    publish_every : int
        Publish every how many epochs. A version shows all epochs up to its own.
    partition_time : bool
        Whether stream time, by which records are too late, follows their header ``partition-time``
        too; see :func:`with_partition_time`.
    trigger : mapping, optional
        What ``DataStreamWriter.trigger`` takes, such as ``{"availableNow": True}``.
    name : str, optional
        What Spark calls the query.

    Returns
    -------
    StreamingQuery

    Raises
    ------
    SpecError
        The columns do not fit, the root holds another store, or nothing says which store it is.
    StateError
        A stream writes to the root already, or it belongs to another checkpoint.
    UnsupportedError
        The engine keeps its data in one process, or the root is on an object store.
    """
    from kstore_core.spark.shards.frames import check_columns
    from kstore_core.spark.shards.routing import placed_by_key
    from kstore_core.spark.stream.shards import no_step

    if not df.isStreaming:
        raise SpecError("stream_into takes a streaming DataFrame; write_store takes a batch")
    if isinstance(publish_every, bool) or not isinstance(publish_every, int) or publish_every < 1:
        raise SpecError(f"publish_every={publish_every!r}; it is an int from 1 on")
    by_key = placed_by_key(df.columns, partition_by)
    versions = plan_stream(
        Root.at(root),
        spec,
        partitions=partitions,
        engine=engine,
        partition_by="key" if by_key else "partition",
        checkpoint=os.fspath(checkpoint),
        publish_every=publish_every,
    )
    check_columns(df.schema, versions.spec, partition_time=partition_time)
    home = LiveHome.of(versions.root.path)
    _let_go_of(home.path)
    lock = home.lock()
    epochs = _Epochs(versions, emit, partition_time, _step or no_step)
    try:
        writer = df.writeStream.foreachBatch(epochs).option("checkpointLocation", str(checkpoint))
        if trigger:
            writer = writer.trigger(**trigger)
        if name is not None:
            writer = writer.queryName(name)
        query = writer.start()
        try:
            epochs.bind(query.id)
        except BaseException:
            epochs.refuse()
            query.stop()
            raise
    except BaseException:
        lock.release()
        raise
    holder = threading.Thread(
        target=_hold, args=(query, lock), name=f"kstore-stream-{query.id}", daemon=True
    )
    _holders[home.path] = query, holder
    holder.start()
    return query


class _Epochs:
    """What foreachBatch calls, on the driver: one epoch after the other."""

    def __init__(
        self, versions: Versions, emit: Emit | None, partition_time: bool, step: Step
    ) -> None:
        self._versions = versions
        self._emit = emit
        self._partition_time = partition_time
        self._step = step
        self._decided = threading.Event()
        self._is_bound = False

    def bind(self, query: str) -> None:
        """Bind the root to the query, and let its epochs begin."""
        import dataclasses

        versions = self._versions
        given = dataclasses.replace(versions.stream, query=query)
        versions.stream = LiveHome.of(versions.root.path).bind(given)
        self._is_bound = True
        self._decided.set()

    def refuse(self) -> None:
        """Let its epochs fail: the root is another query's."""
        self._decided.set()

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        from kstore_core.spark.shards.frames import by_shard, log_columns, spark_schema
        from kstore_core.spark.shards.writing import read_message
        from kstore_core.spark.stream.shards import EpochTask

        self._decided.wait(_BIND_TIMEOUT_S)
        if not self._is_bound:
            raise StateError(f"{self._versions.root} is not this query's; see why it was refused")
        versions = self._versions
        job = versions.begin(epoch)
        stream = versions.stream
        task = EpochTask.of(
            versions,
            epoch,
            job,
            emits=self._emit is not None,
            partition_time=self._partition_time,
            step=self._step,
        )
        log = log_columns(
            batch,
            versions.spec,
            by_key=stream.partition_by == "key",
            partitions=stream.partitions,
            partition_time=self._partition_time,
        )
        done = by_shard(log, stream.partitions, "shard").mapInArrow(
            task.run, spark_schema(task.schema)
        )
        if self._emit is not None:
            done = done.persist()
        try:
            messages = done.where(F.col("message").isNotNull()).select("message").collect()
            told = [read_message(row.message) for row in messages]
            self._step("told", None)
            versions.finish(epoch, job, told)
            self._step("published", None)
            if self._emit is not None:
                self._emit(done.where(F.col("message").isNull()).drop("message"), epoch)
                self._step("emitted", None)
        except BaseException:
            if job is not None:
                job.discard()
            raise
        finally:
            if self._emit is not None:
                done.unpersist()


def _let_go_of(home: Path) -> None:
    """Wait until the lock of a query of this process that has ended is let go of."""
    query, holder = _holders.get(home, (None, None))
    if query is not None and holder is not None and not query.isActive:
        holder.join(_BIND_TIMEOUT_S)


def _hold(query: StreamingQuery, lock: StreamLock) -> None:
    """Hold the lock until the query has ended, however it does."""
    try:
        query.awaitTermination()
    except Exception:  # noqa: BLE001 - why it ended is told to whoever has the query
        pass
    finally:
        lock.release()
