"""A disk that is full: an error that says so, nothing lost, and on with it when there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environment.mounts import on_a_small_disk
from tests.environment.programs import SHAPES

ENGINES = pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
EACH_SHAPE = pytest.mark.parametrize("shape", SHAPES)


@ENGINES
@EACH_SHAPE
def test_a_commit_fails_and_nothing_is_lost(tmp_path: Path, engine: str, shape: str) -> None:
    on_a_small_disk(tmp_path, f"fill({str(tmp_path)!r}, {engine!r}, {shape!r}, 'process')")


@pytest.mark.parametrize(
    ("engine", "level"), [("lmdb", "power"), ("lmdb", "changelog"), ("rocksdb", "power")]
)
def test_at_every_level(tmp_path: Path, engine: str, level: str) -> None:
    on_a_small_disk(tmp_path, f"fill({str(tmp_path)!r}, {engine!r}, 'key_value', {level!r})")


@ENGINES
@pytest.mark.parametrize("shape", ["versioned", "window"])
def test_who_gives_up_finds_what_was_committed(tmp_path: Path, engine: str, shape: str) -> None:
    on_a_small_disk(tmp_path, f"give_up({str(tmp_path)!r}, {engine!r}, {shape!r}, 'process')")


@pytest.mark.parametrize("shape", ["key_value", "window"])
def test_without_a_log_a_tail_is_lost_with_its_offsets(tmp_path: Path, shape: str) -> None:
    """And is not lost unseen: nothing is committed until who wrote it has opened it again."""
    call = f"give_up({str(tmp_path)!r}, 'rocksdb', {shape!r}, 'changelog')"
    # The last part writes all rows again, before RocksDB has deleted the files of failed flushes.
    on_a_small_disk(tmp_path, call, size="48m")


@ENGINES
@pytest.mark.parametrize("shape", ["key_value", "window"])
def test_a_put_that_cannot_be_spilled_is_not_made(tmp_path: Path, engine: str, shape: str) -> None:
    on_a_small_disk(tmp_path, f"spill_full({str(tmp_path)!r}, {engine!r}, {shape!r})")


@ENGINES
@pytest.mark.parametrize("shape", ["key_value", "window"])
def test_a_log_on_the_same_disk(tmp_path: Path, engine: str, shape: str) -> None:
    logs = str(tmp_path / "logs")
    call = f"fill({str(tmp_path)!r}, {engine!r}, {shape!r}, 'process', {logs!r})"
    on_a_small_disk(tmp_path, call, size="36m")


@pytest.mark.parametrize("level", ["process", "power", "changelog"])
def test_a_log_that_is_full_beside_a_store_that_is_not(tmp_path: Path, level: str) -> None:
    (tmp_path / "small").mkdir()
    disk, logs = str(tmp_path / "small"), str(tmp_path / "small" / "logs")
    on_a_small_disk(tmp_path / "small", f"fill({disk!r}, 'lmdb', 'session', {level!r}, {logs!r})")
