"""Streams into roots on object stores: their live shards, their versions, and what goes wrong."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import stores
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark import vacuum
from kstore_core.spark.live.stream_binding import StreamBinding, check_not_streamed
from kstore_core.spark.remote.layout import layout_of
from kstore_core.spark.root.commits import ShardCommits
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.base import Storage
from kstore_core.spark.root.storage.local import LocalFiles
from kstore_core.spark.stream.plan import plan_stream
from tests.spark.remote.machines import Machine, Places
from tests.spark.remote.requests import HOWS, drawn
from tests.spark.stream.shard_epochs import STEPS, Streamed, in_windows, shards_are
from tests.spark.support import logs
from tests.spark.support.faults import FaultyObjects, Killed, write
from tests.spark.support.logs import SHARDS, SPEC, make_log
from tests.spark.support.object_store import Bucket, ignore_conditions
from tests.spark.support.streams import (
    slices_of,
)

if TYPE_CHECKING:
    pass

LATEST = stores.timestamped_key_value_with_headers("latest")
WINDOWS = stores.timestamped_window_with_headers("windows", 300, 20, segment_interval_ms=60)
PLACES = [(LATEST, "rocksdb"), (SPEC, "lmdb"), (WINDOWS, "rocksdb")]


def log_of(spec: Any, seed: int, count: int) -> list[logs.Record]:
    log = make_log(seed, count, SHARDS)
    return in_windows(log, spec.window_size_ms) if spec.shape == "window" else log


def shown(value: Any) -> str:
    return value if isinstance(value, str) else str(value.name)


@pytest.mark.parametrize(("spec", "engine"), PLACES[:2], ids=shown)
def test_every_machine_goes_on_where_another_ended(
    bucket: Bucket, machine: Machine, tmp_path: Path, spec: Any, engine: str
) -> None:
    log = log_of(spec, 3, 240)
    streamed = Streamed(bucket.root(), spec, engine, compact_every=2)
    whole = Streamed(tmp_path / "whole", spec, engine)
    for epoch, records in enumerate(slices_of(log, 6)):
        machine("ab"[epoch // 2 % 2])
        wanted = whole.epoch(epoch, records)
        assert streamed.epoch(epoch, records) == wanted
        assert streamed.epoch(epoch, records) == wanted
    machine("new")
    assert shards_are(streamed, log)
    assert bucket.root().versions() == [1, 2, 3, 4, 5, 6]
    for number in range(1, 7):
        here, there = bucket.root().load(number), Root.at(tmp_path / "whole").load(number)
        for one, other in zip(here.shards, there.shards, strict=True):
            plain: Any = {"path": None, "files": ()}
            assert dataclasses.replace(one, **plain) == dataclasses.replace(other, **plain)


@dataclasses.dataclass(frozen=True)
class DieAt:
    """A step at which the process ends, the first time that it hears of a name."""

    name: str

    def __call__(self, told: str, shard: int | None) -> None:
        if told == self.name and shard in (None, 1):
            raise Killed


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "engine"), PLACES[1:], ids=shown)
def test_whatever_step_is_the_last_the_epoch_is_there_once(
    bucket: Bucket, machine: Machine, tmp_path: Path, spec: Any, engine: str
) -> None:
    steps = [*STEPS[:4], "put", *STEPS[4:]]
    log = log_of(spec, 4, 280)
    streamed = Streamed(bucket.root(), spec, engine, compact_every=2)
    whole = Streamed(tmp_path / "whole", spec, engine)
    for epoch, (step, records) in enumerate(zip(steps, slices_of(log, len(steps)), strict=True)):
        machine("first")
        with pytest.raises(Killed):
            streamed.epoch(epoch, records, step=DieAt(step))
        assert bucket.root().versions() == [*range(1, epoch + 1 + (step == "published"))]
        machine(["first", "other"][epoch % 2])
        assert streamed.epoch(epoch, records) == whole.epoch(epoch, records)
    assert shards_are(streamed, log)


@pytest.mark.slow
@pytest.mark.parametrize("places", ["local", "google_bucket", "azure_bucket"], indirect=True)
@pytest.mark.parametrize("compact_every", [1, 100], ids=["checkpoints", "changes"])
def test_whatever_request_goes_wrong_the_epoch_is_there_once(
    places: Places, tmp_path: Path, machine: Machine, compact_every: int
) -> None:
    """Each request of an epoch on a disk goes wrong in each way, and elsewhere some in one way."""
    log = make_log(5, 60, 1)
    slices = slices_of(log, 3)
    whole = Streamed(tmp_path / "whole", LATEST, "lmdb", partitions=1)
    wanted = [whole.epoch(epoch, records) for epoch, records in enumerate(slices)]

    def after_first_epoch(files: Storage) -> Streamed:
        machine("first")
        streamed = Streamed(Root(FaultyObjects(files)), LATEST, "lmdb", 1)
        streamed = dataclasses.replace(streamed, compact_every=compact_every)
        assert streamed.epoch(0, slices[0]) == wanted[0]
        return streamed

    files = places("sound")
    every = isinstance(files, LocalFiles)
    sound = FaultyObjects(files)
    same = dataclasses.replace(after_first_epoch(files), path=Root(sound))
    assert same.epoch(1, slices[1]) == wanted[1]
    assert len(sound.calls) > 12
    steps = [*range(len(sound.requests))]
    if not every:  # half with checkpoints, half with changes
        steps = drawn(sound.requests)[compact_every > 1 :: 2]
    for number, step in enumerate(steps):
        for how in HOWS if every else (HOWS[number % 4],):
            there = places(f"{step}-{how}")
            streamed, faulty = after_first_epoch(there), FaultyObjects(there, step, how)
            broken = dataclasses.replace(streamed, path=Root(faulty))
            with contextlib.suppress(OSError, StateError, Killed):
                assert broken.epoch(1, slices[1]) == wanted[1]
            assert len(faulty.calls) > step
            machine(["first", "other"][number % 2])
            assert streamed.epoch(1, slices[1]) == wanted[1]
            assert streamed.epoch(2, slices[2]) == wanted[2]
            assert streamed.root.versions() == [1, 2, 3]
            machine("new")
            assert shards_are(streamed, log)


def test_of_two_attempts_one_counts(objects: Root, machine: Machine, tmp_path: Path) -> None:
    log = log_of(LATEST, 6, 90)
    slices = slices_of(log, 3)
    streamed, whole = Streamed(objects, LATEST, "lmdb"), Streamed(tmp_path / "whole", LATEST)
    assert streamed.epoch(0, slices[0]) == whole.epoch(0, slices[0])
    others: list[int | None] = []

    def beside(told: str, shard: int | None) -> None:
        if told == "committed" and not others:
            others.append(shard)
            machine("other")
            versions = streamed.versions()
            streamed.epoch(1, slices[1], versions=dataclasses.replace(versions, publish_every=9))
            machine("first")

    wanted = whole.epoch(1, slices[1])
    assert streamed.epoch(1, slices[1], step=beside) == wanted
    assert others == [0]
    assert streamed.epoch(2, slices[2]) == whole.epoch(2, slices[2])
    assert shards_are(streamed, log)


def test_a_stream_goes_on_from_a_version_and_a_vacuum_may_take_it(
    bucket: Bucket, machine: Machine, tmp_path: Path
) -> None:
    log = make_log(7, 200, SHARDS)
    root = bucket.root()
    write(root, log[:80])
    streamed = Streamed(root, SPEC)
    slices = slices_of(log[60:], 4)
    for epoch, records in enumerate(slices):
        machine("ab"[epoch % 2])
        streamed.epoch(epoch, records)
        options: Any = {"storage_options": bucket.options}
        gone = vacuum(bucket.address(), grace_s=0, keep_versions=1, **options)
        assert len(gone.versions) == 1
    machine("c")
    assert root.versions() == [5]
    newest = root.load()
    assert sum(shard.replayed for shard in newest.shards) == 20
    again = Streamed(root, SPEC)
    again.epoch(3, slices[3])
    manifest = root.load()
    assert sum(shard.records for shard in manifest.shards) == 220 - 80
    live = [ShardCommits(root.storage, f"live/0_{shard}").numbers() for shard in range(SHARDS)]
    assert live == [[4]] * SHARDS


def test_a_live_shard_that_is_gone_is_told(bucket: Bucket, machine: Machine) -> None:
    log = make_log(8, 60, SHARDS)
    streamed = Streamed(bucket.root(), LATEST)
    streamed.epoch(0, log[:30])
    storage = bucket.root().storage
    storage.delete_tree("live/0_1")
    message = r"live state s3://.*/live/0_1 of a shard is missing.* Remove s3://.*/live and start"
    with pytest.raises(StateError, match=message):
        streamed.epoch(1, log[30:])
    storage.delete_tree("live")
    anew = Streamed(bucket.root(), LATEST, query="another")
    anew.epoch(0, log)
    assert sum(shard.replayed for shard in bucket.root().load().shards) == 30


def test_an_older_checkpoint_is_refused(objects: Root) -> None:
    log = make_log(9, 90, SHARDS)
    slices = slices_of(log, 3)
    streamed = Streamed(objects, LATEST, publish_every=100)
    for epoch, records in enumerate(slices):
        streamed.epoch(epoch, records)
    with pytest.raises(StateError, match=r"contains epoch 2 .* but Spark runs epoch 1"):
        streamed.epoch(1, slices[1])


def test_a_root_belongs_to_one_stream(bucket: Bucket) -> None:
    root = bucket.root()
    check_not_streamed(layout_of(root.storage))
    Streamed(root, LATEST).versions()
    with pytest.raises(StateError, match=r"s3://.* but this stream is another of the checkpoint"):
        Streamed(root, LATEST, query="another").versions()
    with pytest.raises(SpecError, match="engine is stored as 'rocksdb' and given as 'lmdb'"):
        Streamed(root, LATEST, "lmdb").versions()
    for again in (write, plan):
        with pytest.raises(StateError, match=r"belongs to the stream of the checkpoint"):
            again(root, make_log(1, 10, SHARDS))
    bound = StreamBinding.of(layout_of(root.storage))
    assert bound is not None
    assert bound.checkpoint == "checkpoint"


def plan(root: Root, _: Any) -> None:
    given: dict[str, Any] = {"partitions": SHARDS, "engine": None, "partition_by": "partition"}
    plan_stream(root, LATEST, checkpoint="elsewhere", publish_every=1, **given)


def test_a_version_uploads_only_new_table_files(bucket: Bucket) -> None:
    streamed = Streamed(bucket.root(), LATEST, partitions=1)
    log = [dataclasses.replace(r, partition=0, offset=n) for n, r in enumerate(make_log(1, 400, 1))]
    for epoch, records in enumerate(slices_of(log, 3)):  # RocksDB merges four
        streamed.epoch(epoch, records)
    newest = bucket.root().load()
    older = [file for shard in newest.shards for file in shard.files if file.at is not None]
    assert older
    assert all(file.path.endswith(".sst") for file in older)


def test_an_object_store_without_conditions_is_refused(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignore_conditions(monkeypatch)
    with pytest.raises(UnsupportedError, match="ignores conditional requests"):
        Streamed(bucket.root(), LATEST).versions()
    assert bucket.files() == []
