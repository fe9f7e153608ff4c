"""Shards of sub-topologies on object stores and HDFS, whose requests fail."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state
from kstore_core.errors import KStoreError
from kstore_core.spark import fetch_tasks, vacuum
from tests.spark.remote.requests import Request, drawn, watched
from tests.spark.subtopologies.task_runs import FIRST, TOTALS, epoch, make_task, rows, texts
from tests.spark.support.object_store import Bucket


@pytest.fixture(params=["bucket", pytest.param("hdfs_bucket", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest) -> Bucket:
    """A bucket or a directory; tests/spark/remote has the requests of every service."""
    made: Bucket = request.getfixturevalue(request.param)
    return made


def moved(task: Any, bucket: Bucket) -> Any:
    """The task, whose requests go to another address of the bucket."""
    storage = dataclasses.replace(task.state.layout.storage, options=bucket.options)
    layout = dataclasses.replace(task.state.layout, storage=storage)
    return dataclasses.replace(task, state=dataclasses.replace(task.state, layout=layout))


def test_a_micro_batch_counts_once_whatever_a_request_meets(
    store: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requests: list[Request] = []
    expected = [("out", "a", "5", 10), ("out", "b", "4", 11), ("out", "a", "8", 12)]

    def run(name: str, step: int | None, fate: str | int) -> None:
        number = 0

        def fates(method: str, path: str) -> str | int | None:
            nonlocal number
            number += 1
            if step is None:
                requests.append((method, path))
            return fate if number - 1 == step else None

        monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path / name))
        task = make_task(store.address(name), storage_options=store.options)  # type: ignore[arg-type]
        task.apply(0, epoch(0), rows(FIRST))
        with watched(store, fates) as slow, contextlib.suppress(KStoreError, OSError):
            assert texts(moved(task, slow).apply(0, epoch(1), rows(FIRST, 3))) == expected
        monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path / f"{name}-other"))
        for _ in range(2):
            assert texts(task.apply(0, epoch(1), rows(FIRST, 3))) == expected

    run("whole", None, "")
    assert len(requests) > 3
    for step in drawn(requests):
        run(f"fails-{step}", step, 503)
        run(f"lost-{step}", step, "lost")
    place, options = store.address("whole"), store.options
    (path,) = fetch_tasks(place, tmp_path / "copy", storage_options=options)
    with open_state(path, read_only=True) as state:
        assert [each.value for _, each in state.open(TOTALS).all()] == [8, 4]
    assert vacuum(place, grace_s=0, storage_options=options).files
