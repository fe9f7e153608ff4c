"""Whole jobs over roots on HDFS: joins, and two jobs that race for a version."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core.errors import CommitConflictError
from kstore_core.spark import temporal_join, vacuum, verify_root, write_store
from kstore_core.spark.root.root import Root
from tests.spark.support.faults import publish_together
from tests.spark.support.logs import SHARDS, SPEC, Record, log_frame, make_log
from tests.spark.support.object_store import Bucket

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("broadcast_bytes", [10**9, 0])
def test_a_join_over_hdfs_is_that_over_a_directory(
    spark: SparkSession, hdfs_bucket: Bucket, root: Path, broadcast_bytes: int
) -> None:
    log = make_log(21, 300, SHARDS)
    for place in (root, hdfs_bucket.address()):
        write_store(log_frame(spark, log[:200]), place, SPEC, partitions=SHARDS)
        write_store(log_frame(spark, log[200:]), place)
    rows = [(number, record.key, record.timestamp + 1) for number, record in enumerate(log)]
    df = spark.createDataFrame(rows, "number int, who binary, at bigint")
    joins = [
        temporal_join(df, place, key="who", timestamp="at", broadcast_bytes=broadcast_bytes)
        for place in (root, hdfs_bucket.address())
    ]
    local, remote = (
        sorted((row.number, row.table_value, row.table_timestamp) for row in join.collect())
        for join in joins
    )
    assert remote == local
    assert sum(value is not None for _, value, _ in remote) > 50


def test_of_two_whole_jobs_one_publishes(
    spark: SparkSession, hdfs_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both continue version 1, and meet before they publish. The name node decides."""
    log = make_log(18, 60, SHARDS)
    address = hdfs_bucket.address()
    write_store(log_frame(spark, log[:20]), address, SPEC, partitions=SHARDS)
    publish_together(monkeypatch)

    def write(records: list[Record]) -> Any:
        return write_store(log_frame(spark, records), address, SPEC, partitions=SHARDS)

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(write, part) for part in (log[20:40], log[:60])]
    (won,) = [job.result() for job in jobs if job.exception() is None]
    (lost,) = [error for job in jobs if (error := job.exception()) is not None]
    assert isinstance(lost, CommitConflictError)
    home = hdfs_bucket.root()
    assert home.versions() == [1, 2]
    assert home.load() == won
    assert {name.split("/")[1] for name in _uploads(home)} == {home.load(1).job, won.job}
    vacuum(address, grace_s=0)
    assert not list(verify_root(address).findings)


def _uploads(home: Root) -> list[str]:
    return [entry.name for entry in home.storage.files("attempts")]
