"""A micro-batch of a shard: processed once, whatever is asked again, dies or is refused."""

from __future__ import annotations

import contextlib
import itertools
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.errors import (
    CorruptionError,
    FormatDowngradeError,
    SpecError,
    StateError,
    UncommittedLimitError,
    UnsupportedError,
)
from kstore_core.processing import Context, Input, Processor, Record, Task, Topology
from kstore_core.spark import fetch_tasks, vacuum
from kstore_core.spark.root.storage.local import LocalFiles
from kstore_core.spark.subtopologies import tasks as tasks_module
from kstore_core.spark.subtopologies.progress import PROGRESS
from tests.processing.drawn import draw
from tests.processing.programs import ProgramStore, topology_of
from tests.spark.remote.requests import HOWS
from tests.spark.subtopologies.task_runs import (
    FIRST,
    SEEN,
    TEXT,
    TOTALS,
    adding,
    contents,
    epoch,
    make_task,
    moved,
    rows,
    texts,
)
from tests.spark.support.faults import FaultyStorage, Killed

ENGINES = ("lmdb", "rocksdb")
SENT = [("out", "a", "1", 10), ("out", "b", "2", 11), ("out", "a", "4", 12)]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that moves this process to a machine with a cache of its own."""

    def move(name: str) -> None:
        monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path / f"cache-{name}"))

    move("first")
    return move


@pytest.mark.parametrize("engine", ENGINES)
def test_a_micro_batch_that_comes_again_gives_the_same_and_changes_nothing(
    root: Path, engine: str, machine: Any
) -> None:
    task = make_task(root, engine=engine)
    first = task.apply(0, epoch(0), rows(FIRST))
    assert texts(first) == SENT
    assert first.column("headers").to_pylist()[1] == [{"key": "n", "value": b"1"}]
    machine("second")
    for _ in range(2):
        assert task.apply(0, epoch(0), rows(FIRST)).equals(first)
    later = task.apply(0, epoch(3), rows([("in", 20, "a", "10")], first=3))
    assert texts(later) == [("out", "a", "14", 20)]
    assert later.column("offset").to_pylist() == [3]
    found = contents(task)
    assert [(key, each.value) for key, each in found["totals"]] == [("a", 14), ("b", 2)]
    assert [(key.key, key.start) for key, _ in found["seen"]] == [
        ("a", 10), ("a", 12), ("a", 20), ("b", 11)
    ]  # fmt: skip
    with pytest.raises(StateError, match="already contains epoch 3 of the query 9c3f"):
        task.apply(0, epoch(2), rows(FIRST))
    with pytest.raises(StateError, match="belongs to the streaming query 9c3f, so the query 77"):
        task.apply(0, epoch(4, "77"), rows(FIRST))


@pytest.mark.parametrize("engine", ENGINES)
def test_whatever_goes_wrong_a_micro_batch_counts_once(
    tmp_path: Path, machine: Any, engine: str
) -> None:
    """Each request of a micro-batch, without an effect, without an answer, and with a death."""
    more = [("in", 30, "b", "5"), ("in", 31, "c", "1")]
    for step in itertools.count():
        done = 0
        for how, second in itertools.product(HOWS, ("first", "other")):
            machine("first")
            place = tmp_path / f"{step}-{how}-{second}"
            task = make_task(place, engine=engine, compact_every=1 + step % 2)
            task.apply(0, epoch(0), rows(FIRST))
            faulty = FaultyStorage(LocalFiles(place), step, how)
            expected = [("out", "b", "7", 30), ("out", "c", "1", 31)]
            with contextlib.suppress(OSError, StateError, Killed):
                assert texts(moved(task, faulty).apply(0, epoch(1), rows(more, 3))) == expected
            done += len(faulty.calls) <= step
            machine(second)
            assert texts(task.apply(0, epoch(1), rows(more, 3))) == expected
            found = contents(task)
            assert [each.value for _, each in found["totals"]] == [4, 7, 1]
            assert len(found["seen"]) == 5
        if done:
            assert done == 8
            assert step >= 6
            return


CHILD = """
import os, signal, sys
from pathlib import Path
from kstore_core.spark.subtopologies import tasks
from tests.spark.subtopologies.task_runs import FIRST, adding, epoch, make_task, rows

root, moment = Path(sys.argv[1]), sys.argv[2]
commit, count = tasks.commit_epoch, 0

def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)

def committing(*args):
    if moment == "after":
        commit(*args)
    die()

