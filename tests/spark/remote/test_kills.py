"""Tasks that are killed, and requests that fail, at every step of an epoch on an object store."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kstore_core.errors import StateError, StorageUnavailableError
from kstore_core.spark.map_state.tasks import ShardTask
from kstore_core.spark.root.storage.base import Storage
from kstore_core.spark.root.storage.local import LocalFiles
from tests.spark.map_state.task_runs import ROWS, Model, make_task
from tests.spark.remote.lethal import killed_apply
from tests.spark.remote.machines import Machine, apply, commits_of, moved
from tests.spark.remote.requests import HOWS, Request, drawn, watched
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


class Case(NamedTuple):
    """A state before an epoch: its ``compact_every``, its epochs, and the machine of the epoch."""

    every: int
    epochs: int
    where: str


CASES = {
    "changes": Case(100, 1, "first"),
    "upload": Case(1, 1, "first"),  # of a checkpoint
    "download": Case(1, 2, "new"),  # of this checkpoint
}
EACH_CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.fixture(scope="module")
def servant() -> Iterator[Servant]:
    """A process whose forks are killed."""
    servant = Servant()
    yield servant
    servant.end()


def started(storage: Storage, machine: Machine, case: Case) -> tuple[ShardTask, Model]:
    """A state before its next epoch."""
    machine("first")
    model, task = Model(), make_task(storage, compact_every=case.every)
    for number in range(case.epochs):
        assert apply(task, number, ROWS) == model.put(ROWS)
    machine(case.where)
    return task, model


def steps_of(bucket: Bucket, machine: Machine, case: Case) -> dict[int, str]:
    """All requests of an epoch to S3, or some requests to another storage: number and method.

    Of an epoch with a checkpoint, only the requests that make or read it differ from the others.
    """
    seen: list[Request] = []
    task, _ = started(bucket.root("watched").storage, machine, case)
    with watched(bucket, lambda *request: seen.append(request)) as same:
        apply(moved(task, same.root("watched").storage), case.epochs, ROWS)
    assert len(seen) >= 6
    some = [*range(len(seen))] if bucket.scheme == "s3" else drawn(seen)
    if case.where == "new" or (case.every == 1 and bucket.scheme != "s3"):
        some = [step for step in some if "checkpoints" in seen[step][1]]
    assert some
    return {step: seen[step][0] for step in some}


@EACH_CASE
def test_a_task_that_is_killed_at_a_request_counts_once(
    store: Bucket, machine: Machine, servant: Servant, tmp_path: Path, case: Case
) -> None:
    """The server is slow, and may have done what the dead task asked for."""
    epoch = case.epochs
    for number, (step, method) in enumerate(steps_of(store, machine, case).items()):
        for reaches in (False, True) if store.scheme == "s3" or method == "PUT" else (False,):
            storage = store.root(f"{step}/{reaches}").storage
            task, model = started(storage, machine, case)
            expected = model.put(ROWS)
            killed_apply(servant, task, epoch, store, step, tmp_path, reaches=reaches)
            if number % 2:
                machine("other")
            assert apply(task, epoch, ROWS) == expected
            assert apply(task, epoch + 1, [("c", 2)]) == model.put([("c", 2)])
            assert commits_of(storage).numbers() == [*range(1, epoch + 3)]


@dataclass
class Rival:
    """Another attempt on another machine, which does epochs before a request.

    Attributes
    ----------
    epochs : range
    before : list of int
        The commits before these epochs.
    outputs : list
        The output of each of these epochs.
    """

    machine: Machine
    task: ShardTask
    epochs: range
    step: int
    numbers: Iterator[int] = field(default_factory=itertools.count)
    before: list[int] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)

    def __call__(self, method: str, path: str) -> None:
        if next(self.numbers) == self.step:
            self.before = commits_of(self.task.state.layout.storage).numbers()
            here = os.environ["KSTORE_SHARD_CACHE"]
            self.machine("other")
            self.outputs = [apply(self.task, epoch, ROWS) for epoch in self.epochs]
            os.environ["KSTORE_SHARD_CACHE"] = here


@EACH_CASE
@pytest.mark.parametrize("epochs", [1, 2])
def test_before_a_late_request_another_attempt_counts(
    store: Bucket, machine: Machine, case: Case, epochs: int
) -> None:
    """Before a request of a task, another attempt does the epoch, and maybe the next one.

    On HDFS, the file that the task writes may be open then.
    """
    first = case.epochs
    for number, step in enumerate(steps_of(store, machine, case)):
        storage = store.root(str(step)).storage
        task, model = started(storage, machine, case)
        expected = [model.put(ROWS) for _ in range(epochs)]
        rival = Rival(machine, task, range(first, first + epochs), step)
        with watched(store, rival) as same:
            outcome: Any
            try:
                outcome = apply(moved(task, same.root(str(step)).storage), first, ROWS)
            except StateError as error:
                outcome = str(error)
        if epochs == 1 or len(rival.before) > first:  # the task committed before the request
            assert outcome == expected[0]
        else:
            assert f"contains epoch {first + 1} of the query" in outcome
        assert rival.outputs == expected
        if number % 2:
            machine("other")
        assert apply(task, first + 2, ROWS) == model.put(ROWS)
        assert commits_of(storage).numbers() == [*range(1, first + epochs + 2)]


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
