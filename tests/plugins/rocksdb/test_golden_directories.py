"""Directories that Kafka Streams wrote, and directories that it could have written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kstore_rocksdb import RocksDBEngine
from tests.plugins.rocksdb.support import put, scanned
from tests.support.golden import GOLDEN, manifest, raw_rows, unpack

NAMES = sorted(
    path.name.removesuffix(".tar.gz")
    for pattern in ("kv_*.tar.gz", "versioned*.tar.gz")
    for path in (GOLDEN / "dirs").glob(pattern)
)
FAMILIES = json.loads((GOLDEN / "rocksdb_options.json").read_text())["column_families_per_db"]


def families(name: str) -> list[str]:
    return sorted(line["cf"] for line in manifest(name)["raw_cf"])


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_found(tmp_path: Path, name: str, read_only: bool) -> None:
    root = unpack(name, tmp_path)
    assert RocksDBEngine().stores(root) == [name]
    for _ in range(2):
        database = RocksDBEngine().open(root, name, read_only=read_only)
        assert sorted(database.namespaces()) == families(name)
        for family in families(name):
            rows = raw_rows(name, family)
            namespace = database.namespace(family)
            moment = database.snapshot().namespace(family)
            for each in (namespace, moment):
                assert scanned(each) == rows
                assert scanned(each, reverse=True) == rows[::-1]
                assert each.get_many([key for key, _ in rows]) == [value for _, value in rows]
                assert all(each.get(key) == value for key, value in rows)
        database.close()


@pytest.mark.parametrize("name", NAMES)
def test_segments_open_too(tmp_path: Path, name: str) -> None:
    """A directory of any place and name is a database."""
    root = unpack(name, tmp_path)
    target = tmp_path / "windows" / "windows.1200000"
    target.parent.mkdir()
    shutil.move(root / "rocksdb" / name, target)
    database = RocksDBEngine().open_directory(target)
    assert sorted(database.namespaces()) == families(name)
    database.close()


@pytest.mark.parametrize(
    "name", sorted(path.name.removesuffix(".tar.gz") for path in (GOLDEN / "dirs").glob("w*.gz"))
)
def test_every_row_of_every_segment_is_found(tmp_path: Path, name: str) -> None:
    root = unpack(name, tmp_path)
    rows: dict[tuple[str, str], list[tuple[bytes, bytes]]] = {}
    for line in manifest(name)["raw"]:
        row = bytes.fromhex(line["key"]), bytes.fromhex(line["value"])
        rows.setdefault((line["db"], line["cf"]), []).append(row)
    assert rows
    for (path, family), expected in rows.items():
        database = RocksDBEngine().open_directory(root / path, read_only=True)
        assert scanned(database.namespace(family)) == sorted(expected)
        database.close()


def kinds(names: set[str]) -> set[str]:
    """What files there are, without their numbers: ``MANIFEST``, ``.sst``."""
    return {
        name.partition("-")[0].lstrip("0123456789")
        for name in names
        if not name.startswith("LOG.old")
    }


@pytest.mark.parametrize("name", sorted(FAMILIES.keys() & set(NAMES)))
def test_a_database_of_ours_has_the_same_families(tmp_path: Path, name: str) -> None:
    (expected,) = FAMILIES[name].values()
    database = RocksDBEngine().open(tmp_path, name)
    for family in expected:
        for key, value in raw_rows(name, family):
            database.namespace(family)
            put(database, {key: value}, family)
    database.close()
    again = RocksDBEngine().open(tmp_path, name, read_only=True)
    assert sorted(again.namespaces()) == sorted(expected)
    for family in expected:
        assert scanned(again.namespace(family)) == raw_rows(name, family)
    again.close()
    kafkas = {file.name for file in (unpack(name, tmp_path / "x") / "rocksdb" / name).iterdir()}
    ours = {file.name for file in (tmp_path / "rocksdb" / name).iterdir()}
    assert kinds(ours) == kinds(kafkas) | {"rocksdict"}
