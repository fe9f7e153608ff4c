"""Executors whose Python has nothing of kstore run it out of an archive that Spark sends them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.support import cluster_work
from tests.spark.support.interpreters import interpreter
from tests.spark.support.local_cluster import Raised, local_cluster
from tests.spark.support.logs import RETENTION, SHARDS, Model, make_log, visible
from tests.spark.support.packed import packed_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def run_workers_by(spark: SparkSession, python: str) -> None:
    """From now on; what PYSPARK_PYTHON does before a session starts."""
    spark.sparkContext.pythonExec = python


def test_an_environment_is_shipped(tmp_path: Path, root: Path) -> None:
    log = make_log(35, 100, SHARDS)
    archive = packed_environment(tmp_path)
    bare = interpreter(tmp_path / "bare")
    settings = {
        "spark.archives": f"{archive}#environment",
        "spark.executorEnv.PYTHONPATH": str(tmp_path / "nothing"),
    }
    # A data source is run by the driver's Python, by this name on the executors, too.
    pythons = {"PYSPARK_PYTHON": str(bare), "PYSPARK_DRIVER_PYTHON": "./environment/bin/python"}
    with local_cluster(tmp_path, settings, pythons) as cluster:
        with pytest.raises(Raised, match="kstore is not installed") as caught:
            cluster.call(cluster_work.look)
        assert caught.value.kind == "EngineUnavailableError"
        assert str(bare) in str(caught.value)

        cluster.call(run_workers_by, "./environment/bin/python")
        workers = cluster.call(cluster_work.look, str(root))
        assert len(workers) == 2
        for worker in workers:
            assert worker.interpreter.endswith("/environment/bin/python")
            assert str(tmp_path / "spark" / "work") in worker.interpreter
            assert "rocksdb" in worker.engines
        cluster.call(cluster_work.write, str(root), log)
        wanted = visible(Model(SHARDS, RETENTION).put(log))
        assert cluster.call(cluster_work.read, str(root)) == wanted
        assert cluster.call(cluster_work.read_source, str(root)) == wanted
