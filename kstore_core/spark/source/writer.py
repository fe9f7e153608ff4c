"""``df.write.format("kstore")``: writes a changelog into a new version of a store.

A data source cannot tell Spark how to distribute rows to tasks. So each task writes the shards of
the records that it gets. If two tasks have records of the same shard, the commit fails and
publishes nothing. ``write_store`` and ``by_shard`` send all records of a shard to one task.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kstore_core.errors import SpecError
from kstore_core.spark.read.read_store import manifest_spec
from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.frames import check_log_columns
from kstore_core.spark.shards.routing import placed_by_key
from kstore_core.spark.shards.writing import failure, read_message
from kstore_core.spark.source.write_options import WriteOptions, write_options
from kstore_core.spark.write.job import WriteJob

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["BatchWriter", "Built"]


@dataclass(frozen=True)
class Built(WriterCommitMessage):
    """The message of a task: the shards that it has uploaded, or the error in its records."""

    messages: tuple[str, ...]  # texts that read_message parses


class BatchWriter(DataSourceArrowWriter):
    """Writes a new version of a store; see docs/spark-roots.md.

    The constructor raises SpecError for wrong options or columns, or if the root has another store.
    It raises StateError if the root has no version but contains files.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        asked = write_options(options)
        root = Root.at(asked.path, asked.storage)
        self._job = _planned(root, root.newest(), asked, overwrite=overwrite)
        self._partition_time = asked.partition_time
        check_log_columns(schema, self._job.spec, partition_time=asked.partition_time)
        self._by_key = placed_by_key(schema.names, asked.partition_by)
        self._job.begin()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Built:
        """Write the shards of a task's records."""
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        return self.build(iterator, task.taskAttemptId())

    def build(self, batches: Iterator[pa.RecordBatch], attempt: int) -> Built:
        """Write the shards of a task's records; ``attempt`` is the id of the task's attempt."""
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return Built(())
        try:
            writer = self._job.writer(partition_time=self._partition_time)
            rows = pa.Table.from_batches(filled)
            shards = writer.write_each(attempt, rows, by_key=self._by_key)
        except Exception as error:  # noqa: BLE001 - failure raises it again, or it goes to the driver
            return Built((json.dumps(failure(error)),))
        return Built(tuple(json.dumps({"shard": dataclasses.asdict(shard)}) for shard in shards))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the version.

        Raises CommitConflictError if another writer has published a version since this job began.
        Raises SpecError if a record does not fit the store, or if two tasks had records of one
        shard.
        """
        built = [message for message in messages if isinstance(message, Built)]
        self._job.publish(read_message(text) for message in built for text in message.messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the uploaded files."""
        self._job.discard()


def _planned(
    root: Root, newest: Manifest | None, asked: WriteOptions, *, overwrite: bool
) -> WriteJob:
    """Plan the job. Missing options get the values of the newest version."""
    spec, partitions, engine = asked.spec, asked.partitions, asked.engine
    if newest is None:
        if spec is None or partitions is None:
            raise SpecError(
                f"{root} has no version yet, so its store is unknown; pass the options spec "
                "(kstore_core.spark.spec_json makes it) and partitions"
            )
    else:
        spec = manifest_spec(newest, None, str(root)) if spec is None else spec
        partitions = newest.partitions if partitions is None else partitions
        engine = newest.engine if engine is None else engine
    return WriteJob.plan(
        root,
        spec,
        newest,
        engine=engine or "rocksdb",
        partitions=partitions,
        mode="overwrite" if overwrite else "append",
    )
