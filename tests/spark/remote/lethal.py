"""Epochs of a shard in a process that is killed at a request to its storage."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import signal
import time
from pathlib import Path

from kstore_core.spark.map_state.tasks import ShardTask
from tests.spark.map_state.task_runs import ROWS, amounts, epoch
from tests.spark.remote.machines import moved
from tests.spark.remote.requests import calls_of_hdfs, watched
from tests.spark.stream.shard_epochs import Servant
from tests.spark.support.object_store import Bucket


def killed_apply(
    servant: Servant,
    task: ShardTask,
    number: int,
    bucket: Bucket,
    step: int,
    scratch: Path,
    *,
    reaches: bool,
) -> None:
    """Apply an epoch in a process that is killed at a request.

    If ``reaches`` is true, the request still reaches the server. Each call of HDFS is the last one
    before the next, so there it never does.
    """
    numbers, pid, cache = itertools.count(), scratch / "pid", os.environ["KSTORE_SHARD_CACHE"]

    def fate(method: str, path: str) -> int | None:
        if next(numbers) != step:
            return None
        kill(int(pid.read_text()))
        return None if reaches else 503

    with watched(bucket, fate, delay_s=0.02) as slow:
        last = step if bucket.scheme == "hdfs" else None
        there = dataclasses.replace(task.state.layout.storage, options=slow.options)
        ended = servant(apply_one, moved(task, there), number, cache, pid, last)
    assert ended == -signal.SIGKILL


def apply_one(task: ShardTask, number: int, cache: str, pid: Path, last: int | None) -> None:
    """Apply an epoch in this process, which ends itself before a call of HDFS."""
    os.environ["KSTORE_SHARD_CACHE"] = cache
    pid.write_text(str(os.getpid()))
    numbers = itertools.count()

    def fate(name: str, place: str) -> None:
        if next(numbers) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    with calls_of_hdfs(fate):
        task.apply(0, epoch(number), amounts(ROWS))


def kill(process: int) -> None:
    """Kill a process, and wait until its parent has noticed it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        while True:
            os.kill(process, 0)
            time.sleep(0.001)
