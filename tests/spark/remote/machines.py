"""Machines with caches of their own, and the epochs of a shard that they apply."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from kstore_core.spark.map_state.tasks import ShardTask
from kstore_core.spark.root.commits import ShardCommits
from kstore_core.spark.root.storage.base import Storage
from tests.spark.map_state.task_runs import amounts, epoch, given_by

Machine = Callable[[str], None]
Places = Callable[[str], Storage]


def apply(task: ShardTask, number: int, rows: Sequence[tuple[str, int]]) -> list[tuple[Any, ...]]:
    """What the task gives of an epoch of the first shard."""
    return given_by(task.apply(0, epoch(number), amounts(rows)))


def moved(task: ShardTask, storage: Any) -> ShardTask:
    """The same task, which reaches its state in another way."""
    layout = dataclasses.replace(task.state.layout, storage=storage)
    return dataclasses.replace(task, state=dataclasses.replace(task.state, layout=layout))


def commits_of(storage: Storage, shard: int = 0) -> ShardCommits:
    """The commits of a shard of the tests' state."""
    return ShardCommits(storage, f"live/totals/0_{shard}")
