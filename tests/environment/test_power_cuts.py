"""At the level "power" names are synced, too: no file is lost with its directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kstore_core import open_state, stores

ENGINES = pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories that are synced from Python."""
    fsync, found = os.fsync, []

    def noted(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if path.is_dir():
            found.append(path)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    return found


def write(root: Path, engine: str, level: str) -> None:
    with open_state(
        root / "app" / "0_0",
        engine=engine,
        durability=level,
        changelog=root / "all" / "logs",
    ) as state:
        state.open(stores.key_value("orders")).put(b"k", b"v")
        state.open(stores.window("w", 100, 10)).put(b"k", b"v", window_start=0)
        state.commit({("t", 0): 1})


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="tells descriptors by /proc")
@ENGINES
def test_every_new_name_is_synced_in_its_directory(
    tmp_path: Path, engine: str, synced: list[Path]
) -> None:
    write(tmp_path, engine, "power")
    state, logs = tmp_path / "app" / "0_0", tmp_path / "all" / "logs"
    names = {tmp_path, state.parent, state, logs.parent, logs, *logs.iterdir(), state / engine}
    if engine == "rocksdb":
        names.add(state / "w")  # where its segments are
    assert names <= set(synced)


@ENGINES
def test_no_other_level_pays_for_it(tmp_path: Path, engine: str, synced: list[Path]) -> None:
    write(tmp_path, engine, "process")
    if (
        engine == "rocksdb"
    ):  # the name of a new segment, once: see decisions/commits/segment-numbers.md
        assert {path.name for path in synced} <= {"w", "0_0"}
    before = len(synced)
    write(tmp_path, engine, "process")
    assert len(synced) == before