task = make_task(root, engine="rocksdb")
task.apply(0, epoch(0), rows(FIRST))
tasks.commit_epoch = committing
task.apply(0, epoch(1), rows(FIRST, 3))
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_task_leaves_no_part_of_a_micro_batch(root: Path, moment: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(root), moment], check=False, timeout=300
    )
    assert child.returncode == -signal.SIGKILL
    task = make_task(root, engine="rocksdb")
    expected = [("out", "a", "5", 10), ("out", "b", "4", 11), ("out", "a", "8", 12)]
    for _ in range(2):
        assert texts(task.apply(0, epoch(1), rows(FIRST, 3))) == expected


def test_two_attempts_at_once_commit_one_of_them(root: Path, machine: Any) -> None:
    task = make_task(root)
    task.apply(0, epoch(0), rows(FIRST))
    layout_put = LocalFiles.put_new
    machine("second")

    class Racing(LocalFiles):
        def put_new(self, name: str, data: bytes) -> None:
            if "/commits/" in name and not raced:
                raced.append(name)
                machine("third")
                task.apply(0, epoch(1), rows(FIRST, 3))
                machine("second")
            layout_put(self, name, data)

    raced: list[str] = []
    output = moved(task, Racing(root)).apply(0, epoch(1), rows(FIRST, 3))
    assert raced
    assert texts(output)[-1] == ("out", "a", "8", 12)
    assert [each.value for _, each in contents(task)["totals"]] == [8, 4]


def plain(steps: Any) -> Any:
    """Steps that depend only on the record and the stores."""
    if isinstance(steps, list):
        return [plain(one) for one in steps if one.get("op") != "schedule"]
    every = {"every", "once", "calls", "init"}
    return {
        name: plain(value) if name == "steps" else value
        for name, value in steps.items()
        if name not in every
    }


