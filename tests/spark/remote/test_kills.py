"""Tasks that are killed, and requests that fail, at every step of an epoch on an object store."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstore_core.errors import StateError
from kstore_core.spark.root.storage.local import LocalFiles
from tests.spark.map_state.task_runs import ROWS, Model, make_task
from tests.spark.remote.machines import Machine, apply, commits_of
from tests.spark.support.faults import FaultyStorage, Killed
from tests.spark.support.object_store import Bucket
from tests.spark.support.web import Proxy
from tests.support.places import ROOT

HOWS = ("fails", "loses", "dies", "dies after")


@pytest.mark.parametrize("compact_every", [1, 100], ids=["checkpoints", "changes"])
@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
def test_whatever_goes_wrong_an_epoch_counts_once(
    tmp_path: Path, machine: Machine, engine: str, compact_every: int
) -> None:
    """Each request of an epoch, once without an effect and once without an answer.

    Then Spark runs the epoch again, on the same machine or on another one.
    """
    steps = itertools.count()
    for step in steps:
        done = 0
        for how, second in itertools.product(HOWS, ("first", "other")):
            place = tmp_path / f"{step}-{how}-{second}"
            machine("first")
            model, files = Model(), LocalFiles(place)
            task = make_task(files, engine=engine, compact_every=compact_every)
            assert apply(task, 0, ROWS) == model.put(ROWS)
            faulty = FaultyStorage(files, step, how)
            layout = dataclasses.replace(task.state.layout, storage=faulty)
            broken = dataclasses.replace(task, state=dataclasses.replace(task.state, layout=layout))
            expected = model.put([("b", 5), ("c", 1)])
            with contextlib.suppress(OSError, StateError, Killed):
                assert apply(broken, 1, [("b", 5), ("c", 1)]) == expected
            done += len(faulty.calls) <= step
            machine(second)
            assert apply(task, 1, [("b", 5), ("c", 1)]) == expected
            assert apply(task, 2, [("c", 2)]) == model.put([("c", 2)])
            assert commits_of(files).numbers() == [1, 2, 3]
        if done:
            assert done == 8
            assert step >= 6
            return


CHILD = """
import json, sys
from tests.spark.map_state.task_runs import ROWS, amounts, epoch, make_task
from tests.spark.support.object_store import Bucket

bucket, prefix, every = Bucket(*json.loads(sys.argv[1])), *sys.argv[2:]
task = make_task(bucket.root(prefix).storage, compact_every=int(every))
print("ready", flush=True)
input()
task.apply(0, epoch(1), amounts(ROWS))
print("done", flush=True)
"""


@contextlib.contextmanager
def proxied(bucket: Bucket, proxy: Proxy) -> Iterator[Bucket]:
    """The bucket as it is reached through a proxy."""
    with proxy.before(bucket.options["endpoint"]) as address:
        yield dataclasses.replace(bucket, options={**bucket.options, "endpoint": address})


def killed(bucket: Bucket, arguments: list[str], step: int, *, reaches: bool) -> bool:
    """Run epoch 1 in a process that is killed at a request; return False if there are fewer.

    If ``reaches`` is true, the request still reaches the server.
    """
    steps, proxy = itertools.count(), Proxy(delay_s=0.02)
    with proxied(bucket, proxy) as slow:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps(dataclasses.astuple(slow)), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

        def fate(method: str, path: str) -> int | None:
            if next(steps) != step:
                return None
            child.kill()
            child.wait()
            return None if reaches else 503

        with child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            proxy.fate = fate
            out, _ = child.communicate("go\n", timeout=300)
    assert child.returncode in (0, -signal.SIGKILL)
    assert ("done" in out) == (child.returncode == 0)
    return child.returncode != 0


@pytest.mark.parametrize("every", [100, 1], ids=["changes", "checkpoints"])
def test_a_task_that_is_killed_at_a_request_counts_once(
    bucket: Bucket, machine: Machine, every: int
) -> None:
    """The server is slow, and may have done what the dead task asked for."""
    done = 0
    for step in itertools.count():
        for reaches in (False, True):
            machine("first")
            model, prefix = Model(), f"{step}/{reaches}"
            storage = bucket.root(prefix).storage
            task = make_task(storage, compact_every=every)
            assert apply(task, 0, ROWS) == model.put(ROWS)
            expected = model.put(ROWS)
            done += not killed(bucket, [prefix, str(every)], step, reaches=reaches)
            machine(["other", "first"][step % 2])
            assert apply(task, 1, ROWS) == expected
            assert apply(task, 2, [("c", 2)]) == model.put([("c", 2)])
            assert commits_of(storage).numbers() == [1, 2, 3]
        if done:
            assert done == 2
            assert step >= 6
            return


def test_a_server_that_loses_every_first_answer_is_no_harm(
    bucket: Bucket, machine: Machine
) -> None:
    seen: set[tuple[str, str]] = set()

    def fate(method: str, path: str) -> str | None:
        if method != "PUT" or (method, path) in seen:
            return None
        seen.add((method, path))
        return "lost"

    with proxied(bucket, Proxy(fate=fate)) as losing:
        model, task = Model(), make_task(losing.root().storage, compact_every=2)
        for number in range(5):
            machine("ab"[number // 2 % 2])
            assert apply(task, number, ROWS) == model.put(ROWS)
    assert seen
    assert commits_of(bucket.root().storage).numbers() == [1, 2, 3, 4, 5]
