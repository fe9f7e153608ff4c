"""The function of the driver that runs each micro-batch of a topology."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from kstore_core.spark.live.epochs import Epoch
from kstore_core.spark.runtime.worker_errors import typed_errors
from kstore_core.spark.subtopologies.stages import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["EpochRunner", "Sink"]

_ADAPTIVE = "spark.sql.adaptive.enabled"

Sink: TypeAlias = "Callable[[DataFrame, int], object] | None"
"""A function that gets the rows of a topic and the number of their micro-batch."""


@contextmanager
def _fixed_plan(spark: SparkSession) -> Iterator[None]:
    """Turn adaptive plans off, because an adaptive plan runs a separate job for each shuffle."""
    before = spark.conf.get(_ADAPTIVE)
    spark.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        spark.conf.set(_ADAPTIVE, str(before))


@dataclass
class EpochRunner:
    """The object that ``foreachBatch`` calls with the records of each micro-batch."""

    checkpoint: str
    stages: tuple[Stage, ...]
    sinks: Mapping[str, Sink]
    _query: str = ""

    def _id(self, spark: SparkSession) -> str:
        """Return the id of the query. A new checkpoint at the same place has another id."""
        if not self._query:
            # With Spark Connect, foreachBatch can read the id only from this file.
            row = spark.read.text(f"{self.checkpoint}/metadata").first()
            assert row is not None
            self._query = str(json.loads(row[0])["id"])
        return self._query

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Run all stages, and pass the records of each topic to its sink."""
        from pyspark.sql import functions as F  # noqa: N812

        topic, union = F.col("topic"), type(batch).unionByName
        current = Epoch(self._id(batch.sparkSession), epoch)
        sent: list[DataFrame] = []
        if len(self.stages) > 1:
            batch.persist()
        try:
            for stage in self.stages:
                read = [each.where(topic.isin(stage.topics)) for each in (batch, *sent)]
                sent.append(stage.run(current, reduce(union, read)).persist())
            everything = reduce(union, sent)
            with typed_errors(), _fixed_plan(batch.sparkSession):
                everything.count()  # runs all stages
            rows = everything.withColumn("timestamp", F.timestamp_millis("timestamp"))
            for name, sink in self.sinks.items():
                if sink is not None:
                    sink(rows.where(topic == name), epoch)
        finally:
            for each in (*reversed(sent), batch):
                each.unpersist()
