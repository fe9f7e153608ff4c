"""The sink ``df.writeStream.format("kstore")``, which writes a streaming changelog into a store.

The sink writes what `stream_into` writes, but it emits no output. Tasks write their rows to an
inbox, a directory in the root. At the end of the epoch, a separate process on the driver's machine
applies the rows to the shards.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from kstore_core.errors import SpecError
from kstore_core.spark.live.lock import locked
from kstore_core.spark.remote.layout import COMPACT_EVERY, layout_of
from kstore_core.spark.root.inbox import Inbox, InboxFile
from kstore_core.spark.runtime.worker_errors import without_traceback
from kstore_core.spark.shards.frames import check_log_columns
from kstore_core.spark.shards.routing import placed_by_key
from kstore_core.spark.stream.plan import plan_stream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kstore_core.spark.root.manifest import Shard
    from kstore_core.spark.root.root import Root
    from kstore_core.spark.stream.shards import EpochTask
    from kstore_core.spark.stream.versions import Versions
    from kstore_core.spec import StoreSpec

__all__ = ["Received", "SinkArguments", "StreamSink"]

_SHARDS_AT_ONCE = 8


@dataclass(frozen=True)
class Received(WriterCommitMessage):
    """The message that a task returns after it has written its rows to the inbox of an epoch."""

    query: str  # the id of the streaming query
    file: InboxFile | None  # the file in the inbox; None if the task had no rows


@dataclass(frozen=True, slots=True)
class SinkArguments:
    """The arguments of a sink. :func:`stream_into` describes the arguments of the same names."""

    root: Root
    spec: StoreSpec | None = None
    partitions: int | None = None
    partition_by: str | None = None
    engine: str | None = None
    partition_time: bool = False
    publish_every: int = 1
    compact_every: int = COMPACT_EVERY
    checkpoint: str = ""  # the stream's checkpoint; empty if the session sets it


class StreamSink(DataSourceStreamArrowWriter):
    """The writer that writes the epochs of a stream into a root; see docs/streaming.md.

    The constructor raises a SpecError if an argument or a column is wrong, or if the output mode is
    ``complete``. The constructor raises a StateError if the root belongs to another stream.
    """

    def __init__(self, arguments: SinkArguments, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise SpecError(
                "kstore does not support outputMode('complete'), because this mode writes all rows "
                "again in each epoch, but a changelog must contain only new records; use "
                "outputMode('append') or outputMode('update')"
            )
        self._arguments = arguments
        self._by_key = placed_by_key(schema.names, arguments.partition_by)
        timed = arguments.partition_time
        check_log_columns(schema, self._plan("").spec, partition_time=timed)

    def _plan(self, query: str) -> Versions:
        given = self._arguments
        return plan_stream(
            given.root,
            given.spec,
            partitions=given.partitions,
            engine=given.engine,
            partition_by="key" if self._by_key else "partition",
            checkpoint=given.checkpoint,
            publish_every=given.publish_every,
            query=query,
            compact_every=given.compact_every,
        )

    def _inbox(self, query: str, epoch: int) -> Inbox:
        return Inbox(self._arguments.root.storage, query, epoch)

    @without_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Received:
        """Write the rows of a task to a file in the inbox of the epoch."""
        from pyspark import TaskContext

        from kstore_core.spark.live.epochs import epoch_of_task

        task = TaskContext.get()
        epoch = epoch_of_task(None)
        assert task is not None
        rows = (batch for batch in iterator if batch.num_rows)
        file = self._inbox(epoch.query, epoch.number).write(task.partitionId(), rows)
        self._step("received", None)
        return Received(epoch.query, file)

    @without_traceback()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Apply the rows of all tasks to the shards, and publish a version if one is due.

        Raise a SpecError, before any row is applied, if a record does not fit the store. Raise a
        StateError if another stream is writing to the root, or if the root belongs to another
        stream.
        """
        from kstore_core.spark.stream.shards import EpochTask

        query, files = _received(messages)
        if query is None:
            return
        layout = layout_of(self._arguments.root.storage)
        with locked(layout):
            versions = self._plan(query)
            versions.stream = versions.stream.bind(layout)
            inbox = self._inbox(query, batchId)
            # Only the files that exist now may be removed at the end. On an object store, another
            # process may run a newer attempt of the epoch, whose files appear later.
            there = inbox.names()
            rows = inbox.read(files)
            job = versions.begin(batchId)
            try:
                task = EpochTask.of(
                    versions,
                    batchId,
                    job,
                    partition_time=self._arguments.partition_time,
                    step=self._step,
                )
                reported = self._applied(task, versions, rows)
                self._step("reported", None)
                versions.finish(batchId, job, reported)
                self._step("published", None)
            except BaseException:
                if job is not None:
                    job.discard()
                raise
            inbox.remove(there)
        self._step("cleared", None)

    def _step(self, name: str, shard: int | None) -> None:
        """Do nothing. The sink calls this method after each step of an epoch.

        Tests override the method; see :mod:`kstore_core.spark.stream.steps`.
        """

    def _applied(self, task: EpochTask, versions: Versions, rows: pa.Table | None) -> list[Shard]:
        """Apply the rows of an epoch, and return the shards that got records or were copied.

        Check all rows before the first shard is changed.
        """
        from kstore_core.spark.shards.log import ShardLog

        logs, partitions = {}, versions.stream.partitions
        if rows is not None:
            log = ShardLog.of(rows, versions.spec)
            places = log.places(partitions, by_key=self._by_key)
            logs = {int(n): log.take(np.flatnonzero(places == n)) for n in np.unique(places)}
        outside = [number for number in logs if not 0 <= number < partitions]
        if outside:
            raise SpecError(
                f"{len(logs[outside[0]])} records have the partition {outside[0]}, but the store "
                f"has only the partitions 0 to {partitions - 1}. Write to a new root with a new "
                "checkpoint. Set the option partitions to the number of the topic's partitions, or "
                "the option partition_by to 'key' to choose shards by key"
            )
        for number, log in logs.items():
            task.check(number, log)

        def applied(number: int) -> Shard | None:
            return task.apply(number, logs.get(number))[0]

        if task.root.storage.path is not None:
            done = [*map(applied, range(partitions))]
        else:  # Requests to the storage take most of the time, so send them concurrently.
            with ThreadPoolExecutor(_SHARDS_AT_ONCE) as threads:
                try:
                    done = [*threads.map(applied, range(partitions))]
                except BaseException:
                    threads.shutdown(wait=False, cancel_futures=True)
                    raise
        return [shard for shard in done if shard is not None]

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the files of a failed epoch from the inbox.

        When the query restarts, Spark runs the epoch again.
        """
        query, files = _received(messages)
        if query is not None:
            self._inbox(query, batchId).remove(file.name for file in files)


def _received(messages: list[WriterCommitMessage | None]) -> tuple[str | None, list[InboxFile]]:
    """Return the id of the query, or None without messages, and the files of the tasks."""
    found = [message for message in messages if isinstance(message, Received)]
    query = found[0].query if found else None
    return query, [message.file for message in found if message.file is not None]
