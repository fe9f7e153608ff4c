"""check_cluster: machines that lack something, and roots that they do not share."""

from __future__ import annotations

import socket
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kstore_core.errors import (
    EngineUnavailableError,
    StateError,
    UnknownEngineError,
    UnsupportedError,
)
from kstore_core.hints import install
from kstore_core.spark import check_cluster, write_store
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.engines import engine_on_worker
from tests.spark.support.interpreters import everything, interpreter, this_version, workers_run
from tests.spark.support.logs import SHARDS, SPEC, log_frame, make_log, nothing_written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOST = socket.gethostname()


def test_what_there_is_is_told(spark: SparkSession, root: Path) -> None:
    (worker,) = check_cluster(spark, root)
    assert worker.host == HOST
    assert worker.interpreter == sys.executable
    assert worker.python == this_version()
    assert worker.kstore == metadata.version("kstore")
    assert worker.pyarrow == metadata.version("pyarrow")
    assert {"lmdb", "memory", "rocksdb"} <= set(worker.engines)
    assert worker.scratch_free_bytes > 0
    assert worker.tasks == spark.sparkContext.defaultParallelism
    assert nothing_written(root)


def test_a_python_without_kstore_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """It cannot even import what would look, so the code is sent to it."""
    bare = interpreter(tmp_path / "bare", lacks=["kstore_core"])
    with (
        workers_run(spark, bare),
        pytest.raises(EngineUnavailableError, match="kstore is not installed") as caught,
    ):
        check_cluster(spark, tasks=1)
    text = str(caught.value)
    assert f"on {HOST} ({bare})" in text
    assert f"pyarrow is not installed; run {install('spark')}" in text
    assert "spark.archives" in text


def test_a_python_without_the_engine_is_named(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    """By the look around, and by a job that was started without one."""
    poor = interpreter(tmp_path / "poor", sees=everything(), lacks=["rocksdict"])
    with workers_run(spark, poor):
        with pytest.raises(EngineUnavailableError, match="no store can be written with 'rocksdb'"):
            check_cluster(spark, tasks=1)
        (worker,) = check_cluster(spark, tasks=1, engine="lmdb")
        assert "rocksdb" not in worker.engines
        with pytest.raises(EngineUnavailableError) as caught:
            write_store(log_frame(spark, make_log(41, 10, SHARDS)), root, SPEC, partitions=SHARDS)
    assert f"cannot be used on {HOST}" in str(caught.value)
    assert str(poor) in str(caught.value)
    assert install("rocksdb") in str(caught.value)
    assert nothing_written(root)


def test_an_engine_nobody_has_is_named_with_the_host() -> None:
    with pytest.raises(
        EngineUnavailableError, match=rf"'rocks' cannot be used on {HOST} \(process"
    ):
        engine_on_worker("rocks")


def test_what_no_cluster_can_use_is_refused_before_a_task_runs() -> None:
    with pytest.raises(UnsupportedError, match="in the process of its writer"):
        check_cluster(None, engine="memory")  # type: ignore[arg-type]
    with pytest.raises(UnknownEngineError, match="no engine named 'rocks'"):
        check_cluster(None, engine="rocks")  # type: ignore[arg-type]
    for tasks in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match=r"tasks=.* must be an int of 1 or more"):
            check_cluster(None, tasks=tasks)  # type: ignore[arg-type]


class Elsewhere(Root):
    """A root that is another directory on the machine that it is unpickled on."""

    def __reduce__(self) -> tuple[object, ...]:
        return Root.at, (f"{self}-of-another-machine",)


def test_a_root_of_one_machine_is_told(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classic mistake: a path that every machine has, each its own."""
    monkeypatch.setattr(Root, "at", Elsewhere.at)
    with pytest.raises(StateError, match="cannot be used on all machines") as caught:
        check_cluster(spark, root, tasks=2)
    assert f"on {HOST} ({sys.executable}): a task cannot see the driver's file" in str(caught.value)
    assert "or a root in an object store" in str(caught.value)
    assert nothing_written(root)
