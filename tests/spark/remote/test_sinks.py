"""The sink ``format("kstore")`` into roots on object stores, and what goes wrong in an epoch."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from kstore_core.errors import CommitConflictError, StateError, UnsupportedError
from kstore_core.spark import vacuum
from kstore_core.spark.root.inbox import INBOX
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.base import Storage
from kstore_core.spark.root.storage.local import LocalFiles
from kstore_core.spark.root.storage.volumes import VolumeFiles
from kstore_core.spark.stream.sink import StreamSink
from kstore_core.spark.verify.files import check_files
from tests.spark.remote.machines import Machine, Places
from tests.spark.remote.requests import HOWS, drawn
from tests.spark.stream.shard_epochs import Streamed, shards_are
from tests.spark.stream.sink_work import received, sink
from tests.spark.support.faults import FaultyObjects, Killed
from tests.spark.support.logs import SHARDS, SPEC, Record, make_log
from tests.spark.support.object_store import Bucket
from tests.spark.support.streams import slices_of

if TYPE_CHECKING:
    from collections.abc import Callable

ONE = {"partitions": "1", "engine": "lmdb"}


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One shard after another, for tests that move or stop this process at a step."""
    monkeypatch.setattr(StreamSink.__module__ + "._SHARDS_AT_ONCE", 1)


def epoch_of(root: Root | Path, number: int, records: list[Record], **options: str) -> None:
    """What Spark does in an epoch: two tasks, and the commit."""
    tasks = slices_of(records, 2)
    made = sink(root, **options)
    made.commit(received(root, number, tasks), number)


def stepping(hook: Callable[[str, int | None], None]) -> Any:
    """Call a function at each step of the sinks."""
    return mock.patch.object(StreamSink, "_step", lambda self, told, shard: hook(told, shard))


