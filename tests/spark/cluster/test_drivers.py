"""Exactly once: drivers are killed after every step of an epoch; test_cluster kills the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.cluster.held import check_streams, named, plan_streams, run_streams, step_of
from tests.spark.stream.shard_epochs import STEPS
from tests.spark.stream.work import DRIVER
from tests.spark.support.held_streams import kills_of
from tests.spark.support.local_cluster import local_cluster
from tests.spark.support.object_store import Bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = {
    "rows-disk": (*STEPS[1:], "emitted"),
    "rows-objects": ("committed", "put", "reported", "published"),
    "totals-objects": ("written", "committed", "put"),
}
"""The steps of each kind of stream at which its driver is killed."""

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def test_a_driver_that_is_killed_has_each_epoch_once(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, bucket: Bucket
) -> None:
    """Each stream is killed at its step, and in the driver after that at the step behind.

    Of a local master the executor is the driver's JVM. The machine of each driver is new.
    """
    scratch = tmp_path_factory.mktemp("k")  # a short name, as sockets need it
    kills = {}
    for kind, steps in KINDS.items():
        for name, behind in zip(named(kind, steps), (*steps[1:], steps[0]), strict=True):
            kills[name] = [(step_of(name), DRIVER), (behind, DRIVER)]
    plan_streams(scratch, kills)
    where = (list(kills), f"s3://{bucket.name}", bucket.options)
    for left in (1, 0):
        home = scratch / f"driver-{left}"
        home.mkdir()
        # A core for each task that is held, and two for the others.
        with local_cluster(home, {"spark.master": "local[10]"}) as cluster:
            with pytest.raises(AssertionError, match="the driver is gone"):
                cluster.call(run_streams, str(scratch), *where)
            for name in kills:
                assert len(kills_of(scratch / name).left()) == left
            cluster.process.wait()
            cluster.wait_for_executors()
    run_streams(spark, str(scratch), *where)
    check_streams(scratch, list(kills), bucket)
