"""``df.writeStream.format("kstore")``: a streaming changelog into the shards of a store.

As `stream_into` does, without a callback: tasks write their rows to an inbox, and the commit of the
epoch, in a process of its own on the driver's machine, applies them shard by shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from kstore_core.errors import SpecError
from kstore_core.spark.roots import Root
from kstore_core.spark.source.sink_options import sink_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kstore_core.spark.streaming_versions import Versions

__all__ = ["Received", "StreamSink"]


@dataclass(frozen=True)
class Received(WriterCommitMessage):
    """Rows that a task has written to the inbox.

    Attributes
    ----------
    query : str
        The id of the query.
    file : str
        In the inbox of the epoch.
    """

    query: str
    file: str


class StreamSink(DataSourceStreamArrowWriter):
    """Writes epochs into a root; see docs/streaming.md.

    Raises
    ------
    SpecError
        Options or columns that do not fit; the output mode is complete.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        from kstore_core.spark.frames import check_columns

        if overwrite:
            raise SpecError(
                "outputMode('complete') would write everything anew in each epoch; a changelog is "
                "appended: use outputMode('append') or 'update'"
            )
        self._options = sink_options(options)
        self._names: list[str] = schema.names
        by = self._options.partition_by
        if by == "partition" and "partition" not in self._names:
            raise SpecError("partition_by='partition', and the DataFrame has no column 'partition'")
        self._by_key = by == "key" or (by is None and "partition" not in self._names)
        versions = self._plan("")
        check_columns(schema, versions.spec)
        self._spec = versions.spec
        self._partitions = versions.stream.partitions

    def _plan(self, query: str) -> Versions:
        from kstore_core.spark.streaming import plan_stream

        options = self._options
        return plan_stream(
            Root.at(options.path),
            options.spec,
            partitions=options.partitions,
            engine=options.engine,
            partition_by="key" if self._by_key else "partition",
            checkpoint=options.checkpoint,
            publish_every=options.publish_every,
            query=query,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Received:
        """Write the rows of a task to the inbox."""
        from pyspark import TaskContext

        from kstore_core.spark.map_state_epochs import epoch_of_task
        from kstore_core.spark.streaming_home import LiveHome
        from kstore_core.spark.streaming_inbox import Inbox, log_batch, log_schema

        context = TaskContext.get()
        epoch = epoch_of_task(None)
        assert context is not None
        schema = log_schema(self._spec, self._names)
        batches = (
            log_batch(batch, self._spec, schema, by_key=self._by_key, partitions=self._partitions)
            for batch in iterator
            if batch.num_rows
        )
        live = LiveHome.of(Root.at(self._options.path).path)
        inbox = Inbox.of(live.path, epoch.query, epoch.number)
        return Received(epoch.query, inbox.write(context.partitionId(), batches, schema))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Apply the rows of all tasks, and publish where a version is due."""
        from kstore_core.spark.streaming_home import LiveHome
        from kstore_core.spark.streaming_inbox import Inbox, shard_tables
        from kstore_core.spark.streaming_shards import EpochTask

        received = [message for message in messages if isinstance(message, Received)]
        if not received:
            return
        query = received[0].query
        live = LiveHome.of(Root.at(self._options.path).path)
        with live.locked():
            versions = self._plan(query)
            versions.stream = live.bind(versions.stream)
            inbox = Inbox.of(live.path, query, batchId)
            rows = inbox.read(message.file for message in received)
            job = versions.begin(batchId)
            try:
                task = EpochTask.of(versions, batchId, job)
                told = []
                for shard, part in enumerate(shard_tables(rows, self._partitions)):
                    done, _ = task.apply(shard, part)
                    if done is not None:
                        told.append(done)
                versions.finish(batchId, job, told)
            except BaseException:
                versions.abandon(batchId, job)
                raise
            inbox.clear()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the rows of an epoch that failed; it is given again when the query restarts."""
        from kstore_core.spark.streaming_home import LiveHome
        from kstore_core.spark.streaming_inbox import Inbox

        received = [message for message in messages if isinstance(message, Received)]
        if received:
            live = LiveHome.of(Root.at(self._options.path).path)
            Inbox.of(live.path, received[0].query, batchId).clear()