def test_every_machine_goes_on_where_another_ended(
    bucket: Bucket, machine: Machine, tmp_path: Path
) -> None:
    log, root, disk = make_log(3, 180, SHARDS), bucket.root(), tmp_path / "disk"
    for epoch, records in enumerate(slices_of(log, 4)):
        machine("ab"[epoch // 2])
        for where in (root, disk):
            epoch_of(where, epoch, records, engine="lmdb", compact_every="2")
        epoch_of(root, epoch, records, engine="lmdb", compact_every="2")
        assert root.storage.files(INBOX) == []
    assert root.versions() == [1, 2, 3, 4]
    for number in root.versions():
        here, there = root.load(number), Root.at(disk).load(number)
        plain: Any = {"path": None, "files": ()}
        for one, other in zip(here.shards, there.shards, strict=True):
            assert dataclasses.replace(one, **plain) == dataclasses.replace(other, **plain)
    machine("new")
    assert shards_are(Streamed(root, SPEC, "lmdb"), log)
    with pytest.raises(StateError, match=r"contains epoch 3 .* but Spark runs epoch 1"):
        epoch_of(root, 1, log[:9], engine="lmdb")


@pytest.mark.slow
@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("places", ["local", "hdfs_bucket"], indirect=True)
@pytest.mark.parametrize("compact_every", ["1", "100"], ids=["checkpoints", "changes"])
def test_whatever_request_goes_wrong_the_epoch_is_there_once(
    places: Places, tmp_path: Path, machine: Machine, compact_every: str
) -> None:
    """Requests fail, lose their answers, or are the last of a process, each way in its turn."""
    log, options = make_log(5, 60, 1), {**ONE, "compact_every": compact_every}
    slices = slices_of(log, 3)

    def after_first_epoch(files: Storage) -> Root:
        machine("first")
        root: Root = Root(FaultyObjects(files))
        epoch_of(root, 0, slices[0], **options)
        return root

    files = places("sound")
    after_first_epoch(files)
    sound = FaultyObjects(files)
    epoch_of(Root(sound), 1, slices[1], **options)
    assert len(sound.calls) > 15
    steps = [*range(len(sound.requests))]
    if not isinstance(files, LocalFiles):  # half with checkpoints, half with changes
        steps = drawn(sound.requests)[compact_every == "1" :: 2]
    for number, step in enumerate(steps):
        there = places(str(step))
        root = after_first_epoch(there)
        faulty = FaultyObjects(there, step, HOWS[(number + len(compact_every)) % 4])
        with contextlib.suppress(OSError, StateError, Killed):
            epoch_of(Root(faulty), 1, slices[1], **options)
        assert len(faulty.calls) > step
        machine(["first", "other"][number % 2])
        epoch_of(root, 1, slices[1], **options)
        epoch_of(root, 2, slices[2], **options)
        assert root.versions() == [1, 2, 3]
        assert there.files(INBOX) == []
        machine("new")
        assert shards_are(Streamed(root, SPEC, "lmdb", 1), log)


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize("step", ["applied", "copied", "put", "reported", "published"])
def test_of_two_attempts_one_counts(
    objects: Root, machine: Machine, tmp_path: Path, step: str
) -> None:
    """A newer attempt of an epoch runs while an earlier one is at a step, and its files stay."""
    log = make_log(6, 90, SHARDS)
    slices = slices_of(log, 3)
    epoch_of(objects, 0, slices[0], engine="lmdb")
    newer: list[Any] = []

    def beside(told: str, shard: int | None) -> None:
        if told == step and not newer:
            newer.extend(received(objects, 1, slices_of(slices[1], 2)))
            machine("other")
            sink(objects, engine="lmdb").commit(newer, 1)
            newer.extend(received(objects, 1, slices_of(slices[1], 2)))
            machine("first")

    older = sink(objects, engine="lmdb")
    messages = received(objects, 1, slices_of(slices[1], 2))
    with stepping(beside):
        if step == "published":  # The newer attempt finds the version.
            older.commit(messages, 1)
        else:
            with pytest.raises((CommitConflictError, StateError)):
                older.commit(messages, 1)
            older.abort(messages, 1)
    left = {entry.name for entry in objects.storage.files(INBOX)}
    assert {message.file.name for message in newer[2:]} <= left
    sink(objects, engine="lmdb").commit(newer[2:], 1)
    assert objects.storage.files(INBOX) == []
    assert not [f for f in check_files(objects).findings if f.severity != "note"]
    epoch_of(objects, 2, slices[2], engine="lmdb")
    assert objects.versions() == [1, 2, 3]
    assert shards_are(Streamed(objects, SPEC, "lmdb"), log)


@pytest.mark.usefixtures("one_by_one")
def test_an_attempt_that_comes_after_the_next_epoch_is_refused(
    objects: Root, machine: Machine, tmp_path: Path
) -> None:
    log = make_log(7, 90, SHARDS)
    slices = slices_of(log, 3)
    epoch_of(objects, 0, slices[0])
    messages = received(objects, 1, [slices[1]])

    def beside(told: str, shard: int | None) -> None:
        if told == "applied" and shard == 1:
            with mock.patch.object(StreamSink, "_step"):
                machine("other")
                epoch_of(objects, 1, slices[1])
                epoch_of(objects, 2, slices[2])
                machine("first")

    with stepping(beside), pytest.raises(StateError, match="contains epoch 2 of the stream"):
        sink(objects).commit(messages, 1)
    assert shards_are(Streamed(objects, SPEC), log)


def test_a_vacuum_takes_what_killed_jobs_left(bucket: Bucket, tmp_path: Path) -> None:
    log = make_log(8, 40, SHARDS)
    for root, where, options in (
        (bucket.root(), bucket.address(), bucket.options),
        (Root.at(tmp_path / "disk"), tmp_path / "disk", None),
    ):
        epoch_of(root, 0, log[:20])
        left = [message.file.name for message in received(root, 1, slices_of(log[20:], 2))]
        given: Any = {"storage_options": options}
        assert vacuum(where, **given).files == ()
        running = sink(root)
        messages = received(root, 1, slices_of(log[20:], 2))
        left += [message.file.name for message in messages]
        gone = vacuum(where, grace_s=0, dry_run=True, **given)
        assert sorted(set(gone.files) & set(left)) == sorted(left)
        assert {*vacuum(where, grace_s=0, **given).files} >= {*left}
        with pytest.raises(StateError, match="a vacuum with a grace_s shorter than the epoch"):
            running.commit(messages, 1)
        running.abort(messages, 1)
        epoch_of(root, 1, log[20:])
        assert root.load().records == 40


def test_a_volume_is_refused(tmp_path: Path) -> None:
    root = Root(VolumeFiles(tmp_path))
    with pytest.raises(UnsupportedError, match="the sink of a stream, pass a root at an address"):
        received(root, 0, [make_log(1, 9, SHARDS)])
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "place", [pytest.param("hdfs_bucket", marks=pytest.mark.slow), "google_bucket"]
)
def test_other_storages_will_do(
    request: pytest.FixtureRequest, machine: Machine, tmp_path: Path, place: str
) -> None:
    root, log = request.getfixturevalue(place).root(), make_log(9, 60, SHARDS)
    received(root, 0, slices_of(log[:30], 2))  # of tasks that were killed
    for epoch, records in enumerate(slices_of(log, 2)):
        machine("ab"[epoch])
        epoch_of(root, epoch, records, engine="lmdb")
        assert root.storage.files(INBOX) == []
    assert shards_are(Streamed(root, SPEC, "lmdb"), log)
