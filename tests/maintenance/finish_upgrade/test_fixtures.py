"""State directories that earlier versions of kstore left open for ever: tests/data/make.py."""

from __future__ import annotations

import atexit
import functools
import hashlib
import shutil
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kstore_core import formats, open_state
from kstore_core.discovery.registry import engine_class
from kstore_core.maintenance.finish_upgrade.finishing import upgrade
from kstore_core.spec import StoreSpec
from tests.data.make import HERE, contents, plans, put, row_counts
from tests.support.engines import ENGINES
from tests.support.golden import lines

STORES = [
    (path.stem, line)
    for path in sorted(HERE.glob("*.jsonl"))
    for line in lines(path)
    if "store" in line
]


@functools.cache
def unpacked(directory: str) -> Path:
    """A directory of the archives, from which each test copies one store."""
    place = Path(tempfile.mkdtemp(prefix="kstore-fixtures-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    with tarfile.open(HERE / f"{directory}.tar.gz") as archive:
        archive.extractall(place, filter="data")
    return place / directory


def names(value: Any) -> str:
    return value["store"] if isinstance(value, dict) else str(value)


@pytest.fixture
def path(directory: str, line: dict[str, Any], tmp_path: Path) -> Path:
    """A directory, without the stores that are not of this line."""
    others = shutil.ignore_patterns(*(plans().keys() - {line["store"]}))
    return shutil.copytree(unpacked(directory), tmp_path / directory, ignore=others)


def spec(line: dict[str, Any]) -> StoreSpec:
    return plans()[line["store"]].last


def digests(path: Path) -> dict[Path, str]:
    return {
        file: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != "lock.mdb"  # where LMDB notes its readers
    }


every_store = pytest.mark.parametrize(("directory", "line"), STORES, ids=names)


def test_there_is_a_store_of_every_plan_on_every_engine_that_keeps_its_rows() -> None:
    kept = [name for name in ENGINES if engine_class(name).capabilities.persistent]
    for engine in kept:
        held = [line for directory, line in STORES if directory.startswith(f"{engine}-")]
        assert {(line["store"], *line["formats"]) for line in held} == {
            (name, first.format.name, last.format.name) for name, (first, last) in plans().items()
        }


@pytest.mark.slow
@every_store
def test_it_is_read_and_not_changed(path: Path, line: dict[str, Any]) -> None:
    before = digests(path)
    with open_state(path, read_only=True) as state:
        store = state.open(spec(line))
        assert contents(store) == line["contents"]
        assert [[*p, offset] for p, offset in sorted(store.offsets().items())] == line["offsets"]
        assert store.position["input"] == {2: 7}
        stored = state.stored_spec(line["store"])
        assert stored is not None
        assert stored.describes(spec(line))
    assert digests(path) == before


@every_store
def test_it_holds_the_rows_that_it_held(path: Path, line: dict[str, Any]) -> None:
    assert counted(path, line) == line["rows"]


def counted(path: Path, line: dict[str, Any]) -> dict[str, int]:
    with open_state(path, read_only=True) as state:
        return row_counts(state.engine, path, line["store"])


@pytest.mark.slow
@every_store
def test_it_is_written_to(path: Path, line: dict[str, Any]) -> None:
    with open_state(path) as state:
        store = state.open(spec(line))
        put(store, b"new", b"value", 9_900)
        if store.spec.format.versioned:
            assert contents(store) == line["contents"]
            assert store.get(b"new").value == b"value"
        else:
            added = [row for row in contents(store) if row[0] == b"new".hex()]
            assert [row[-1]["value"] for row in added] == [b"value".hex()]
            assert [row for row in contents(store) if row not in added] == line["contents"]
        expected = contents(store)
    with open_state(path, read_only=True) as state:
        assert contents(state.open(spec(line))) == expected


@every_store
def test_it_is_upgraded(path: Path, line: dict[str, Any]) -> None:
    kept = spec(line)
    done = upgrade(path, line["store"])
    assert done.before is kept.format
    with open_state(path) as state:
        converted = contents(state.open(replace(kept, format=done.format)))
    assert [bare(row) for row in converted] == [bare(row) for row in line["contents"]]
    left = counted(path, line)
    assert all(left.get(formats.by_name(older).namespace, 0) == 0 for older in done.format.upgrades)


def bare(row: list[Any]) -> list[Any]:
    """A row without what an upgrade adds, if it is what an upgrade adds."""
    *place, found = row
    if isinstance(found, list):
        return [*place, [without_additions(record) for record in found]]
    return [*place, without_additions(found)]


def without_additions(record: dict[str, Any]) -> dict[str, Any]:
    additions = {"timestamp": -1, "headers": []}
    return {name: value for name, value in record.items() if additions.get(name) != value}
