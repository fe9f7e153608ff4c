"""Checkpoints: whole, consistent, independent, and of live databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import EngineError
from kstore_rocksdb import RocksDBEngine
from kstore_rocksdb.database import RocksDBDatabase
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import numbered, put, scanned
from tests.support.threads import repeating


@pytest.fixture(params=["process", "changelog", "read-only"])
def source(request: pytest.FixtureRequest, open_database: OpenDatabase) -> RocksDBDatabase:
    """A database of 3000 rows, a part of them flushed, and two more namespaces."""
    level = "process" if request.param == "read-only" else request.param
    database = open_database(durability=level)
    for name in ("offsets", "other"):
        database.namespace(name)
        put(database, {b"n": name.encode()}, name)
    put(database, {b"%08d" % i: b"x" for i in range(2000)})
    database._flush()
    put(database, {b"%08d" % i: b"x" for i in range(2000, 3000)})
    return open_database(read_only=True) if request.param == "read-only" else database


def test_a_checkpoint_is_a_store(source: RocksDBDatabase, tmp_path: Path) -> None:
    target = tmp_path / "copies" / "rocksdb" / "s"
    source.checkpoint(target)
    assert RocksDBEngine().stores(tmp_path / "copies") == ["s"]
    for read_only in (True, False):
        copy = RocksDBEngine().open(tmp_path / "copies", "s", read_only=read_only)
        assert len(scanned(copy.namespace("default"))) == 3000
        assert copy.namespace("offsets").get(b"n") == b"offsets"
        assert copy.namespace("other").get(b"n") == b"other"
        copy.close()
    assert not list(target.parent.glob("*.tmp"))
    assert not any(file.is_symlink() for file in target.iterdir())


def test_a_checkpoint_goes_its_own_way(source: RocksDBDatabase, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    source.checkpoint(target)
    copy = RocksDBEngine().open_directory(target)
    copy.write({"default": Rows(deleted_ranges=[(b"", None)])})
    copy.namespace("default").native.compact_range(None, None)
    copy.close()
    assert len(scanned(source.namespace("default"))) == 3000
    source.close()
    again = RocksDBEngine().open(source.path.parents[1], "s", read_only=True)
    assert len(scanned(again.namespace("default"))) == 3000
    again.close()


def test_an_existing_target_is_left_alone(source: RocksDBDatabase, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    target.mkdir()
    (target / "file").touch()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    for existing in (target, target / "file", link):
        with pytest.raises(FileExistsError):
            source.checkpoint(existing)
    assert [file.name for file in target.iterdir()] == ["file"]


def test_a_failed_checkpoint_leaves_nothing(source: RocksDBDatabase, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises((EngineError, OSError)):
        source.checkpoint(tmp_path / "file" / "copy")
    with pytest.raises((EngineError, OSError)):
        source.checkpoint(tmp_path / ("x" * 300))
    assert len(scanned(source.namespace("default"))) == 3000


@pytest.mark.parametrize("level", ["process", "changelog"])
def test_checkpoints_beside_a_writer_are_of_one_moment(
    open_database: OpenDatabase, tmp_path: Path, level: str
) -> None:
    database = open_database(durability=level)
    database.namespace("offsets")

    def write(number: int) -> None:
        row = Rows([b"n"], [b"%d" % number])
        database.write({"default": row, "offsets": row})

    with repeating(write):
        for i in range(10):
            database.checkpoint(tmp_path / f"copy{i}")
    for i in range(10):
        copy = RocksDBEngine().open_directory(tmp_path / f"copy{i}", read_only=True)
        seen = {tuple(scanned(copy.namespace(name))) for name in copy.namespaces()}
        assert len(seen) == 1
        copy.close()


def test_a_checkpoint_of_an_empty_database(open_database: OpenDatabase, tmp_path: Path) -> None:
    open_database().checkpoint(tmp_path / "copy")
    copy = RocksDBEngine().open_directory(tmp_path / "copy")
    assert scanned(copy.namespace("default")) == []
    put(copy, numbered(10))
    copy.close()
