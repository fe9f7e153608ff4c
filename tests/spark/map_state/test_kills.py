"""A process that is killed in the middle of an epoch, and what the next attempt makes of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.map_state.task_runs import ROWS, amounts, epoch, given_by, make_task

CHILD = """
import os, signal, sys
from pathlib import Path
from kstore_core.spark.map_state import tasks as map_state_task
from tests.spark.map_state.task_runs import amounts, epoch, make_task, running_total
from tests.spark.map_state.task_runs import ROWS

root, engine, moment = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
commit = map_state_task.commit_epoch

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def running(key, rows, store):
    yield from running_total(key, rows, store)
    if moment == "function" and key == "b":
        die()

def committing(*args, **given):
    if moment == "before":
        die()
    commit(*args, **given)
    die()

running.__qualname__ = running_total.__qualname__
make_task(root, engine=engine).apply(0, epoch(0), amounts([("a", 10)]))
map_state_task.commit_epoch = committing
make_task(root, running, engine=engine).apply(0, epoch(1), amounts(ROWS))
"""


@pytest.mark.parametrize(
    ("moment", "engine"),
    [("function", "lmdb"), ("before", "lmdb"), ("after", "lmdb"), ("after", "rocksdb")],
)
def test_an_epoch_that_was_killed_counts_once(root: Path, moment: str, engine: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(root), engine, moment], check=False, timeout=300
    )
    assert child.returncode == -signal.SIGKILL
    task = make_task(root, engine=engine)
    expected = [("a", 11), ("a", 14), ("b", 2)]
    for _ in range(2):
        assert given_by(task.apply(0, epoch(1), amounts(ROWS))) == expected
    assert given_by(task.apply(0, epoch(2), amounts([("a", 0)]))) == [("a", 14)]
