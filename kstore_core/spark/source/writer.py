"""``df.write.format("kstore")``: a changelog into a new version of a store.

A data source cannot ask Spark for a distribution. So each task writes the shards of its records,
and the commit publishes nothing if two tasks have records of one shard. ``write_store`` and
``by_shard`` bring the records of a shard together.
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
    """The shards that a task has uploaded, or an error in its records.

    Attributes
    ----------
    messages : tuple of str
        As :func:`kstore_core.spark.shards.writing.read_message` reads them.
    """

    messages: tuple[str, ...]


class BatchWriter(DataSourceArrowWriter):
    """Writes a version; see docs/spark-roots.md.

    Raises
    ------
    SpecError
        Options or columns that do not fit, or the root holds another store.
    StateError
        The root holds something else.
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
        """Write the shards of a task's records, in one of its attempts."""
        kept = [batch for batch in batches if batch.num_rows]
        if not kept:
            return Built(())
        try:
            writer = self._job.writer(partition_time=self._partition_time)
            rows = pa.Table.from_batches(kept)
            shards = writer.write_each(attempt, rows, by_key=self._by_key)
        except Exception as error:  # noqa: BLE001 - raised again, or sent to the driver
            return Built((json.dumps(failure(error)),))
        return Built(tuple(json.dumps({"shard": dataclasses.asdict(shard)}) for shard in shards))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the version.

        Raises
        ------
        CommitConflictError
            Another writer published meanwhile.
        SpecError
            Records do not fit, or those of one shard were not together.
        """
        self._job.publish(read_message(text) for built in _built(messages) for text in built)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was uploaded."""
        self._job.discard()


def _built(messages: list[WriterCommitMessage | None]) -> Iterator[tuple[str, ...]]:
    for message in messages:
        if isinstance(message, Built):
            yield message.messages


def _planned(
    root: Root, newest: Manifest | None, asked: WriteOptions, *, overwrite: bool
) -> WriteJob:
    """The job; the newest version gives missing options."""
    spec, partitions, engine = asked.spec, asked.partitions, asked.engine
    if newest is None:
        if spec is None or partitions is None:
            raise SpecError(
                f"{root} holds no version yet, so nothing says which store it is; give the options "
                "spec (kstore_core.spark.spec_json makes it) and partitions"
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
