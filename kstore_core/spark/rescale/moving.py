"""The Spark job that moves stored rows to the shards of their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstore_core.spark.rescale.building import BuildTask
from kstore_core.spark.rescale.reading import ROWS_DDL, RowsTask
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.runtime.worker_errors import told, typed_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["move_rows"]


def move_rows(spark: SparkSession, rows: RowsTask, build: BuildTask) -> list[Shard]:
    """Build the new shards, and return their descriptions in the order of their numbers.

    One task reads each old shard, and one task builds each new shard. Between these two stages,
    Spark sorts the rows, and writes to disk the rows that do not fit into memory. The errors of the
    tasks are those of :func:`kstore_core.spark.rescale`.
    """
    from kstore_core.spark.shards.writing import MESSAGE_DDL, read_message

    numbers = spark.range(0, rows.before, 1, rows.before)
    moved = numbers.mapInArrow(told(rows.run), ROWS_DDL).repartitionById(rows.after, "shard")
    built = moved.sortWithinPartitions("segment", "key").mapInArrow(told(build.run), MESSAGE_DDL)
    with typed_errors():
        shards = [read_message(row.message) for row in built.collect()]
    return sorted(shards, key=lambda shard: shard.shard)
