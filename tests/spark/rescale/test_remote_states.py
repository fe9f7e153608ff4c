"""States of `map_state` on object stores that are rescaled between two runs of their query."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import open_state
from kstore_core.codec import partition
from kstore_core.errors import CommitConflictError, SpecError, StateError
from kstore_core.spark import rescale, vacuum
from kstore_core.spark.map_state.sharding import Sharding, newest_document
from kstore_core.spark.remote.layout import RemoteLayout
from kstore_core.spark.rescale import remote
from kstore_core.spark.root.storage.objects import ObjectStore
from tests.spark.map_state.task_runs import (
    TOTALS,
    amounts,
    epoch,
    given_by,
    make_task,
)
from tests.spark.rescale.live_states import AMOUNTS, Streamed, check_that_it_goes_on, run
from tests.spark.support.object_store import Bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def totals(bucket: Bucket) -> dict[str, int]:
    """The contents of all shards; each key is in the shard of its hash."""
    layout = RemoteLayout.of(bucket.root().storage, "totals")
    number = newest_document(layout)
    found = Sharding.of(layout, number)
    assert found is not None
    identity, sharding = found
    held = {}
    for shard in range(sharding.partitions):
        with (
            layout.checkout(identity, sharding.folder, shard, sharding.engine, 60, number) as live,
            open_state(live.path, engine=sharding.engine) as state,
        ):
            for key, total in state.open(TOTALS).all():
                assert partition(key.encode(), sharding.partitions) == shard
                held[key] = total
    return held


def rescaled(bucket: Bucket, partitions: int) -> Any:
    return rescale(bucket.address(), partitions=partitions, storage_options=bucket.options)


def filled(bucket: Bucket) -> Any:
    """A task of a state whose shards all have one epoch."""
    task = make_task(bucket.root().storage)
    for shard in range(4):
        task.apply(shard, epoch(1), amounts(of_shard(shard)))
    return task


def of_shard(shard: int) -> list[tuple[str, int]]:
    return [(key, n) for key, n in AMOUNTS if partition(key.encode(), 4) == shard]


@pytest.fixture(params=["bucket", "azure_bucket", "hdfs_bucket"])
def place(request: pytest.FixtureRequest) -> Bucket:
    """An empty directory on each kind of storage."""
    bucket: Bucket = request.getfixturevalue(request.param)
    return bucket


def test_runs_go_on_where_they_were(spark: SparkSession, place: Bucket) -> None:
    wanted: Counter[str] = Counter()
    steps = ((4, "lmdb"), (6, "lmdb"), (1, "lmdb"))
    for shards, engine in steps if place.scheme == "s3" else steps[:2]:
        if wanted:
            done = rescaled(place, shards)
            assert (done.store, done.partitions, done.version) == ("totals", shards, None)
            assert (done.rows, totals(place)) == (40, wanted)
        wanted.update(dict(AMOUNTS))
        options = {"storage_options": place.options, "engine": engine}
        assert run(spark, place.address(), AMOUNTS, **options) == wanted
    with pytest.raises(SpecError, match="already has"):
        rescaled(place, shards)


def test_a_stream_goes_on_with_its_checkpoint(
    spark: SparkSession, tmp_path: Path, bucket: Bucket
) -> None:
    def follow(message: str) -> None:
        words = message.partition("with: copy ")[2].partition(". Run the query")[0]
        before, _, after = words.partition(" to the new file ")
        storage = bucket.root().storage
        names = [place.removeprefix(f"{storage.name}/") for place in (before, after)]
        storage.put_new(names[1], storage.read(names[0]))

    streamed = Streamed(spark, tmp_path, root=bucket.address(), storage_options=bucket.options)
    check_that_it_goes_on(streamed, partial(rescaled, bucket), follow)


def test_a_query_that_runs_commits_nothing(bucket: Bucket) -> None:
    """Neither a task that had its shard before the seal, nor one that comes after it."""
    task = filled(bucket)
    options = (bucket.address(), bucket.options, "totals", 2)
    with task.state.checkout(0, "lmdb", 0) as live:
        with open_state(live.path, engine=live.engine, transactional=True) as state:
            state.open(TOTALS).put("late", 1)
            state.commit()
        old = remote._sealed(*options)
        with pytest.raises(StateError, match="was sealed by a rescale of the state, so the task"):
            live.commit(epoch(2))
    with pytest.raises(StateError, match="or undo it: call"):
        task.apply(1, epoch(2), amounts([]))
    old.undo()
    with pytest.raises(CommitConflictError, match="written by another rescale, or by an undo"):
        old.undo()
    with pytest.raises(StateError, match="was sealed"):
        task.apply(1, epoch(2), amounts(of_shard(1)))
    again = make_task(bucket.root().storage)
    assert given_by(again.apply(0, epoch(2), amounts(of_shard(0))))
    assert "late" not in totals(bucket)
    assert totals(bucket) == {k: n * (1 + ((k, n) in of_shard(0))) for k, n in AMOUNTS}


class Killed(BaseException):
    """The driver ended here."""


Fail = Callable[[int, str], None]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Plan where the driver is killed before or after a put, or loses its answer."""
    put, undo = ObjectStore.put_new, remote.SealedShards.undo

    def plan(number: int, how: str) -> None:
        puts = itertools.count(1)  # which threads may share

        def faulty(self: ObjectStore, name: str, data: bytes) -> None:
            is_it = next(puts) == number
            if is_it and how == "killed before":
                raise Killed
            put(self, name, data)
            if is_it:
                raise Killed if how == "killed after" else OSError("the connection was reset")

        monkeypatch.setattr(ObjectStore, "put_new", faulty)
        if how.startswith("killed"):  # what is dead undoes nothing
            monkeypatch.setattr(remote.SealedShards, "undo", lambda self: None)

    def stop() -> None:
        monkeypatch.setattr(ObjectStore, "put_new", put)
        monkeypatch.setattr(remote.SealedShards, "undo", undo)

    plan.stop = stop  # type: ignore[attr-defined]
    return plan


