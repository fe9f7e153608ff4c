"""States on object stores: commits, copies on workers, fences, and what goes wrong with each."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import serdes, stores
from kstore_core.errors import (
    SpecError,
    StateError,
    StorageUnavailableError,
    UnsupportedError,
)
from kstore_core.spark import vacuum
from kstore_core.spark.live.epochs import BATCH, Epoch
from kstore_core.spark.map_state.plan import _bound
from kstore_core.spark.map_state.sharding import Sharding
from kstore_core.spark.root.root import Root
from kstore_core.spark.root.storage.local import LocalFiles
from tests.spark.map_state.task_runs import (
    ROWS,
    Model,
    amounts,
    epoch,
    make_task,
    running_total,
)
from tests.spark.remote.machines import Machine, apply, commits_of, moved
from tests.spark.support.object_store import Bucket, ignore_conditions

if TYPE_CHECKING:
    pass


@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
def test_every_machine_goes_on_where_another_ended(
    bucket: Bucket, machine: Machine, engine: str
) -> None:
    model, names = Model(), random.Random(5)
    task = make_task(bucket.root().storage, engine=engine, compact_every=3)
    for number in range(14):
        machine(names.choice("abc"))
        rows = [(names.choice("uvwxyz"), names.randrange(100)) for _ in range(20)]
        expected = model.put(rows)
        for _ in range(2):
            assert apply(task, number, rows) == expected
    machine("new")
    assert apply(task, 20, [(key, 0) for key in model.totals]) == [*model.totals.items()]
    newest = commits_of(bucket.root().storage).read(15)
    assert newest.checkpoint is not None
    assert len(newest.changes) < 30


def test_of_two_attempts_one_counts_and_the_other_returns_its_output(
    objects: Root, machine: Machine
) -> None:
    task = make_task(objects.storage)
    apply(task, 0, ROWS)
    attempts = itertools.count(1)

    def total(key: str, rows: Any, store: Any) -> Any:
        attempt = next(attempts)
        if attempt == 1:
            machine("other")
            assert apply(racing, 1, [("a", 0)]) == [("a", 2000)]
            machine("first")
        store.put(key, attempt * 1000)
        yield key, attempt * 1000

    racing = make_task(objects.storage, total)
    assert apply(racing, 1, [("a", 0)]) == [("a", 2000)]
    assert next(attempts) == 3
    for where in ("first", "other"):
        machine(where)
        assert apply(task, 2 + (where == "other"), [("a", 1)])[0][1] in (2001, 2002)


def test_an_attempt_of_an_earlier_epoch_cannot_commit(objects: Root, machine: Machine) -> None:
    task = make_task(objects.storage)
    apply(task, 0, ROWS)

    def late(key: str, rows: Any, store: Any) -> Any:
        machine("other")
        task_of_others = make_task(objects.storage)
        for number in (1, 2):
            apply(task_of_others, number, [("a", 1)])
        machine("first")
        return running_total(key, rows, store)

    with pytest.raises(StateError, match=r"contains epoch 2 .* but Spark runs epoch 1"):
        apply(make_task(objects.storage, late), 1, [("a", 1)])
    assert apply(task, 3, [("a", 0)]) == [("a", 6)]


def test_another_epoch_at_the_same_time_is_refused(objects: Root, machine: Machine) -> None:
    task = make_task(objects.storage)

    def beside(key: str, rows: Any, store: Any) -> Any:
        machine("other")
        task.apply(0, Epoch(BATCH, 1), amounts([("a", 1)]))
        machine("first")
        return running_total(key, rows, store)

    match = "was changed by batch run 1 while this task applied epoch 0 .* Run only one query"
    with pytest.raises(StateError, match=match):
        apply(make_task(objects.storage, beside), 0, [("a", 5)])
    assert apply(task, 0, [("a", 5)]) == [("a", 6)]


def sizes(bucket: Bucket) -> dict[str, int]:
    return {entry.name: entry.bytes for entry in bucket.root("").storage.files("")}


@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
def test_an_epoch_uploads_its_changes_and_not_its_shard(bucket: Bucket, engine: str) -> None:
    """All checkpoints together are about as large as all changes."""
    numbers = random.Random(3)

    def noise(key: str, rows: Any, store: Any) -> Any:
        store.put(key, numbers.getrandbits(62))
        return ()

    settings: Any = {"engine": engine, "uncommitted_max_bytes": 1 << 26}
    task = make_task(bucket.root().storage, noise, **settings)
    apply(task, 0, [(f"key-{number:08}", 0) for number in range(40_000)])
    before, loaded = sizes(bucket), sum(sizes(bucket).values())
    assert loaded > 300_000
    changed, total = 0, 0
    for number in range(1, 31):
        apply(task, number, [(f"key-{number * 7 + n:08}", 0) for n in range(20)])
        after = sizes(bucket)
        fresh = {name: size for name, size in after.items() if name not in before}
        kinds = {name.split("/")[-2] for name in fresh}
        if kinds == {"changes", "commits"}:
            assert len(fresh) == 2
            assert sum(fresh.values()) < 8_000
            changed += sum(fresh.values())
        total += sum(fresh.values())
        before = after
    assert changed > 0
    checkpoints = {
        name.split("/checkpoints/")[1].split("/")[0] for name in before if "/checkpoints/" in name
    }
    assert len(checkpoints) == 1  # for the rows of the first epoch
    assert total - changed < 4 * loaded  # changes are compressed


def test_a_vacuum_removes_what_no_commit_needs(
    bucket: Bucket, machine: Machine, tmp_path: Path
) -> None:
    task, model = make_task(bucket.root().storage, compact_every=2, engine="rocksdb"), Model()
    for number in range(7):
        assert apply(task, number, ROWS) == model.put(ROWS)
    storage = bucket.root().storage
    newest = commits_of(storage).read(7)
    needed = {*commits_of(storage).places(newest)}
    waiting = "live/totals/0_0/changes/00000000000000000008-1.arrow"
    lost = "live/totals/0_0/changes/00000000000000000003-1.arrow"
    storage.put_new(waiting, b"of a commit to come")
    storage.put_new(lost, b"of an attempt that lost")
    options: Any = {"storage_options": bucket.options}
    assert vacuum(bucket.address(), **options).files == ()
    planned = vacuum(bucket.address(), grace_s=0, dry_run=True, **options)
    gone = vacuum(bucket.address(), grace_s=0, **options)
    assert planned == gone
    assert lost in gone.files
    left = {entry.name for entry in storage.files("live")}
    about = {"live/totals/map_state.json", "live/totals/query"}
    assert left == needed | about | {waiting}
    for where in ("first", "other"):
        machine(where)
        number = 7 + (where == "other")
        assert apply(task, number, ROWS) == model.put(ROWS)


def test_a_vacuum_lets_a_local_state_be(root: Path) -> None:
    task = make_task(root)
    apply(task, 0, ROWS)
    (root / "attempts").mkdir()
    assert vacuum(root, grace_s=0).files == ()
    assert apply(task, 1, [("a", 0)]) == [("a", 4)]


def test_a_state_that_was_removed_or_has_another_owner_is_told(storage: LocalFiles) -> None:
    task = make_task(storage)
    apply(task, 0, ROWS)
    with pytest.raises(StateError, match="belongs to the streaming query 9c3f, so the query 77"):
        task.apply(0, epoch(0, "77"), amounts(ROWS))
    document = storage.path / "live/totals/map_state.json"
    text = document.read_text()
    document.unlink()
    with pytest.raises(StateError, match=r"sees no state .* was removed or created again"):
        apply(task, 1, ROWS)
    make_task(storage)
    with pytest.raises(StateError, match=r"sees another state .* start the query again"):
        apply(task, 1, ROWS)
    document.write_text(text)
    with pytest.raises(SpecError, match="engine is stored as 'lmdb' and given as 'rocksdb'"):
        make_task(storage, engine="rocksdb")


def test_runs_are_numbered(bucket: Bucket) -> None:
    state = make_task(bucket.root().storage).state
    assert [state.begin_run() for _ in range(3)] == [1, 2, 3]
    assert [name for name in state.layout.names() if name.startswith("run-")] == ["run-3"]


def bound(bucket: Bucket) -> Any:
    sharding = Sharding("totals", "key_value", "utf8", "lmdb", 2, "key")
    given: Any = {"storage_options": bucket.options, "compact_every": 5}
    return _bound(bucket.address(), sharding, kept=True, **given)


def test_a_server_that_ignores_conditions_is_refused(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignore_conditions(monkeypatch)
    with pytest.raises(UnsupportedError, match="ignores conditional requests"):
        bound(bucket)
    assert bucket.files() == []
    monkeypatch.undo()
    state, shards = bound(bucket)
    assert (shards, bound(bucket)[0]) == (2, state)
    assert bucket.files() == ["stores/rates/live/totals/map_state.json"]


def test_a_root_of_a_stream_is_refused(bucket: Bucket) -> None:
    stream = {"query": "q", "checkpoint": "c", "store": "s", "shape": "key_value"}
    stream |= {"engine": "lmdb", "partition_by": "key"}
    text = json.dumps({**stream, "format": 1, "partitions": 1})
    bucket.root().storage.put_new("live/stream.json", text.encode())
    with pytest.raises(StateError, match="belongs to a stream of stream_into"):
        bound(bucket)


def test_a_service_that_is_gone_is_told(bucket: Bucket) -> None:
    task = make_task(bucket.root().storage)
    apply(task, 0, ROWS)
    gone = {**bucket.options, "endpoint": "http://127.0.0.1:9", "max_retries": 0}
    storage = dataclasses.replace(bucket, options=gone).root().storage
    with pytest.raises(StorageUnavailableError):
        apply(moved(task, storage), 1, ROWS)
    assert apply(task, 1, [("a", 0)]) == [("a", 4)]


@pytest.mark.parametrize(
    "place", [pytest.param("hdfs_bucket", marks=pytest.mark.slow), "google_bucket"]
)
def test_other_storages_will_do(
    request: pytest.FixtureRequest, machine: Machine, place: str
) -> None:
    bucket: Bucket = request.getfixturevalue(place)
    task, model = make_task(bucket.root().storage, compact_every=2), Model()
    for number in range(6):
        machine("ab"[number % 2])
        assert apply(task, number, ROWS) == model.put(ROWS)
    assert vacuum(bucket.address(), grace_s=0, storage_options=bucket.options).files
    machine("c")
    assert apply(task, 6, ROWS) == model.put(ROWS)


def test_window_stores_will_do(storage: LocalFiles, machine: Machine, root: Path) -> None:
    spec = stores.window("w", 50, 10, segment_interval_ms=20, key=serdes.UTF8, value=serdes.INT64)

    def windows(key: str, rows: Any, store: Any) -> Any:
        for row in rows:
            store.put(key, row.amount, window_start=row.amount)
        return [(key, len(list(store.fetch(key))))]

    task, local = (make_task(place, windows, spec=spec) for place in (storage, root))
    for number in range(5):
        machine("ab"[number % 2])
        times = [("a", number * 30), ("a", number * 30 + 1)]
        assert apply(task, number, times) == apply(local, number, times)
