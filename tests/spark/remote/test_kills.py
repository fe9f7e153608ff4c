"""Tasks that are killed, and requests that fail, at every step of an epoch on an object store."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kstore_core.errors import StateError, StorageUnavailableError
from kstore_core.spark.map_state.tasks import ShardTask
from kstore_core.spark.root.storage.local import LocalFiles
from tests.spark.map_state.task_runs import ROWS, Model, make_task
from tests.spark.remote.lethal import killed_apply
from tests.spark.remote.machines import Machine, apply, commits_of, moved
from tests.spark.remote.requests import HOWS, Request, chosen, watched
from tests.spark.stream.shard_epochs import Servant
from tests.spark.support.faults import FaultyStorage, Killed
from tests.spark.support.object_store import Bucket


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
            expected = model.put([("b", 5), ("c", 1)])
            with contextlib.suppress(OSError, StateError, Killed):
                assert apply(moved(task, faulty), 1, [("b", 5), ("c", 1)]) == expected
            done += len(faulty.calls) <= step
            machine(second)
            assert apply(task, 1, [("b", 5), ("c", 1)]) == expected
            assert apply(task, 2, [("c", 2)]) == model.put([("c", 2)])
            assert commits_of(files).numbers() == [1, 2, 3]
        if done:
            assert done == 8
            assert step >= 6
            return


EVERY = pytest.mark.parametrize("every", [100, 1], ids=["changes", "checkpoints"])


@pytest.fixture(scope="module")
def servant() -> Iterator[Servant]:
    """A process whose forks are killed."""
    servant = Servant()
    yield servant
    servant.end()


def steps_of(bucket: Bucket, every: int) -> list[int]:
    """The numbers of all requests of an epoch to S3, or of some requests to another storage."""
    seen: list[Request] = []
    task = make_task(bucket.root("watched").storage, compact_every=every)
    apply(task, 0, ROWS)
    with watched(bucket, lambda *request: seen.append(request)) as same:
        apply(moved(task, same.root("watched").storage), 1, ROWS)
    assert len(seen) >= 6
    return chosen(seen, every=bucket.scheme == "s3")


@EVERY
def test_a_task_that_is_killed_at_a_request_counts_once(
    store: Bucket, machine: Machine, servant: Servant, tmp_path: Path, every: int
) -> None:
    """The server is slow, and may have done what the dead task asked for."""
    fates = (False,) if store.scheme == "hdfs" else (False, True)
    for number, step in enumerate(steps_of(store, every)):
        for reaches in fates:
            machine("first")
            model, prefix = Model(), f"{step}/{reaches}"
            storage = store.root(prefix).storage
            task = make_task(storage, compact_every=every)
            assert apply(task, 0, ROWS) == model.put(ROWS)
            expected = model.put(ROWS)
            killed_apply(servant, task, store, step, tmp_path, reaches=reaches)
            machine(["other", "first"][number % 2])
            assert apply(task, 1, ROWS) == expected
            assert apply(task, 2, [("c", 2)]) == model.put([("c", 2)])
            assert commits_of(storage).numbers() == [1, 2, 3]


@dataclass
class Rival:
    """Another attempt on another machine, which does epochs from 1 on before a request.

    Attributes
    ----------
    before : list of int
        The commits before these epochs.
    outputs : list
        The output of each of these epochs.
    """

    machine: Machine
    task: ShardTask
    epochs: int
    step: int
    numbers: Iterator[int] = field(default_factory=itertools.count)
    before: list[int] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)

    def __call__(self, method: str, path: str) -> None:
        if next(self.numbers) == self.step:
            self.before = commits_of(self.task.state.layout.storage).numbers()
            self.machine("other")
            self.outputs = [apply(self.task, 1 + more, ROWS) for more in range(self.epochs)]
            self.machine("first")


@EVERY
@pytest.mark.parametrize("epochs", [1, 2])
def test_before_a_late_request_another_attempt_counts(
    store: Bucket, machine: Machine, every: int, epochs: int
) -> None:
    """Before a request of a task, another attempt does the epoch, and maybe the next one.

    On HDFS, the file that the task writes may be open then.
    """
    for number, step in enumerate(steps_of(store, every)):
        machine("first")
        model, storage = Model(), store.root(str(step)).storage
        task = make_task(storage, compact_every=every)
        assert apply(task, 0, ROWS) == model.put(ROWS)
        expected = [model.put(ROWS) for _ in range(epochs)]
        rival = Rival(machine, task, epochs, step)
        with watched(store, rival) as same:
            outcome: Any
            try:
                outcome = apply(moved(task, same.root(str(step)).storage), 1, ROWS)
            except StateError as error:
                outcome = str(error)
        if epochs == 1 or rival.before == [1, 2]:  # the task had committed before the request
            assert outcome == expected[0]
        else:
            assert "contains epoch 2 of the query" in outcome
        assert rival.outputs == expected
        machine(["first", "other"][number % 2])
        assert apply(task, 3, ROWS) == model.put(ROWS)
        assert commits_of(storage).numbers() == [*range(1, epochs + 3)]


def test_a_server_that_loses_every_first_answer_is_no_harm(store: Bucket, machine: Machine) -> None:
    """A client repeats its request, or else Spark repeats the epoch."""
    seen: set[Request] = set()

    def fate(method: str, path: str) -> str | None:
        request = method, re.sub("-[0-9a-f]{12,}", "", path)  # another attempt has another name
        if method not in ("PUT", "create", "close", "rename") or request in seen:
            return None
        seen.add(request)
        return "lost"

    model, task = Model(), make_task(store.root().storage, compact_every=2)
    with watched(store, fate) as losing:
        task = moved(task, losing.root().storage)
        for number in range(5):
            machine("ab"[number // 2 % 2])
            expected = model.put(ROWS)
            for tries in itertools.count(1):
                try:
                    assert apply(task, number, ROWS) == expected
                    break
                except StorageUnavailableError:
                    assert store.scheme == "hdfs"
                    assert tries < 20
    assert seen
    assert commits_of(store.root().storage).numbers() == [1, 2, 3, 4, 5]
