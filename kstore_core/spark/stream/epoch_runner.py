"""The part of `stream_into` that runs on the driver: it starts the query and runs each epoch."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kstore_core.errors import StateError
from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.live.lock import StreamLock
from kstore_core.spark.remote.layout import layout_of
from kstore_core.spark.runtime.worker_errors import told, typed_errors
from kstore_core.spark.stream.steps import StepHook, no_step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from kstore_core.spark.stream.versions import Versions

__all__ = ["Emit", "EpochRunner"]

Emit = Callable[["DataFrame", int], object]
"""The type of the function to which `stream_into` passes the output and number of each epoch."""

_BIND_TIMEOUT_S = 120.0

_unlocking: dict[str, tuple[StreamingQuery, threading.Thread]] = {}
"""The last query that this process started on each live directory.

Each value also contains the thread that unlocks the directory when the query ends.
"""


@dataclasses.dataclass(eq=False)
class EpochRunner:
    """The object that ``foreachBatch`` calls with each micro-batch."""

    versions: Versions
    emit: Emit | None
    partition_time: bool
    step: StepHook = no_step

    def __post_init__(self) -> None:
        self._decided = threading.Event()
        self._is_bound = False

    def start(
        self, df: DataFrame, *, trigger: Mapping[str, Any] | None, name: str | None
    ) -> StreamingQuery:
        """Lock the root if it is on a disk, start the query, and bind the root to the query.

        Raise a StateError if another stream is running on the root, or if an earlier call bound the
        root to another stream. ``trigger`` has the arguments of ``DataStreamWriter.trigger``, and
        ``name`` is the name of the query in Spark.
        """
        layout = layout_of(self.versions.root.storage)
        _join_ended(str(layout))
        lock = StreamLock(layout) if isinstance(layout, LiveLayout) else None
        try:
            writer = df.writeStream.foreachBatch(self)
            writer = writer.option("checkpointLocation", self.versions.stream.checkpoint)
            if trigger:
                writer = writer.trigger(**trigger)
            if name is not None:
                writer = writer.queryName(name)
            query = writer.start()
            try:
                given = dataclasses.replace(self.versions.stream, query=query.id)
                self.versions.stream = given.bind(layout)
                self._is_bound = True
            except BaseException:
                self._decided.set()
                query.stop()
                raise
            self._decided.set()
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        if lock is None:
            # A root on an object store has no lock. Spark refuses a second stream with the same
            # checkpoint, and if both ran, only one could commit an epoch.
            return query
        thread = threading.Thread(
            target=_release_at_end,
            args=(query, lock),
            name=f"kstore-stream-{query.id}",
            daemon=True,
        )
        _unlocking[str(layout)] = query, thread
        thread.start()
        return query

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Apply an epoch, publish a version if one is due, and emit the epoch's output."""
        from pyspark.sql import functions as F  # noqa: N812

        from kstore_core.spark.shards.frames import route_log, spark_schema
        from kstore_core.spark.shards.writing import read_message
        from kstore_core.spark.stream.shards import EpochTask, message_schema

        self._decided.wait(_BIND_TIMEOUT_S)
        versions, emit, step = self.versions, self.emit, self.step
        if not self._is_bound:
            raise StateError(
                f"{versions.root} is not bound to this query, because stream_into failed; see the "
                "error of stream_into"
            )
        job = versions.begin(epoch)
        stream, partition_time, emits = versions.stream, self.partition_time, emit is not None
        task = EpochTask.of(
            versions, epoch, job, emits=emits, partition_time=partition_time, step=step
        )
        log = route_log(
            batch,
            versions.spec,
            by_key=stream.partition_by == "key",
            partitions=stream.partitions,
            partition_time=partition_time,
        )
        schema = spark_schema(message_schema(versions.spec, emits=emits))
        output = log.mapInArrow(told(task.run), schema)
        if emits:
            output = output.persist()
        try:
            with typed_errors():
                messages = output.where(F.col("message").isNotNull()).select("message").collect()
            reported = [read_message(row.message) for row in messages]
            step("reported", None)
            versions.finish(epoch, job, reported)
            step("published", None)
            if emit is not None:
                emit(output.where(F.col("message").isNull()).drop("message"), epoch)
                step("emitted", None)
        except BaseException:
            if job is not None:
                job.discard()
            raise
        finally:
            if emits:
                output.unpersist()


def _join_ended(path: str) -> None:
    """If the last query on ``path`` has ended, wait until its lock is released.

    Return at once if the query is still running.
    """
    query, thread = _unlocking.get(path, (None, None))
    if query is not None and thread is not None and not query.isActive:
        thread.join(_BIND_TIMEOUT_S)


def _release_at_end(query: StreamingQuery, lock: StreamLock) -> None:
    with contextlib.suppress(Exception):  # the query itself reports why it ended
        query.awaitTermination()
    lock.release()
