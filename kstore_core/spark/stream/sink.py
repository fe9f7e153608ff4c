"""The sink ``df.writeStream.format("kstore")``, which writes a streaming changelog into a store.

The sink writes what `stream_into` writes, but it emits no output. Tasks write their rows to an
inbox. At the end of the epoch, a separate process on the driver's machine applies the rows to one
shard after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from kstore_core.errors import SpecError
from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.live.lock import locked
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.first_line import without_traceback
from kstore_core.spark.shards.frames import check_log_columns
from kstore_core.spark.shards.routing import placed_by_key
from kstore_core.spark.source.write_options import sink_options
from kstore_core.spark.stream.plan import plan_stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kstore_core.spark.root.manifest import Shard
    from kstore_core.spark.stream.shards import EpochTask
    from kstore_core.spark.stream.versions import Versions

__all__ = ["Received", "StreamSink"]


@dataclass(frozen=True)
class Received(WriterCommitMessage):
    """The message that a task returns after it has written its rows to the inbox of an epoch."""

    query: str  # the id of the streaming query
    file: str | None  # the name of the file in the inbox; None if the task had no rows


class StreamSink(DataSourceStreamArrowWriter):
    """The writer that writes the epochs of a stream into a root; see docs/streaming.md.

    The constructor raises a SpecError if an option or a column is wrong, or if the output mode is
    ``complete``. The constructor raises a StateError if the root belongs to another stream.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise SpecError(
                "kstore does not support outputMode('complete'), because this mode writes all rows "
                "again in each epoch, but a changelog must contain only new records; use "
                "outputMode('append') or outputMode('update')"
            )
        self._options = sink_options(options)
        self._live = LiveLayout.of(Root.at(self._options.path, self._options.storage).path)
        self._by_key = placed_by_key(schema.names, self._options.partition_by)
        timed = self._options.partition_time
        check_log_columns(schema, self._plan("").spec, partition_time=timed)

    def _plan(self, query: str) -> Versions:
        asked = self._options
        return plan_stream(
            Root.at(asked.path, asked.storage),
            asked.spec,
            partitions=asked.partitions,
            engine=asked.engine,
            partition_by="key" if self._by_key else "partition",
            checkpoint=asked.checkpoint,
            publish_every=asked.publish_every,
            query=query,
        )

    @without_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Received:
        """Write the rows of a task to a file in the inbox of the epoch."""
        from pyspark import TaskContext

        from kstore_core.spark.live.epochs import epoch_of_task
        from kstore_core.spark.root.inbox import Inbox

        task = TaskContext.get()
        epoch = epoch_of_task(None)
        assert task is not None
        inbox = Inbox.of(self._live.path, epoch.query, epoch.number)
        rows = (batch for batch in iterator if batch.num_rows)
        file = inbox.write(task.partitionId(), rows)
        self._step("received", None)
        return Received(epoch.query, file)

    @without_traceback()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Apply the rows of all tasks to the shards, and publish a version if one is due.

        Raise a SpecError, before any row is applied, if a record does not fit the store. Raise a
        StateError if another stream is writing to the root, or if the root belongs to another
        stream.
        """
        from kstore_core.spark.root.inbox import Inbox
        from kstore_core.spark.stream.shards import EpochTask

        received = [message for message in messages if isinstance(message, Received)]
        if not received:
            return
        query = received[0].query
        with locked(self._live):
            versions = self._plan(query)
            versions.stream = versions.stream.bind(self._live)
            inbox = Inbox.of(self._live.path, query, batchId)
            rows = inbox.read(message.file for message in received if message.file is not None)
            job = versions.begin(batchId)
            try:
                task = EpochTask.of(
                    versions,
                    batchId,
                    job,
                    partition_time=self._options.partition_time,
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
            inbox.clear()
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
                f"has only the partitions 0 to {partitions - 1}. Set the option partitions to "
                "the number of the topic's partitions, or set the option partition_by to 'key' to "
                "choose shards by key"
            )
        for number, log in logs.items():
            task.check(number, log)
        done = (task.apply(number, logs.get(number))[0] for number in range(partitions))
        return [shard for shard in done if shard is not None]

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the files of a failed epoch from the inbox.

        When the query restarts, Spark runs the epoch again.
        """
        from kstore_core.spark.root.inbox import Inbox

        received = [message for message in messages if isinstance(message, Received)]
        if received:
            Inbox.of(self._live.path, received[0].query, batchId).clear()
