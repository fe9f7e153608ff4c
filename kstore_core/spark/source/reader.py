"""The reader of ``format("kstore")``.

A plan divides a read into parts. The driver lists the parts, and each task on a worker reads one
part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kstore_core.spark.runtime.worker_errors import told
from kstore_core.spark.source.pushdown import PushFilters, narrowed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from kstore_core.spark.read.plan import ReadPlan

__all__ = ["StoreReader"]


class StoreReader(DataSourceReader):
    """The reader that reads the parts of a plan.

    If ``takes_filters`` is true, filters of the query narrow the plan.
    """

    def __init__(self, plan: ReadPlan, *, takes_filters: bool) -> None:
        self._plan = plan
        if takes_filters:
            self.pushFilters = PushFilters(self.narrow)  # type: ignore[method-assign]

    def narrow(self, filters: Sequence[Filter]) -> None:
        """Read fewer rows, but all rows that pass the filters."""
        self._plan = narrowed(self._plan, filters)

    def partitions(self) -> list[InputPartition]:
        """Return one Spark partition for each part of the plan.

        Spark requires at least one partition. So, if the plan has no parts, return one partition
        without a part.
        """
        return [InputPartition(part) for part in self._plan.parts or (None,)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of the part of ``partition``."""
        if partition.value is not None:
            yield from told(self._plan.task.read)(partition.value)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the parts, because Spark sends each task its part."""
        return {"_plan": replace(self._plan, parts=())}
