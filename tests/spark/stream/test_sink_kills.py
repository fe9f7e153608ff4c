"""The sink, exactly once: a task, Spark's commit process and the driver are killed at its steps."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from pyspark.errors import StreamingQueryException

from kstore_core.spark.root.inbox import INBOX
from kstore_core.spark.root.root import Root
from kstore_core.spark.stream.sink import StreamSink
from tests.spark.stream.shard_epochs import STEPS, KillAt, Servant, Streamed, shards_are
from tests.spark.stream.sink_work import received, sink, sinks
from tests.spark.stream.work import DRIVER, WORKER
from tests.spark.support.held_streams import SLICES, kills_of, plan
from tests.spark.support.local_cluster import local_cluster
from tests.spark.support.logs import SHARDS, SPEC, Record, make_log
from tests.spark.support.streams import slices_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

OF_COMMIT = (*STEPS[:4], "put", *STEPS[4:], "cleared")
OF_DRIVER = ("opened", "committed", "cleared")
"""Before the shards' commits, before the version, and before Spark's own commit log."""


def check_once(root: Root, slices: Sequence[list[Record]]) -> None:
    """Each epoch is in the store once and has a version, and nothing is left of its way there."""
    streamed = Streamed(root, SPEC, "lmdb")
    assert shards_are(streamed, [record for records in slices for record in records])
    assert root.versions() == [*range(1, len(slices) + 1)]
    assert root.storage.files(INBOX) == []


def killed_task(root: Root, epoch: int, records: list[Record]) -> None:
    """Write the rows of a task to the inbox, and end the process before Spark hears of it."""
    received(root, epoch, [records])
    os.kill(os.getpid(), signal.SIGKILL)


def killed_commit(root: Root, messages: list[Any], epoch: int, name: str) -> None:
    """Commit an epoch in this process, up to a step at which it is killed."""
    kill = KillAt(name)
    with mock.patch.object(StreamSink, "_step", lambda self, told, shard: kill(told, shard)):
        sink(root, engine="lmdb").commit(messages, epoch)


@pytest.mark.parametrize("place", ["disk", "objects"])
def test_a_commit_that_was_killed_is_finished_by_the_next(
    request: pytest.FixtureRequest, tmp_path: Path, place: str
) -> None:
    if place == "disk":
        root = Root.at(tmp_path / "root")
    else:
        root = request.getfixturevalue("bucket").root()
    servant = Servant()
    slices = slices_of(make_log(14, 20 * len(OF_COMMIT), SHARDS), len(OF_COMMIT))
    for epoch, (name, records) in enumerate(zip(OF_COMMIT, slices, strict=True)):
        tasks = slices_of(records, 2)
        if not epoch % 4:
            assert servant(killed_task, root, epoch, tasks[0]) == -9
        killed = received(root, epoch, tasks)
        assert servant(killed_commit, root, killed, epoch, name) == -9
        shown = epoch + (name in ("published", "cleared"))  # no half of an epoch
        assert root.versions() == [*range(1, shown + 1)]
        sink(root, engine="lmdb").commit(received(root, epoch, tasks), epoch)
    servant.end()
    check_once(root, slices)


@pytest.mark.slow
def test_each_epoch_is_there_once_whoever_is_killed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A stream is held at each step when the driver is killed; then, Spark's commit process is."""
    scratch = tmp_path_factory.mktemp("k")  # a short name, as sockets need it
    kills = {step: [(step, DRIVER)] for step in OF_DRIVER}
    kills[OF_DRIVER[-1]].append(("published", WORKER))
    plan(scratch, kills)
    (scratch / "driver").mkdir()
    with local_cluster(scratch / "driver", {"spark.master": "local[3]"}) as cluster:
        with pytest.raises(AssertionError, match="the driver is gone"):
            cluster.call(sinks, str(scratch), OF_DRIVER)
        cluster.process.wait()
        cluster.wait_for_executors()
    with pytest.raises(StreamingQueryException, match="Python worker"):
        sinks(spark, str(scratch), OF_DRIVER)
    sinks(spark, str(scratch), OF_DRIVER[-1:])
    for step in OF_DRIVER:
        assert kills_of(scratch / step).left() == []
        check_once(Root.at(scratch / step / "root"), SLICES)