PUBLISH = 5
"""The number of the put that publishes. The first four seal the shards."""


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (1, "killed before"),
        (3, "killed after"),
        (PUBLISH, "killed before"),
        (PUBLISH, "killed after"),
    ],
)
def test_a_killed_driver_leaves_a_whole_state(
    spark: SparkSession, bucket: Bucket, fail: Any, number: int, how: str
) -> None:
    filled(bucket)
    fail(number, how)
    with pytest.raises(Killed):
        rescaled(bucket, 3)
    fail.stop()
    is_published = (number, how) == (PUBLISH, "killed after")
    if not is_published and number > 1:
        with pytest.raises(StateError, match="was sealed"):
            make_task(bucket.root().storage).apply(0, epoch(2), amounts(of_shard(0)))
    vacuum(bucket.address(), grace_s=0, storage_options=bucket.options)
    folders = {name.split("/")[4] for name in bucket.files() if "/rescaled-" in name}
    assert len(folders) == is_published
    done = rescaled(bucket, 2)
    assert (done.before, done.partitions) == (3 if is_published else 4, 2)
    assert totals(bucket) == dict(AMOUNTS)
    vacuum(bucket.address(), grace_s=0, storage_options=bucket.options)
    assert totals(bucket) == dict(AMOUNTS)


def test_a_killed_rescale_is_undone(spark: SparkSession, bucket: Bucket, fail: Any) -> None:
    filled(bucket)
    fail(PUBLISH, "killed before")
    with pytest.raises(Killed):
        rescaled(bucket, 3)
    fail.stop()
    done = rescaled(bucket, 4)
    assert (done.before, done.partitions, done.rows) == (4, 4, 0)
    for shard in range(4):
        make_task(bucket.root().storage).apply(shard, epoch(2), amounts(of_shard(shard)))
    assert totals(bucket) == {key: 2 * amount for key, amount in AMOUNTS}
    with pytest.raises(SpecError, match="already has 4 shards"):
        rescaled(bucket, 4)


@pytest.mark.parametrize("number", range(1, PUBLISH + 1))
def test_a_lost_answer_changes_nothing(
    spark: SparkSession, bucket: Bucket, fail: Any, number: int
) -> None:
    filled(bucket)
    fail(number, "lost")
    assert rescaled(bucket, 1).rows == 40
    assert totals(bucket) == dict(AMOUNTS)


def test_a_rescale_that_fails_lets_the_query_go_on(spark: SparkSession, bucket: Bucket) -> None:
    """Keys of another partitioner are found when the shards have been sealed."""
    task = make_task(bucket.root().storage)
    task.apply(0, epoch(1), amounts(of_shard(1)))
    with pytest.raises(SpecError, match="is in shard 0, but Kafka's murmur2"):
        rescaled(bucket, 3)
    make_task(bucket.root().storage).apply(0, epoch(2), amounts(of_shard(1)))


def test_an_empty_state_and_a_missing_one(spark: SparkSession, bucket: Bucket) -> None:
    with pytest.raises(StateError, match=r"no version|has no state|no store"):
        rescaled(bucket, 3)
    make_task(bucket.root().storage)
    assert rescaled(bucket, 3).rows == 0
    assert run(spark, bucket.address(), AMOUNTS, storage_options=bucket.options) == dict(AMOUNTS)
    assert totals(bucket) == dict(AMOUNTS)
