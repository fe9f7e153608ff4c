"""What `rescale_tasks` refuses; in each case there is no target."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state, stores
from kstore_core.codec import partition
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Rows
from kstore_core.errors import EngineLockedError, SpecError, StateError
from kstore_core.maintenance.rescale import rescale_tasks
from kstore_core.maintenance.rescale.rescaling import _built

SPEC = stores.key_value("s")
KEYS = [b"k%d" % number for number in range(12)]


def fill(task: Path, tasks: int, spec: Any = SPEC, engine: str = "lmdb") -> None:
    number = int(task.name.rpartition("_")[2])
    with open_state(task, engine=engine) as state:
        store = state.open(spec)
        for key in KEYS:
            if partition(key, tasks) == number:
                store.put(key, b"v")


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Path]:
    """An application with 3 tasks; the test ends without a target, or anything beside it."""
    for number in range(3):
        fill(tmp_path / "app" / f"0_{number}", 3)
    yield tmp_path / "app"
    assert {path.name for path in tmp_path.iterdir()} <= {"app", "occupied"}


def refused(source: Path, error: type[Exception], match: str, **options: Any) -> None:
    with pytest.raises(error, match=match):
        rescale_tasks(source, source.parent / "new", **{"partitions": 2, **options})


@pytest.mark.parametrize("partitions", [0, True, "2", 2**31])
def test_a_number_of_tasks(source: Path, partitions: Any) -> None:
    refused(source, SpecError, "is not a valid number of partitions", partitions=partitions)


def test_the_present_number(source: Path) -> None:
    refused(source, SpecError, "already has 3 tasks; pass another", partitions=3)


def test_a_key_of_another_partitioner(source: Path) -> None:
    key = next(key for key in KEYS if partition(key, 3) == 2)
    with open_state(source / "0_1") as state:
        state.open(SPEC).put(key, b"v")
    refused(
        source,
        SpecError,
        rf"the key {key!r} of the store 's' is in .*0_1, but Kafka's murmur2 partitioner puts it "
        "into partition 2 of 3",
    )


def test_tasks_that_are_missing(source: Path, tmp_path: Path) -> None:
    refused(source, StateError, "must have the 4 tasks 0_0 to 0_3", tasks=4)
    refused(source, StateError, "must have the 2 tasks 0_0 to 0_1", tasks=2)
    shutil.rmtree(source / "0_1")
    refused(source, StateError, "has the tasks 0_0, 0_2, but must have the 3 tasks")
    refused(tmp_path / "nothing", StateError, "has no task directories such as 0_0")
    shutil.rmtree(source / "0_0")
    shutil.rmtree(source / "0_2")
    (source / "0_0").mkdir()
    refused(source, StateError, "no task in .* has a store on disk")


def test_stores_that_are_missing(source: Path) -> None:
    refused(source, StateError, "have no store 'x'; they have: s", store="x")
    refused(source, StateError, "have no store 'y'; they have: s", spec=stores.key_value("y"))
    fill(source / "0_1", 3, stores.key_value("more"))
    refused(source, StateError, r"0_0 lacks the stores more, which other tasks")


def test_sub_topologies(source: Path) -> None:
    fill(source / "1_0", 1)
    refused(source, SpecError, "has tasks of the sub-topologies 0, 1")
    refused(source, StateError, "no tasks with stores of the sub-topology '2'", subtopology="2")


def test_engines_that_differ(source: Path) -> None:
    shutil.rmtree(source / "0_2")
    fill(source / "0_2", 3, engine="rocksdb")
    refused(source, StateError, "different engines: rocksdb in 0_2, lmdb in 0_0")


def test_specs_that_differ(source: Path) -> None:
    shutil.rmtree(source / "0_2")
    with open_state(source / "0_2", engine="lmdb") as state:
        state.open(stores.timestamped_key_value("s"))
    refused(source, StateError, r"the store 's' has different specs in .*0_2 and in .*0_0")
    refused(source, SpecError, "shape", spec=stores.window("s", 1000, 10))


def test_a_store_that_was_not_closed(source: Path) -> None:
    database = make_engine("lmdb").open(source / "0_1", "s")
    database.write({"offsets": Rows([b"status"], [b"\0" * 7 + b"\1"])})
    database.close()
    refused(source, StateError, r"the store 's' in .*0_1 was not closed")


def test_targets(source: Path, tmp_path: Path) -> None:
    occupied = tmp_path / "occupied"
    occupied.mkdir()
    (occupied / "file").touch()
    with pytest.raises(StateError, match="occupied exists and is not an empty directory"):
        rescale_tasks(source, occupied, partitions=2)
    with pytest.raises(StateError, match="is not an empty directory"):
        rescale_tasks(source, occupied / "file", partitions=2)
    for target in (source, source / "new", tmp_path):
        with pytest.raises(StateError, match="or one contains the other"):
            rescale_tasks(source, target, partitions=2)


def test_a_target_that_another_program_makes_meanwhile(source: Path, tmp_path: Path) -> None:
    occupied = tmp_path / "occupied"

    def appear(progress: Any) -> None:
        if progress.step == "publish":
            occupied.mkdir()
            (occupied / "file").touch()

    with pytest.raises(StateError, match="is not an empty directory"):
        rescale_tasks(source, occupied, partitions=2, on_progress=appear)
    assert [path.name for path in occupied.iterdir()] == ["file"]


def test_an_error_of_the_callback_ends_the_rescale(source: Path) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("enough")

    refused(source, RuntimeError, "enough", on_progress=fail)


def test_a_task_that_is_open(source: Path) -> None:
    with open_state(source / "0_1"):
        refused(source, EngineLockedError, r"0_1 is open for writing in this process")


def test_another_rescale_to_the_same_target(source: Path, tmp_path: Path) -> None:
    with _built(tmp_path / "new", "lmdb"):
        refused(source, EngineLockedError, r"\.new\.rescaling is open for writing")
    shutil.rmtree(tmp_path / "new")


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_an_application_that_runs(source: Path) -> None:
    """Java locks a file as lockf does: for a process, and unknown to flock."""
    lock = source / ".lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        refused(source, EngineLockedError, rf"Kafka Streams runs in .*app in process {holder.pid}")
        holder.stdin.close()
    assert lock.exists()
    with lock.open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_lock_that_cannot_be_written(source: Path) -> None:
    (source / ".lock").mkdir()
    refused(source, StateError, "the lock file of Kafka Streams, .* cannot be opened")
