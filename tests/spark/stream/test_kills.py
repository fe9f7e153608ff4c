"""Exactly once: the driver is killed after every step of an epoch; test_cluster kills workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.stream.checks import check_once
from tests.spark.stream.shard_epochs import STEPS
from tests.spark.stream.work import DRIVER
from tests.spark.support.held_streams import kills_of, plan, streams
from tests.spark.support.local_cluster import local_cluster
from tests.spark.support.object_store import Bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_DRIVER = (*STEPS[1:], "emitted")

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.mark.parametrize("place", ["disk", "objects"])
def test_the_driver_is_killed_after_every_step(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, bucket: Bucket, place: str
) -> None:
    """Each stream is killed at its step, and in the driver after that at the step behind."""
    scratch = tmp_path_factory.mktemp("k")  # a short name, as sockets need it
    steps = OF_DRIVER if place == "disk" else ("committed", "put", "reported", "published")
    where = () if place == "disk" else (f"s3://{bucket.name}", bucket.options)
    behind = (*steps[1:], steps[0])
    plan(scratch, {a: [(a, DRIVER), (b, DRIVER)] for a, b in zip(steps, behind, strict=True)})
    for left in (1, 0):
        home = scratch / f"driver-{left}"
        home.mkdir()
        with local_cluster(home, {"spark.master": "local[5]"}) as cluster:
            with pytest.raises(AssertionError, match="the driver is gone"):
                cluster.call(streams, str(scratch), steps, *where)
            for step in steps:
                assert len(kills_of(scratch / step).left()) == left
            cluster.process.wait()
            cluster.wait_for_executors()
    streams(spark, str(scratch), steps, *where)
    check_once(scratch, steps, bucket if place == "objects" else None)
