"""Shards on LMDB: reading them leaves no trace, so that they can be read, appended to and moved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kstore_core.spark import write_store
from tests.spark.support.logs import (
    COLUMNS,
    RETENTION,
    SHARDS,
    SPEC,
    Model,
    history,
    log_frame,
    make_log,
    visible,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_store_that_was_read_takes_an_append(spark: SparkSession, root: Path) -> None:
    log, model = make_log(1, 400, SHARDS), Model(SHARDS, RETENTION)
    for part in (log[:250], log[250:]):
        write_store(log_frame(spark, part, COLUMNS), root, SPEC, partitions=SHARDS, engine="lmdb")
        model.put(part)
        assert history(spark, root) == visible(model)
    assert history(spark, root) == visible(model)
    assert list(root.rglob("data.mdb"))
    assert not list(root.rglob("lock.mdb"))
