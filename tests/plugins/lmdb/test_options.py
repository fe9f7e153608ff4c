"""Options and durability levels, refused or passed on; the plug-in, found by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kstore_core.errors import SpecError
from kstore_lmdb import LMDBEngine, LMDBOptions
from tests.plugins.lmdb.conftest import OpenDatabase


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"map_size": 5}, "did you mean 'map_size_bytes'"),
        ({"map_size_bytes": 1.5}, "takes int"),
        ({"map_size_bytes": 10}, "at least 65536"),
        ({"format_version": "0.8"}, "'0.9', '1.0'"),
        ({"format_version": 1}, "takes str"),
        ({"max_namespaces": 1}, "at least 4"),
        ({"max_readers": 1}, "at least 4"),
    ],
)
def test_what_is_wrong_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(SpecError, match=text):
        LMDBEngine(options)


def test_options_reach_lmdb(open_database: OpenDatabase) -> None:
    database = open_database(map_size_bytes=(1 << 20) + 1, max_readers=77, format_version="1.0")
    native = database._environment.native
    assert native.info()["map_size"] == (1 << 20) + 4096
    assert native.max_readers() == 77
    assert native.lib_version()[0] == 1
    assert native.max_key_size() >= 1978
    assert LMDBEngine(LMDBOptions()).options == LMDBOptions()


@pytest.mark.parametrize(
    ("level", "synced"), [("process", False), ("changelog", False), ("power", True)]
)
def test_only_a_power_cut_takes_a_sync(
    open_database: OpenDatabase, level: str, synced: bool
) -> None:
    flags = open_database(durability=level)._environment.native.flags()
    assert flags["sync"] == synced
    assert flags["metasync"] == synced
    assert not flags["writemap"]
    assert not flags["map_async"]


def test_an_unknown_level(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="durability must be"):
        LMDBEngine().open(tmp_path, "s", durability="none")  # type: ignore[arg-type]


@pytest.mark.parametrize("store", ["", ".", "..", "a/b", "a\0", "a~b"])
def test_a_name_that_is_no_directory(tmp_path: Path, store: str) -> None:
    with pytest.raises(SpecError, match="cannot be the name of a store"):
        LMDBEngine().open(tmp_path, store)
    assert list(tmp_path.iterdir()) == []


def test_a_link_out_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "state" / "lmdb").mkdir(parents=True)
    (tmp_path / "state" / "lmdb" / "s").symlink_to(tmp_path)
    with pytest.raises(SpecError, match="outside of the state directory"):
        LMDBEngine().open(tmp_path / "state", "s")


@pytest.mark.parametrize(
    ("name", "given"),
    [("map_size_bytes", 1 << 70), ("max_namespaces", 1 << 31), ("max_readers", 1 << 31)],
)
def test_options_that_lmdb_cannot_take_are_refused_by_name(name: str, given: int) -> None:
    with pytest.raises(
        SpecError, match=f"option '{name}' must be at least .* and at most .*, not {given}"
    ):
        LMDBEngine({name: given})
