"""SIGKILL in the middle of a rescale: there is no target, and the next run makes it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kstore_core import stores
from kstore_core.maintenance.rescale import rescale_tasks
from tests.maintenance.rescale import applications
from tests.maintenance.rescale.applications import rows
from tests.spark.rescale.runs import random_log

SPECS = [stores.key_value("a"), stores.window("b", 10**9, 10)]


@pytest.mark.parametrize("step", ["move a", "move b", "publish a"])
def test_a_rescale_that_is_killed_leaves_no_target(step: str, tmp_path: Path) -> None:
    logs = [(spec, random_log(spec, 1, 60, 1)) for spec in SPECS]
    source = applications.write(tmp_path / "app", 2, "rocksdb", *logs)
    before = [rows(source, spec, "rocksdb") for spec in SPECS]
    target = tmp_path / "new"
    killed = subprocess.run(
        [sys.executable, "-m", "tests.maintenance.rescale.killing", source, target, step],
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists()
    assert (tmp_path / ".new.rescaling" / "0_2").is_dir()
    assert [rows(source, spec, "rocksdb") for spec in SPECS] == before
    done = rescale_tasks(source, target, partitions=3)
    assert [one.rows for one in done] == [len(each) for each in before]
    assert [rows(target, spec, "rocksdb") for spec in SPECS] == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app", "new"]
