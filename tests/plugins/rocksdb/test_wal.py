"""Two write-ahead logs of one database, of which the older one has lost its end."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kstore_core import open_state, stores
from kstore_core.maintenance.verify import verify
from kstore_rocksdb.files.manifest import read_manifest
from kstore_rocksdb.files.readonly import KEPT
from kstore_rocksdb.files.wal import logs_beyond_gap

INPUT = ("input", 0)
ROWS = 5
SPEC = stores.key_value("orders")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a writer leaves that is killed while its first write buffer is being flushed."""
    for attempt in range(10):
        root = tmp_path_factory.mktemp(f"killed-{attempt}") / "0_0"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "tests.plugins.rocksdb.two_logs", str(root)]
        subprocess.run(command, env=environment, check=False)
        if len(logs(root)) == 2 and not flushed(root) and not logs_beyond_gap(database(root)):
            return root
    raise AssertionError("no writer was killed while it had two logs")


def database(root: Path) -> Path:
    return root / "rocksdb" / "orders"


def flushed(root: Path) -> bool:
    """Return True if the manifest names a table file: the flush ended before the kill."""
    return bool(read_manifest(database(root)).live)


def logs(root: Path) -> list[Path]:
    found = sorted(database(root).glob("*.log"))
    return [log for log in found if log.stat().st_size]


def held(root: Path, *, read_only: bool = False) -> tuple[int, set[int]]:
    """The last commit that is told, and those of which all rows are there."""
    with open_state(root, read_only=read_only) as state:
        told = state.offsets().get(INPUT, -1)
        keys = [key for key, _ in state.open(SPEC).all()]
    commits = [int(key.split(b"-")[0]) for key in keys]
    return told, {commit for commit in commits if commits.count(commit) == ROWS}


def copied(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "0_0"))


def test_logs_that_follow_one_another_are_replayed(killed: Path, tmp_path: Path) -> None:
    root = copied(killed, tmp_path)
    told, commits = held(root, read_only=True)
    assert held(root) == (told, commits)
    assert commits == set(range(told + 1))
    assert not list(root.rglob(f"*{KEPT}"))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_what_lies_beyond_a_gap_does_not_count(
    killed: Path, tmp_path: Path, share: float, caplog: pytest.LogCaptureFixture
) -> None:
    last, _ = held(copied(killed, tmp_path / "whole"))
    root = copied(killed, tmp_path)
    older, newer = logs(root)
    kept = newer.read_bytes()
    os.truncate(older, int(share * older.stat().st_size))
    told, commits = held(root, read_only=True)
    assert told < last
    assert commits == set(range(told + 1))
    assert newer.read_bytes() == kept, "reading changes nothing"
    assert verify(root).exit_code == 0
    with caplog.at_level(logging.WARNING):
        assert held(root) == (told, commits)
    aside = newer.with_name(newer.name + KEPT)
    assert f"{aside.name} still contains these rows" in caplog.text
    assert aside.read_bytes() == kept
    assert held(root, read_only=True) == (told, commits)
    with open_state(root) as state:
        state.open(SPEC).put(b"999-0", b"v")
        state.commit({INPUT: 999})
    assert held(root)[0] == 999


def test_the_older_log_is_gone(killed: Path, tmp_path: Path) -> None:
    root = copied(killed, tmp_path)
    older, _ = logs(root)
    older.unlink()
    for table in database(root).glob("*.sst"):
        table.unlink()  # of the flush that was killed; with it the manifest is found to be short
    told, commits = held(root)
    assert commits == set(range(told + 1))
