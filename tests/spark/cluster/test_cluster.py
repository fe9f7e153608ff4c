"""kstore on a cluster of executors, some of which are killed."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstore_core.spark import vacuum
from kstore_core.spark.root.root import Root
from tests.spark.cluster.held import check_streams, named, plan_streams, run_streams, step_of
from tests.spark.stream.shard_epochs import STEPS
from tests.spark.stream.work import EXECUTOR, WORKER
from tests.spark.support import cluster_work
from tests.spark.support.local_cluster import LocalCluster, Raised, local_cluster
from tests.spark.support.logs import (
    RETENTION,
    SHARDS,
    Model,
    make_log,
    nothing_written,
    visible,
)
from tests.spark.support.object_store import Bucket

KINDS = {
    "rows-disk": STEPS[:4],
    "rows-objects": ("committed", "copied", "put"),
    "totals-disk": ("written", "committed"),
    "totals-objects": ("written", "committed", "put"),
}
"""The steps of each kind of stream at which one of its tasks is killed."""

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    # A core for each task that is held, and two for the others.
    cores = {"spark.master": "local-cluster[2,7,1024]", "spark.default.parallelism": "4"}
    caches = {"KSTORE_SHARD_CACHE": "cache"}  # a relative path, so each executor has its own
    with local_cluster(tmp_path_factory.mktemp("cluster"), cores, caches) as started:
        yield started


def test_a_store_is_written_read_and_joined(cluster: LocalCluster, root: Path) -> None:
    log = make_log(31, 200, SHARDS)
    assert cluster.call(cluster_work.write, str(root), log[:100]) == 1
    assert cluster.call(cluster_work.write, str(root), log) == 2
    model = Model(SHARDS, RETENTION).put(log)
    assert cluster.call(cluster_work.read, str(root)) == visible(model)
    rows = [(record.key, record.timestamp + 5) for record in log]
    expected = []
    for key, time in rows:
        version = model.as_of(key, time)
        expected.append((key, time, version and version.value))
    assert cluster.call(cluster_work.join, str(root), rows) == sorted(expected)


@pytest.mark.parametrize("who", ["worker", "executor"])
def test_who_is_killed_after_an_upload_is_replaced(
    cluster: LocalCluster, root: Path, who: str
) -> None:
    """Its attempt stays without a reference and is removed; every record is there once."""
    log = make_log(32, 150, SHARDS)
    assert cluster.call(cluster_work.write_lethally, str(root), log, who) == 1
    assert cluster.call(cluster_work.read, str(root)) == visible(Model(SHARDS, RETENTION).put(log))
    manifest = Root.at(root).load()
    assert manifest.records == len(log)
    uploaded = {path.name for path in (root / "attempts" / manifest.job).iterdir()}
    assert uploaded == {str(shard.path).split("/")[2] for shard in manifest.shards}


def test_a_task_that_always_fails_leaves_nothing(cluster: LocalCluster, root: Path) -> None:
    with pytest.raises(Raised, match="the disk is gone"):
        cluster.call(cluster_work.write_lethally, str(root), make_log(33, 50, SHARDS), "for ever")
    assert nothing_written(root)


def test_the_cluster_is_looked_at(cluster: LocalCluster, root: Path) -> None:
    cluster.call(cluster_work.wait_for_executors, 2)
    workers = cluster.call(cluster_work.look, str(root))
    assert [(worker.host, worker.tasks) for worker in workers] == [(socket.gethostname(), 2)] * 2
    assert {worker.interpreter for worker in workers} == {sys.executable}
    assert all("rocksdb" in worker.engines for worker in workers)
    assert nothing_written(root)


def test_streams_have_each_epoch_once_whoever_is_killed(
    cluster: LocalCluster, tmp_path: Path, bucket: Bucket
) -> None:
    """An executor after each step of the first epoch, a worker after each of the second.

    On an object store, the executors have no directory of a state in common.
    """
    names = [name for kind, steps in KINDS.items() for name in named(kind, steps)]
    plan_streams(tmp_path, {n: [(step_of(n), EXECUTOR), (step_of(n), WORKER)] for n in names})
    cluster.call(run_streams, str(tmp_path), names, f"s3://{bucket.name}", bucket.options)
    check_streams(tmp_path, names, bucket)


def test_a_killed_driver_leaves_the_version_before(cluster: LocalCluster, root: Path) -> None:
    """The last test of this module: it ends the cluster."""
    log = make_log(34, 100, SHARDS)
    cluster.call(cluster_work.write, str(root), log[:50])
    first = Root.at(root).load()
    driver = str(cluster.process.pid)
    with pytest.raises(AssertionError, match="the driver is gone"):
        cluster.call(cluster_work.write_lethally, str(root), log, driver)
    cluster.wait_for_executors()
    assert Root.at(root).load() == first
    (left,) = {path.name for path in (root / "attempts").iterdir()} - {first.job}
    gone = vacuum(root, grace_s=0)
    assert gone.files
    assert all(left in file for file in gone.files)
    assert {path.name for path in (root / "attempts").iterdir()} == {first.job}
