"""The reader of ``format("kstore")``: the driver lists a plan's parts, and workers read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.read.plan import ReadPlan, Task

__all__ = ["StoreReader"]


class StoreReader(DataSourceReader):
    """Reads the parts of a plan. Options select records; Spark's filters are not pushed down."""

    def __init__(self, plan: ReadPlan) -> None:
        self._task: Task = plan.task
        self._parts: tuple[Any, ...] = plan.parts

    def partitions(self) -> list[InputPartition]:
        """One for each part; an empty one for a plan without parts, since Spark requires one."""
        return [InputPartition(part) for part in self._parts or (None,)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of a part."""
        if partition.value is None:
            return iter(())
        return self._task.read(partition.value)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the parts: each task gets its own."""
        return {"_task": self._task, "_parts": ()}
