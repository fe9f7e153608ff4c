"""Random logs in n tasks, rescaled to m, against a plain model; every shape, format and engine."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kstore_core import open_state, stores
from kstore_core.codec import partition
from kstore_core.errors import StateError
from kstore_core.maintenance.migrate import MigrateProgress
from kstore_core.maintenance.rescale import RescaledStore, moving, rescale_tasks
from kstore_core.maintenance.verify import verify
from kstore_core.stream_clock import START
from tests.maintenance.rescale import applications
from tests.maintenance.rescale.applications import answers, rows, tasks_of
from tests.spark.rescale.runs import FOR_EVER, SHAPES, model, random_log

COUNTS = [(1, 3), (2, 4), (2, 3), (4, 2), (3, 1)]
KEYS = {b"k%d" % number for number in range(12)} | {b"k"}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
def test_there_and_back_gives_the_rows_of_the_model(
    name: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(f"{name} {engine}")
    before, after = dice.choice(COUNTS)
    monkeypatch.setattr(moving, "TARGETS", dice.choice([1, 2, 8]))
    monkeypatch.setattr(moving, "LOAD_BYTES", dice.choice([50, 1 << 20]))
    spec = SHAPES[name](FOR_EVER)
    log = [r for r in random_log(spec, 3, 200, 1) if r["key"]]
    if spec.retain_duplicates:  # A store numbers its duplicates, and a tombstone removes nothing.
        log = [r for r in log if r["value"] is not None]
    source = applications.write(tmp_path / "app", before, engine, (spec, log))
    keys = {r["key"] for r in log}
    wanted, stored = answers(source, spec, keys), rows(source, spec, engine)
    if not spec.retain_duplicates:
        assert wanted == model(spec, log)
    assert len(wanted) > 5

    (done,) = rescale_tasks(source, tmp_path / "new", partitions=after)
    assert done == RescaledStore("s", before, after, done.rows, ({},) * before)
    assert [task.name for task in tasks_of(tmp_path / "new")] == [f"0_{at}" for at in range(after)]
    assert answers(tmp_path / "new", spec, keys) == wanted
    assert rows(tmp_path / "new", spec, engine) == stored
    for task in tasks_of(tmp_path / "new"):
        with open_state(task, read_only=True) as state:
            assert (state.engine.name, state.stores()) == (engine, ["s"])
            assert state.stored_spec("s").describe() == spec.describe()

    (back,) = rescale_tasks(tmp_path / "new", tmp_path / "back", partitions=before)
    assert back.rows == done.rows
    assert answers(tmp_path / "back", spec, keys) == wanted
    assert rows(tmp_path / "back", spec, engine) == stored
    assert rows(source, spec, engine) == stored
    assert not (source / ".lock").exists()


def test_all_stores_or_one(tmp_path: Path) -> None:
    plain, windows = stores.key_value("a"), SHAPES["window_headers"](FOR_EVER)
    logs = {spec: random_log(spec, 1, 60, 1) for spec in (plain, windows)}
    source = applications.write(tmp_path / "app", 2, "rocksdb", *logs.items())
    (source / ".DS_Store").touch()
    (source / "global").mkdir()
    seen: list[MigrateProgress] = []
    done = rescale_tasks(source, tmp_path / "new", partitions=3, tasks=2, on_progress=seen.append)
    assert [one.store for one in done] == ["a", "s"]
    assert [one.step for one in seen][-1] == "publish"
    assert {one.store for one in seen if one.step == "move"} == {"a", "s"}
    for spec, log in logs.items():
        assert answers(tmp_path / "new", spec, {r["key"] for r in log}) == model(spec, log)
    (tmp_path / "one").mkdir()  # An empty directory may be there.
    (only,) = rescale_tasks(source, tmp_path / "one", partitions=3, store="s")
    assert only.rows == done[1].rows
    for task in tasks_of(tmp_path / "one"):
        with open_state(task, read_only=True) as state:
            assert state.stores() == ["s"]


def test_verify_finds_nothing_in_a_new_task(tmp_path: Path) -> None:
    spec = SHAPES["session_headers"](FOR_EVER)
    log = random_log(spec, 1, 60, 1)
    source = applications.write(tmp_path / "app", 1, "rocksdb", (spec, log))
    rescale_tasks(source, tmp_path / "new", partitions=2)
    assert not verify(tmp_path / "new" / "0_1").findings


def test_a_sub_topology(tmp_path: Path) -> None:
    spec = stores.key_value("s")
    log = random_log(spec, 1, 60, 1)
    source = applications.write(tmp_path / "app", 2, "lmdb", (spec, log))
    for number in range(2):
        (source / f"0_{number}").rename(source / f"name__1_{number}")
    (source / "0_0").mkdir()  # of a sub-topology without stores
    rescale_tasks(source, tmp_path / "new", partitions=3)
    assert [task.name for task in tasks_of(tmp_path / "new")] == [
        f"name__1_{number}" for number in range(3)
    ]
    assert answers(tmp_path / "new", spec, {r["key"] for r in log}) == model(spec, log)


def commit(path: Path, tasks: int, offsets, *, notes=None) -> Path:
    """Key-value stores with a key in each task; ``offsets`` are those of each task."""
    spec = stores.key_value("s")
    for number in range(tasks):
        with open_state(path / f"0_{number}", engine="lmdb") as state:
            store = state.open(spec)
            for key in KEYS:
                if partition(key, tasks) == number:
                    store.put(key, b"v")
            for (topic, at), offset in offsets(number).items():
                if topic == "in":
                    with state.record(topic=topic, partition=at, offset=offset, timestamp=1):
                        pass
            state.commit(offsets(number), **({} if notes is None else {"notes": notes(number)}))
    return path


def offsets_of(path: Path) -> list[tuple[dict, dict]]:
    found = []
    for task in tasks_of(path):
        with open_state(task, read_only=True) as state:
            store = state.open(stores.key_value("s"))
            position = {topic: dict(of_topic) for topic, of_topic in store.position.items()}
            found.append((state.offsets("s"), position))
    return found


def test_offsets_are_dropped_unless_the_caller_keeps_them(tmp_path: Path) -> None:
    """An offset of the changelog is never kept; one of the input only if it is exact."""
    source = commit(
        tmp_path / "app",
        2,
        lambda number: {("in", 0): 7 + number, ("app-s-changelog", number): 3},
    )
    (done,) = rescale_tasks(source, tmp_path / "dropped", partitions=4)
    assert done.offsets == ({("in", 0): 7}, {("in", 0): 8})
    assert offsets_of(tmp_path / "dropped") == [({}, {})] * 4
    rescale_tasks(source, tmp_path / "kept", partitions=4, keep_offsets=True)
    assert [offsets for offsets, _ in offsets_of(tmp_path / "kept")] == [
        {("in", 0): 7},
        {("in", 0): 8},
    ] * 2
    with pytest.raises(
        StateError, match=r"partition 0 of 'in' up to the offset 7 in .*0_0, but up to 8 in .*0_1"
    ):
        rescale_tasks(source, tmp_path / "merged", partitions=1, keep_offsets=True)
    assert not (tmp_path / "merged").exists()
    same = commit(tmp_path / "same", 2, lambda _: {("in", 0): 7, ("in", 1): 9})
    rescale_tasks(same, tmp_path / "merged", partitions=3, keep_offsets=True)
    assert [offsets for offsets, _ in offsets_of(tmp_path / "merged")] == [
        {("in", 0): 7, ("in", 1): 9}
    ] * 3


def test_an_offset_that_only_one_task_has_is_not_kept(tmp_path: Path) -> None:
    source = commit(tmp_path / "app", 2, lambda number: {("in", number): 7})
    with pytest.raises(StateError, match=r"up to the offset 7 in .*, but up to none in"):
        rescale_tasks(source, tmp_path / "new", partitions=3, keep_offsets=True)


def test_positions_are_the_least_of_the_old_tasks(tmp_path: Path) -> None:
    spec = stores.key_value("s")
    source = tmp_path / "app"
    for number in range(2):
        with open_state(source / f"0_{number}", engine="rocksdb") as state:
            store = state.open(spec)
            for at, offset in ((0, 5 + number), (1 + number, 4)):
                with state.record(topic="in", partition=at, offset=offset, timestamp=1):
                    for key in KEYS:
                        if partition(key, 2) == number:
                            store.put(key, b"v")
            state.commit({("in", 0): 5})
    rescale_tasks(source, tmp_path / "merged", partitions=1, keep_offsets=True)
    assert offsets_of(tmp_path / "merged") == [({("in", 0): 5}, {"in": {0: 5}})]
    rescale_tasks(source, tmp_path / "split", partitions=2 * 2, keep_offsets=True)
    assert offsets_of(tmp_path / "split")[3] == ({("in", 0): 5}, {"in": {0: 6, 2: 4}})


def test_notes_that_are_equal_are_kept(tmp_path: Path) -> None:
    source = commit(tmp_path / "app", 2, lambda _: {}, notes=lambda _: {"model": b"7"})
    rescale_tasks(source, tmp_path / "new", partitions=3)
    for task in tasks_of(tmp_path / "new"):
        with open_state(task, read_only=True) as state:
            assert state.notes("s") == {"model": b"7"}
    other = commit(tmp_path / "other", 2, lambda _: {}, notes=lambda number: {"n": b"%d" % number})
    with pytest.raises(StateError, match="the note 'n' of the store 's' differs in"):
        rescale_tasks(other, tmp_path / "no", partitions=3)
    rescale_tasks(other, tmp_path / "no", partitions=4)
    with open_state(tmp_path / "no" / "0_3", read_only=True) as state:
        assert state.notes("s") == {"n": b"1"}


@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
def test_the_stream_time_is_the_least_one_or_the_rescale_is_refused(
    engine: str, tmp_path: Path
) -> None:
    spec = stores.window("s", 1000, 10, segment_interval_ms=500)
    slow = min(KEYS)
    fast = next(key for key in sorted(KEYS) if partition(key, 2) != partition(slow, 2))
    source = tmp_path / "app"
    for key, starts in ((slow, [0, 600]), (fast, [0, 700, 5000])):
        with open_state(source / f"0_{partition(key, 2)}", engine=engine) as state:
            store = state.open(spec)
            for start in starts:
                store.put(key, b"v", window_start=start)
    wanted = answers(source, spec, [])
    assert len(wanted) == 3, "the first rows of the faster task have expired"
    rescale_tasks(source, tmp_path / "split", partitions=4)
    assert answers(tmp_path / "split", spec, []) == wanted
    if engine == "rocksdb":
        with pytest.raises(StateError, match=r"so the row of the time 0 would expire"):
            rescale_tasks(source, tmp_path / "merged", partitions=1)
        assert not (tmp_path / "merged").exists()
        return
    rescale_tasks(source, tmp_path / "merged", partitions=1)
    assert answers(tmp_path / "merged", spec, []) == wanted
    with open_state(tmp_path / "merged" / "0_0", read_only=True) as state:
        assert state.open(spec).stream_time == 600


def test_tasks_without_records(tmp_path: Path) -> None:
    spec = stores.window("s", 1000, 10)
    source = applications.write(tmp_path / "app", 2, "rocksdb", (spec, []))
    (done,) = rescale_tasks(source, tmp_path / "new", partitions=3)
    assert done.rows == 0
    with open_state(tmp_path / "new" / "0_2") as state:
        store = state.open(spec)
        assert store.stream_time in (None, START)
        store.put(b"k", b"v", window_start=5)
