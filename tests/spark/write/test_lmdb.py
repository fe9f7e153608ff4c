"""Shards on LMDB: reading them leaves no trace, so that they can be read, appended to and moved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kstore_core.spark import write_store
from tests.spark.support import logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_store_that_was_read_takes_an_append(spark: SparkSession, root: Path) -> None:
    log, model = logs.make_log(1, 400, logs.SHARDS), logs.Model(logs.SHARDS, logs.RETENTION)
    for part in (log[:250], log[250:]):
        write_store(
            logs.log_frame(spark, part, logs.COLUMNS),
            root,
            logs.SPEC,
            partitions=logs.SHARDS,
            engine="lmdb",
        )
        model.put(part)
        assert logs.history(spark, root) == logs.visible(model)
    assert logs.history(spark, root) == logs.visible(model)
    assert list(root.rglob("data.mdb"))
    assert not list(root.rglob("lock.mdb"))
