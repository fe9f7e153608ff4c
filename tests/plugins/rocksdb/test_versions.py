"""The versions that the pages name are those that are measured."""

from __future__ import annotations

import re
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

from kstore_rocksdb import RocksDBEngine
from tests.support.golden import GOLDEN
from tests.support.places import ROOT

WRITTEN = re.compile(r"rocksdb_version=([\d.]+)")


def test_the_page_of_the_engine_names_the_rocksdb_of_the_binding(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "engines" / "rocksdb.md").read_text()
    said = re.search(r"rocksdict ([\d.]+) includes RocksDB ([\d.]+)\.", page)
    assert said is not None
    if version("rocksdict") != said[1]:
        pytest.skip(f"the page is about rocksdict {said[1]}")
    database = RocksDBEngine().open(tmp_path, "s")
    database.close()
    (written,) = {
        found
        for options in database.path.glob("OPTIONS-*")
        for found in WRITTEN.findall(options.read_text())
    }
    assert written == said[2]


def test_the_pages_name_the_rocksdb_that_was_recorded() -> None:
    recorded = set()
    for archive in (GOLDEN / "dirs").glob("*.tar.gz"):
        with tarfile.open(archive) as files:
            for member in files:
                if "OPTIONS-" in member.name and (file := files.extractfile(member)) is not None:
                    recorded.update(WRITTEN.findall(file.read().decode()))
    (one,) = recorded
    readme = (ROOT / "README.md").read_text().replace("\n", " ")
    assert re.search(rf"with RocksDB {re.escape(one)}\s", readme)
    page = (ROOT / "docs" / "compatibility.md").read_text()
    assert f"the state directories were recorded with RocksDB {one}." in page.replace("\n", " ")
