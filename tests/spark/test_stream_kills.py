"""Exactly once: worker, executor and driver are killed after every step of an epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kstore_core.spark.roots import Root
from tests.spark.local_cluster import local_cluster
from tests.spark.logs import SHARDS, SPEC, Record, make_log
from tests.spark.shard_epochs import Streamed
from tests.spark.stream_work import DRIVER, EXECUTOR, WORKER, Kills, shown, stream
from tests.spark.streams import add_epochs, slices_of
from tests.spark.test_streaming_shards import STEPS, shards_are

if TYPE_CHECKING:
    from collections.abc import Sequence

OF_TASKS = STEPS[:4]
OF_DRIVER = (*STEPS[1:], "emitted")

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def check_once(scratch: Path, slices: Sequence[list[Record]]) -> None:
    """Each epoch is in the store once, has a version, and was emitted the same every time."""
    streamed = Streamed(scratch / "root", SPEC)
    log = [record for records in slices for record in records]
    assert shards_are(streamed, log, scratch / "restored")
    root = Root.at(streamed.path)
    assert root.versions() == [*range(1, len(slices) + 1)]
    whole = Streamed(scratch / "whole", SPEC)
    wanted = {n: shown(whole.epoch(n, records)) for n, records in enumerate(slices)}
    emitted = [json.loads(line) for line in (scratch / "emitted").read_text().splitlines()]
    assert {epoch for epoch, _ in emitted} == wanted.keys()
    for epoch, rows in emitted:
        assert rows == wanted[epoch]


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with a short name, as sockets need it."""
    return tmp_path_factory.mktemp("k")


def test_workers_and_executors_are_killed_after_every_step(scratch: Path) -> None:
    kills = [(step, victim) for victim in (WORKER, EXECUTOR) for step in OF_TASKS]
    slices = slices_of(make_log(11, 30 * len(kills), SHARDS), len(kills))
    add_epochs(scratch / "in", slices)
    planned = Kills(str(scratch / "kills"))
    planned.plan(kills)
    (scratch / "cluster").mkdir()
    with local_cluster(scratch / "cluster") as cluster:
        cluster.call(stream, str(scratch))
    assert planned.left() == []
    check_once(scratch, slices)


def test_the_driver_is_killed_after_every_step(scratch: Path) -> None:
    slices = slices_of(make_log(12, 120, SHARDS), 3)  # one is done again after each kill
    add_epochs(scratch / "in", slices)
    planned = Kills(str(scratch / "kills"))
    planned.plan((step, DRIVER) for step in OF_DRIVER)
    for number in range(len(OF_DRIVER) + 1):
        home = scratch / f"driver-{number}"
        home.mkdir()
        with local_cluster(home, {"spark.master": "local[2]"}) as cluster:
            if number == len(OF_DRIVER):
                cluster.call(stream, str(scratch))
                break
            with pytest.raises(AssertionError, match="the driver is gone"):
                cluster.call(stream, str(scratch))
            assert len(planned.left()) == len(OF_DRIVER) - number - 1
            cluster.process.wait()
            cluster.wait_for_executors()
    check_once(scratch, slices)