@pytest.mark.parametrize("seed", range(12))
def test_micro_batches_give_what_one_long_task_gives(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random programs, with micro-batches that fail, and that come again."""
    monkeypatch.setattr(tasks_module, "_now", lambda: 0)
    random, program = Random(seed), draw(seed + 5000)
    program["nodes"] = [plain(node) for node in program["nodes"]]
    part = topology_of(program).subtopologies[0]
    inputs = [one for one in program["inputs"] if one.get("topic") in part.sources]
    engine = ENGINES[seed % 2]
    task = make_task(tmp_path / "root", topology_of(program), engine=engine)
    kinds = {store["name"]: store for store in program["stores"]}
    with open_state(tmp_path / "plain", engine="memory") as state:
        whole = Task(part, state, clock=lambda: 0)
        at, offset = 0, 0
        for number in itertools.count():
            if at >= len(inputs):
                break
            chosen = inputs[at : at + random.randint(1, 9)]
            at += len(chosen)
            table = rows(
                [(one["topic"], one["timestamp"], one["key"], one["value"]) for one in chosen],
                offset,
            )
            for one in tasks_module.inputs_of(table, 0, {}):
                whole.add(Input(*one[:-1], one.headers.copy()))
            offset += len(chosen)
            while whole.process():
                pass
            expected = [
                (one.topic, one.key, one.value, one.timestamp, [*map(tuple, one.headers)])
                for one in whole.outputs
            ]
            whole.outputs.clear()
            if random.random() < 0.3:
                with pytest.raises(RuntimeError, match="gone"):
                    failing(task).apply(0, epoch(number), table)
            for _ in range(random.choice([1, 1, 2])):
                output = task.apply(0, epoch(number), table)
                assert expected == [
                    (
                        row["topic"],
                        row["key"],
                        row["value"],
                        row["timestamp"],
                        [(pair["key"], pair["value"]) for pair in row["headers"]],
                    )
                    for row in output.to_pylist()
                ]
        paths = fetch_tasks(tmp_path / "root", tmp_path / "copy")
        with open_state(paths[0], read_only=True) as copied:
            for spec in part.specs:
                kind = kinds[spec.name]
                stored = ProgramStore(kind, copied.open(spec)).dump(program)
                assert stored == ProgramStore(kind, state.open(spec)).dump(program)
        whole.close()


def failing(task: Any) -> Any:
    """The task, whose process ends before its commit is put."""

    class Gone(LocalFiles):
        def put_new(self, name: str, data: bytes) -> None:
            if "/commits/" in name:
                raise RuntimeError("gone")
            LocalFiles.put_new(self, name, data)

    return moved(task, Gone(task.state.layout.storage.path))


class Timers(Processor):
    """A processor that tells when its schedules are called, and cancels one of them."""

    def init(self, context: Context) -> None:
        super().init(context)
        context.schedule(100, "stream_time", lambda now: self.tell("stream", now))
        context.schedule(1000, "wall_clock", lambda now: self.tell("wall", now))
        self.once = context.schedule(10, "stream_time", self.only)

    def only(self, now: int) -> None:
        self.once.cancel()
        self.tell("once", now)

    def tell(self, what: str, now: int) -> None:
        self.context.forward(Record(what, str(self.context.stream_time), now))

    def process(self, record: Record[Any, Any]) -> None:
        if record.value == "late":
            self.context.schedule(5, "stream_time", print)


def timers() -> Topology:
    return (
        Topology()
        .add_source("in", "in", key=TEXT, value=TEXT)
        .add_processor("timers", Timers, ["in"])
        .add_sink("out", "out", ["timers"], key=TEXT, value=TEXT)
    )


def test_schedules_go_on_in_the_next_micro_batch(
    root: Path, monkeypatch: pytest.MonkeyPatch, machine: Any
) -> None:
    task, now = make_task(root, timers()), 5000
    monkeypatch.setattr(tasks_module, "_now", lambda: now)
    calls = []
    empty = rows([])
    for number, (clock, records) in enumerate(
        [
            (5000, []),  # only makes the schedules
            (5500, [("in", 10, "a", "x")]),  # the first record calls schedules by stream time
            (5999, [("in", 99, "a", "x")]),
            (6000, []),  # one interval of the wall clock after its schedule was made
            (6100, [("in", 100, "a", "x")]),
            (9500, [("in", 450, "a", "x")]),  # several intervals are one call
            (9999, []),
            (10_000, []),
        ]
    ):
        now = clock
        machine(f"m{number}")
        for _ in range(2):
            output = task.apply(0, epoch(number), rows(records, number) if records else empty)
        calls += [(number, *one[1:]) for one in texts(output)]
    assert calls == [
        (1, "stream", "10", 10),
        (1, "once", "10", 10),
        (3, "wall", "99", 6000),
        (4, "stream", "100", 100),
        (5, "stream", "450", 450),
        (5, "wall", "450", 9500),
        (7, "wall", "450", 10_000),
    ]
    with pytest.raises(UnsupportedError, match=r"'timers' made a schedule after init\(\)"):
        task.apply(0, epoch(20), rows([("in", 500, "a", "late")], 20))
    assert texts(task.apply(0, epoch(20), rows([("in", 500, "a", "x")], 20)))


def test_a_micro_batch_without_effect_makes_no_commit(root: Path) -> None:
    task = make_task(root)
    for number in range(3):
        assert task.apply(1, epoch(number), rows([])).num_rows == 0
    assert not list(root.glob("live/*/0_1/commits/*"))


def test_records_without_offsets_keep_their_order(root: Path) -> None:
    def origin(context: Context, record: Record[str, str]) -> None:
        context.forward(record.replace(value=f"{record.partition}@{record.offset}"))

    topology = (
        Topology()
        .add_source("in", ["in", "also"], key=TEXT, value=TEXT)
        .add_processor("origin", origin, ["in"])
        .add_sink("out", "out", ["origin"], key=TEXT, value=TEXT)
    )
    task = make_task(root, topology)
    given = rows([("in", 5, "a", ""), ("also", 6, "b", ""), ("in", 5, "c", ""), ("in", 4, "d", "")])
    nothing = pa.nulls(4, pa.int64())
    given = given.set_column(1, "partition", nothing.cast(pa.int32()))
    given = given.set_column(2, "offset", nothing)
    found = texts(task.apply(1, epoch(0), given)) + texts(task.apply(1, epoch(1), given))
    assert [(key, value) for _, key, value, _ in found] == [
        ("a", "1@0"), ("c", "1@1"), ("d", "1@2"), ("b", "1@0"),
        ("a", "1@3"), ("c", "1@4"), ("d", "1@5"), ("b", "1@1"),
    ]  # fmt: skip


@pytest.mark.parametrize("times", [[None], [-1]])
def test_a_record_without_a_time_is_refused(root: Path, times: list[int | None]) -> None:
    given = rows([("in", 5, "a", "1")]).set_column(3, "timestamp", pa.array(times, pa.int64()))
    with pytest.raises(SpecError, match="have no timestamp, or a timestamp before 1970") as raised:
        make_task(root).apply(0, epoch(0), given)
    assert "Nothing was committed" in raised.value.__notes__[0]


def test_an_error_of_a_processor_commits_nothing(root: Path) -> None:
    task = make_task(root)
    task.apply(0, epoch(0), rows(FIRST))
    with pytest.raises(ValueError, match="invalid literal") as raised:
        task.apply(0, epoch(1), rows([("in", 40, "a", "1"), ("in", 41, "b", "no number")], 3))
    notes = " ".join(raised.value.__notes__)
    assert "the node 'add up' raised this error, while it processed in-0@4" in notes
    assert f"{root}/live/subtopology-0/0_0" in notes
    assert [each.value for _, each in contents(task)["totals"]] == [4, 2]
    with pytest.raises(UncommittedLimitError) as limited:
        make_task(root, uncommitted_max_bytes=50).apply(0, epoch(1), rows(FIRST, 3))
    assert "use more partitions" in limited.value.__notes__[-1]


def test_a_changed_topology_keeps_its_stores(root: Path) -> None:
    make_task(root).apply(0, epoch(0), rows(FIRST))
    more = stores.key_value("more")
    wider = adding().add_processor("more", lambda c, r: None, ["in"], stores=[more])
    texts(make_task(root, wider).apply(0, epoch(1), rows(FIRST, 3)))
    with pytest.raises(StateError, match="the store 'more', which sub-topology 0 does not have"):
        make_task(root).apply(0, epoch(2), rows(FIRST, 6))
    other = stores.key_value("totals", key=TEXT, value=serdes.INT64)
    changed = Topology().add_source("in", "in", key=TEXT, value=TEXT)
    changed.add_processor("add up", print, ["in"], stores=[other, SEEN, more])
    with pytest.raises(FormatDowngradeError, match="has the format 'timestamped_headers'"):
        make_task(root, changed).apply(0, epoch(2), rows(FIRST, 6))


def test_the_progress_of_another_release_is_named(root: Path) -> None:
    task = make_task(root)
    task.apply(0, epoch(0), rows(FIRST))
    with task.state.checkout(0, "lmdb", 0) as live:
        with open_state(live.path, engine=live.engine, transactional=True) as state:
            state.open(PROGRESS).put("progress", b'{"more": 1}')
        live.commit(epoch(0))
    with pytest.raises(CorruptionError, match="If a newer kstore wrote it, upgrade kstore"):
        task.apply(0, epoch(1), rows(FIRST, 3))


def test_the_state_keeps_its_properties(root: Path) -> None:
    make_task(root)
    for given in ({"partitions": 3}, {"engine": "rocksdb"}):
        with pytest.raises(SpecError, match="has a state with other properties"):
            make_task(root, **given)
    assert make_task(root, partitions=None, by_default=7).state.layout.place.endswith("y-0")


def test_fetched_tasks_are_task_directories(root: Path, tmp_path: Path) -> None:
    task = make_task(root, engine="rocksdb")
    for number in range(5):
        task.apply(1, epoch(number), rows(FIRST, 3 * number))
    assert fetch_tasks(root, tmp_path / "copy") == [tmp_path / "copy" / "0_1"]
    with open_state(tmp_path / "copy/0_1", read_only=True) as state:
        assert state.engine.name == "rocksdb"
        assert [each.value for _, each in state.open(TOTALS).all()] == [20, 10]
        assert state.offsets("totals") == {("in", 0): 14}
    with pytest.raises(StateError, match="is not empty"):
        fetch_tasks(root, tmp_path / "copy")
    with pytest.raises(StateError, match="has no state of a topology"):
        fetch_tasks(tmp_path / "copy", tmp_path / "more")
    next((root / "live/subtopology-0/0_1/changes").iterdir()).unlink()
    removed = vacuum(root, grace_s=0)
    assert any("/commits/" in name for name in removed.files)


def test_a_missing_file_of_a_shard_is_named(root: Path, tmp_path: Path) -> None:
    task = make_task(root, compact_every=100)
    task.apply(0, epoch(0), rows(FIRST))
    next((root / "live/subtopology-0/0_0/changes").iterdir()).unlink()
    with pytest.raises(CorruptionError, match="is missing, but the newest commit"):
        fetch_tasks(root, tmp_path / "copy")


def test_a_vacuum_keeps_what_the_newest_commits_need(root: Path, machine: Any) -> None:
    task = make_task(root, compact_every=2)
    for number in range(7):
        task.apply(0, epoch(number), rows(FIRST, 3 * number))
        removed = vacuum(root, grace_s=0)
        assert bool(removed.files) == (number > 0)
    machine("other")
    assert texts(task.apply(0, epoch(7), rows(FIRST, 21)))[-1] == ("out", "a", "32", 12)
