"""Directories and file systems that cannot be written: readers read, writers are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environment.mounts import on_a_read_only_mount, without_privileges
from tests.environment.programs import prepare

ENGINES = pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
SHAPES = pytest.mark.parametrize("shape", ["key_value", "session"])


@ENGINES
@SHAPES
def test_a_read_only_mount(tmp_path: Path, engine: str, shape: str) -> None:
    prepare(tmp_path, engine, shape)
    call = f"refuse_to_write({str(tmp_path)!r}, {engine!r}, {shape!r})"
    on_a_read_only_mount(tmp_path, call)


@ENGINES
@SHAPES
def test_a_read_only_directory(tmp_path: Path, engine: str, shape: str) -> None:
    prepare(tmp_path, engine, shape)
    everything = [tmp_path, *tmp_path.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        without_privileges(f"refuse_to_write({str(tmp_path)!r}, {engine!r}, {shape!r})")
    finally:
        for path in everything:
            path.chmod(0o755 if path.is_dir() else 0o644)
