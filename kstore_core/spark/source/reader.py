"""The reader of ``format("kstore")``: the driver lists the parts of a read for the workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.read.plan import ReadPlan, Task

__all__ = ["StoreReader"]


class StoreReader(DataSourceReader):
    """Reads the parts of a plan.

    Only options select records: Spark does not push filters down to this reader.
    """

    def __init__(self, plan: ReadPlan) -> None:
        self._task: Task = plan.task
        self._parts: tuple[Any, ...] = plan.parts

    def partitions(self) -> list[InputPartition]:
        """Return one partition for each part.

        Spark requires a partition, so a plan without parts gives one empty partition.
        """
        return [InputPartition(part) for part in self._parts or (None,)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the Arrow batches of one part."""
        if partition.value is None:
            return iter(())
        return self._task.read(partition.value)

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state, without the parts: Spark passes each task its own part."""
        return {"_task": self._task, "_parts": ()}
