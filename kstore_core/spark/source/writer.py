"""The writer ``df.write.format("kstore")``, which writes a changelog into a new version of a store.

A data source cannot tell Spark how to distribute rows to tasks. So each task writes every shard for
which it gets records. If two tasks get records of one shard, the commit fails and publishes
nothing. ``write_store`` and ``by_shard`` send all records of a shard to one task.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.worker_errors import without_traceback
from kstore_core.spark.shards.frames import check_log_columns
from kstore_core.spark.shards.routing import placed_by_key
from kstore_core.spark.shards.writing import failure, read_message
from kstore_core.spark.source.write_options import write_options
from kstore_core.spark.write.job import WriteJob

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["BatchWriter", "Built"]


@dataclass(frozen=True)
class Built(WriterCommitMessage):
    """The message of a task, with the shards that the task has uploaded, or with an error."""

    messages: tuple[str, ...]  # texts that read_message parses


class BatchWriter(DataSourceArrowWriter):
    """The writer that writes a new version of a store; see docs/spark-roots.md.

    The constructor raises a SpecError if an option or a column is wrong, or if the root contains
    another store. The constructor raises a StateError if the root has no version but contains
    files.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        asked = write_options(options)
        root = Root.at(asked.path, asked.storage)
        self._job = WriteJob.plan(
            root,
            asked.spec,
            root.newest(),
            engine=asked.engine,
            partitions=asked.partitions,
            mode="overwrite" if overwrite else "append",
        )
        self._partition_time = asked.partition_time
        self._run_bytes = asked.run_bytes
        check_log_columns(schema, self._job.spec, partition_time=asked.partition_time)
        self._by_key = placed_by_key(schema.names, asked.partition_by)
        self._job.begin()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Built:
        """Write the shards for which this task has records, and upload the shards."""
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        return self.build(iterator, task.taskAttemptId())

    def build(self, batches: Iterator[pa.RecordBatch], attempt: int) -> Built:
        """Write the shards for which a task has records, and upload the shards.

        ``attempt`` is Spark's id of the attempt of the task.
        """
        try:
            writer = self._job.writer(
                partition_time=self._partition_time, run_bytes=self._run_bytes
            )
            shards = writer.write_each(attempt, batches, by_key=self._by_key)
        except Exception as error:  # noqa: BLE001 - failure() raises it, or it goes to the driver
            return Built((json.dumps(failure(error)),))
        return Built(tuple(json.dumps({"shard": dataclasses.asdict(shard)}) for shard in shards))

    @without_traceback()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the shards of all tasks as a new version.

        Raise a CommitConflictError if another writer has published a version since this job began.
        Raise a SpecError if a record does not fit the store, or if two tasks got records of one
        shard.
        """
        built = [message for message in messages if isinstance(message, Built)]
        self._job.publish(read_message(text) for message in built for text in message.messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files that the tasks of this job have uploaded."""
        self._job.discard()
