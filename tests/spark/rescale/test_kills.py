"""A driver that is killed in a rescale leaves the earlier shards, or all of the new ones.

Of three steps, a driver is killed at one. At the others, the root is copied: a kill leaves the same
files, and a driver takes long to start.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kstore_core.codec import partition
from kstore_core.spark import rescale, vacuum
from kstore_core.spark.root.root import Root
from tests.spark.map_state.task_runs import amounts, epoch, make_task
from tests.spark.rescale.live_states import totals
from tests.spark.rescale.runs import FOR_EVER, SHAPES, model, random_log, read, write
from tests.spark.rescale.work import LIVE_STEPS, STEPS, stopped_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

KILLED = ("before the manifest", "before the switch")
"""The steps at which a driver is killed."""


def killed(root: Path, step: str) -> None:
    """Leave the root as a driver that rescales it to 3 shards leaves it if it dies at a step."""
    if step in KILLED:
        kill_driver(root, step)
        return
    copy = root.with_name(f"{root.name}-copy")
    with stopped_at(step, lambda: shutil.copytree(root, copy)):
        rescale(root, partitions=3)
    shutil.rmtree(root)
    copy.rename(root)


def kill_driver(root: Path, step: str) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tests.spark.rescale.work", str(root), step],
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_driver_leaves_a_whole_version(spark: SparkSession, root: Path, step: str) -> None:
    spec = SHAPES["versioned_headers"](FOR_EVER)
    at, log = Root.at(root), random_log(SHAPES["headers"](FOR_EVER), 2, 120, 2)
    write(at, spec, log, 2, "rocksdb")
    killed(root, step)
    published = step == "after the manifest"
    assert at.load().partitions == (3 if published else 2)
    assert read(at, spec) == model(spec, log)
    vacuum(root, grace_s=0)
    assert read(at, spec) == model(spec, log)
    rescale(root, partitions=5)
    assert read(at, spec) == model(spec, log)
    assert at.versions() == ([1, 2, 3] if published else [1, 2])


@pytest.mark.parametrize("step", LIVE_STEPS)
def test_a_killed_driver_leaves_a_whole_state(
    spark: SparkSession, tmp_path: Path, step: str
) -> None:
    task = make_task(tmp_path)
    keys = [f"k{number}" for number in range(30)]
    for shard in range(4):
        rows = [(key, 7) for key in keys if partition(key.encode(), 4) == shard]
        task.apply(shard, epoch(1), amounts(rows))
    killed(tmp_path, step)
    assert totals(tmp_path) == dict.fromkeys(keys, 7)
    done = rescale(tmp_path, partitions=2)
    assert (done.before, done.rows) == (3 if step == "after the switch" else 4, 30)
    assert totals(tmp_path) == dict.fromkeys(keys, 7)
    assert not list(task.state.layout.path.glob(".rescaling-*"))
