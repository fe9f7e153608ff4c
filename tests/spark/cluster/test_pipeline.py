"""The pipeline on executors that share no directory, with roots on object stores and HDFS."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core.spark.root.root import Root
from tests.spark.cluster import machines
from tests.spark.cluster.pipeline import LOG, PARTITIONS, run_pipeline
from tests.spark.support.local_cluster import LocalCluster, Raised, local_cluster
from tests.spark.support.logs import RETENTION, Model, visible
from tests.spark.support.object_store import ACCOUNT, ACCOUNT_KEY, Bucket, google_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, s3_server: str, google_server: str, azure_server: str
) -> Iterator[LocalCluster]:
    """A cluster whose processes have the credentials of all services in their environment."""
    scratch = tmp_path_factory.mktemp("cluster")
    environment = {
        **machines.machine_environment(scratch, tmp_path_factory.getbasetemp()),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "secret-test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": s3_server,
        "AWS_ALLOW_HTTP": "true",
        "GOOGLE_SERVICE_ACCOUNT_KEY": google_key(google_server),
        "GOOGLE_ALLOW_HTTP": "true",
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY,
        "AZURE_ENDPOINT": azure_server,
        "AZURE_ALLOW_HTTP": "true",
    }
    with local_cluster(scratch, machines.machine_settings(scratch), environment) as started:
        yield started


@pytest.fixture(scope="module")
def wanted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The contents of a run in one process, with a root on the disk."""
    place = tmp_path_factory.mktemp("local")
    return run_pipeline(spark, str(place / "root"), str(place))


def test_the_processes_share_no_directory(cluster: LocalCluster, tmp_path: Path) -> None:
    driver, *executors = cluster.call(machines.look)
    assert len({sight.namespace for sight in (driver, *executors)}) == 3
    for one, other in itertools.combinations((driver, *executors), 2):
        assert one.writable
        assert one.writable.isdisjoint(other.writable)
    for sight in (driver, *executors):
        assert sight.written
        assert sight.visible == ()
    with pytest.raises(Raised, match=r"StateError: the root .* cannot be used on all machines"):
        cluster.call(run_pipeline, str(tmp_path / "root"), str(tmp_path))


def test_a_local_run_has_the_contents_of_the_model(wanted: dict[str, Any]) -> None:
    model = Model(PARTITIONS, RETENTION).put(LOG)
    assert wanted["batch"] == wanted["streamed"] == visible(model)
    assert wanted["half"] == visible(Model(PARTITIONS, RETENTION).put(LOG[: len(LOG) // 2]))
    assert wanted["readme"][0] == [1.201]
    assert [epoch for epoch, _ in wanted["emitted"]] == [0, 1]
    assert [epoch for epoch, _ in wanted["counted"]] == [0, 1]
    assert wanted["engines"]


@pytest.mark.parametrize("store", ["bucket", "google_bucket", "azure_bucket", "hdfs_bucket"])
def test_the_pipeline_has_the_contents_of_a_local_run(
    cluster: LocalCluster,
    wanted: dict[str, Any],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    store: str,
) -> None:
    bucket: Bucket = request.getfixturevalue(store)
    root = bucket.address("pipeline")
    found = cluster.call(run_pipeline, root, str(tmp_path))
    assert found.keys() == wanted.keys()
    for step, contents in wanted.items():
        assert found[step] == contents, step
    assert Root.at(f"{root}/batch", bucket.options).versions() == [2]
