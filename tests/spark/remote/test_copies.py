"""Copies of shards on workers: when they are used again, and when they are made anew."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kstore_core.errors import (
    CorruptionError,
    EngineLockedError,
    InconsistentStateError,
    StateError,
)
from kstore_core.spark.remote.copies import LocalCopy
from kstore_core.spark.root.storage.local import LocalFiles
from tests.spark.map_state.task_runs import ROWS, Model, amounts, epoch, make_task
from tests.spark.remote.machines import Machine, apply


def copies(machine_name: str, tmp_path: Path) -> list[str]:
    found = (tmp_path / f"cache-{machine_name}" / "live").glob("*/*")
    return sorted(path.name for path in found)


@dataclasses.dataclass
class Reads:
    """Files, and the names of those that were read or fetched."""

    inner: LocalFiles
    names_read: list[str] = dataclasses.field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def read(self, name: str) -> bytes:
        self.names_read.append(name)
        return self.inner.read(name)

    def download(self, files: Any, **options: Any) -> None:
        self.names_read += files
        self.inner.download(files, **options)

    def data(self) -> list[str]:
        """The changes and files of checkpoints that were read since the last call."""
        found = [name for name in self.names_read if "/commits/" not in name]
        self.names_read.clear()
        return [name for name in found if "/0_0/" in name]


def test_a_copy_is_used_again_and_only_lacks_what_others_wrote(
    storage: LocalFiles, machine: Machine
) -> None:
    reads: Any = Reads(storage)
    task, model = make_task(reads), Model()
    for number in range(3):
        assert apply(task, number, ROWS) == model.put(ROWS)
    assert reads.data() == []
    machine("other")
    assert apply(task, 3, ROWS) == model.put(ROWS)
    assert len(reads.data()) == 3
    machine("first")
    assert apply(task, 4, ROWS) == model.put(ROWS)
    assert len(reads.data()) == 1


@pytest.mark.parametrize("harm", ["changed", "removed", "boot", "marker", "ahead"])
def test_a_copy_that_may_differ_is_made_anew(
    storage: LocalFiles, tmp_path: Path, machine: Machine, harm: str
) -> None:
    reads: Any = Reads(storage)
    task, model = make_task(reads), Model()
    for number in range(2):
        assert apply(task, number, ROWS) == model.put(ROWS)
    (marker,) = (tmp_path / "cache-first/live").glob("*/0_0.json")
    data = marker.with_suffix("") / "lmdb/totals/data.mdb"
    if harm == "changed":
        with data.open("r+b") as file:
            file.write(b"x")
    elif harm == "removed":
        data.unlink()
    elif harm == "boot":
        marker.write_text(json.dumps({**json.loads(marker.read_text()), "boot": "earlier"}))
    elif harm == "marker":
        marker.write_text("{")
    else:  # A commit of this machine that never reached the object store.
        commit = json.loads(json.loads(marker.read_text())["commit"])
        commit["changes"][1]["sha256"] = "0" * 64
        document = {**json.loads(marker.read_text()), "commit": json.dumps(commit)}
        marker.write_text(json.dumps(document))
    assert apply(task, 2, ROWS) == model.put(ROWS)
    assert len(reads.data()) == 2
    assert apply(task, 3, ROWS) == model.put(ROWS)
    assert reads.data() == []


def test_a_function_that_fails_leaves_the_copy_in_use(storage: LocalFiles) -> None:
    reads: Any = Reads(storage)
    task = make_task(reads)
    apply(task, 0, ROWS)

    def fail(key: str, rows: Any, store: Any) -> None:
        store.put(key, -1)
        raise LookupError("no")

    with pytest.raises(LookupError):
        apply(make_task(reads, fail), 1, ROWS)
    assert apply(task, 1, [("a", 0)]) == [("a", 4)]
    assert reads.data() == []


def test_copies_that_no_task_has_used_for_a_week_are_removed(
    storage: LocalFiles, tmp_path: Path, machine: Machine
) -> None:
    task = make_task(storage)
    apply(task, 0, ROWS)
    (lock,) = (tmp_path / "cache-first/live").glob("*/0_0.lock")
    task.apply(1, epoch(0), amounts(ROWS))
    names = [f"0_{shard}{suffix}" for shard in (0, 1) for suffix in ("", ".json", ".lock")]
    assert copies("first", tmp_path) == names
    os.utime(lock, (0, 0))
    task.apply(2, epoch(0), amounts(ROWS))
    assert not lock.exists()
    assert "0_0" not in copies("first", tmp_path)
    assert apply(task, 1, [("a", 0)]) == [("a", 4)]


def damaged(storage: LocalFiles, kind: str) -> Path:
    (first, *_) = sorted((storage.path / "live/totals/0_0" / kind).iterdir())
    return first


def test_damage_is_told(storage: LocalFiles, machine: Machine) -> None:
    task = make_task(storage)
    apply(task, 0, ROWS)
    machine("other")
    change = damaged(storage, "changes")
    whole = change.read_bytes()
    change.write_bytes(whole[:-1])
    with pytest.raises(
        CorruptionError, match=r"arrow differs from its commit: .*pass another root"
    ):
        apply(task, 1, ROWS)
    change.unlink()
    with pytest.raises(CorruptionError, match=r"arrow is missing, but the newest commit .* names"):
        apply(task, 1, ROWS)
    change.write_bytes(whole)
    commit = damaged(storage, "commits")
    text = commit.read_text()
    for spoiled in ("{", "[]", text.replace('"epoch"', '"epocH"')):
        commit.write_text(spoiled)
        with pytest.raises(InconsistentStateError, match=r"01\.json is not a commit of a shard"):
            apply(task, 1, ROWS)
    commit.write_text(text.replace('"format":1', '"format":3'))
    with pytest.raises(StateError, match=r"has the layout 3, .* up to 2\. Upgrade kstore"):
        apply(task, 1, ROWS)
    commit.write_text(text)
    assert apply(task, 1, [("a", 0)]) == [("a", 4)]


def test_a_damaged_checkpoint_is_told(storage: LocalFiles, machine: Machine) -> None:
    task = make_task(storage, compact_every=1)
    apply(task, 0, ROWS)
    apply(task, 1, ROWS)
    machine("other")
    data = next(storage.path.glob("live/totals/0_0/checkpoints/*2-*/lmdb/totals/data.mdb"))
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    with pytest.raises(CorruptionError, match=r"data\.mdb differs .* pass another root and a new"):
        apply(task, 2, ROWS)


def test_a_copy_in_use_is_told(storage: LocalFiles) -> None:
    task = make_task(storage)
    apply(task, 0, ROWS)
    (place,) = {
        path.parent.name for path in Path(os.environ["KSTORE_SHARD_CACHE"]).glob("live/*/*")
    }
    with (
        LocalCopy(place, "0_0").locked(0),
        pytest.raises(EngineLockedError, match="another task on this machine uses") as caught,
    ):
        apply(task, 1, ROWS)
    assert "pass a greater lock_timeout_s" in caught.value.__notes__[0]
