"""Paths that lead nowhere, or somewhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstore_core import open_state, stores
from kstore_core.errors import StateError

ENGINES = pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
ORDERS = stores.key_value("orders")


@ENGINES
def test_a_name_that_is_too_long(tmp_path: Path, engine: str) -> None:
    with pytest.raises(StateError, match="cannot be created: File name too long"):
        open_state(tmp_path / ("x" * 300), engine=engine)


@ENGINES
@pytest.mark.parametrize("read_only", [False, True])
def test_links_that_lead_in_circles(tmp_path: Path, engine: str, read_only: bool) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(StateError, match=f"{tmp_path}"):
        open_state(tmp_path / "a" / "0_0", engine=engine, read_only=read_only)


@ENGINES
def test_a_link_is_followed_to_what_is_not_there_yet(tmp_path: Path, engine: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with open_state(tmp_path / "link" / "0_0", engine=engine) as state:
        state.open(ORDERS).put(b"k", b"v")
    with open_state(tmp_path / "target" / "0_0") as state:
        assert state.open(ORDERS).get(b"k") == b"v"


@ENGINES
def test_dots_lead_where_they_lead(tmp_path: Path, engine: str) -> None:
    (tmp_path / "a").mkdir()
    with open_state(tmp_path / "a" / ".." / "0_0", engine=engine) as state:
        state.open(ORDERS).put(b"k", b"v")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0_0", "a"]
    with open_state(tmp_path / "0_0") as state:
        assert state.open(ORDERS).get(b"k") == b"v"


@ENGINES
def test_a_working_directory_that_changes(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    windows = stores.window("w", 100, 10, segment_interval_ms=10)
    with open_state("0_0", engine=engine) as state:
        store = state.open(windows)
        monkeypatch.chdir(tmp_path / "elsewhere")
        for start in range(0, 60, 10):
            store.put(b"k", b"v", window_start=start)
            state.commit()
        assert len(list(store.all())) == 6
    assert list((tmp_path / "elsewhere").iterdir()) == []
    with open_state(tmp_path / "0_0") as state:
        assert len(list(state.open(windows).all())) == 6
