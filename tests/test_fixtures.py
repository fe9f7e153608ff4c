"""State directories that earlier versions of kstore left open for ever: tests/data/make.py."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kstore_core import formats, open_state
from kstore_core.engine import Engine
from kstore_core.registry import engine_class
from kstore_core.spec import StoreSpec
from kstore_core.upgrade import upgrade
from tests.data.make import HERE, contents, plans, spec_of
from tests.engines import ENGINES
from tests.golden import lines

STORES = [
    (path.stem, line)
    for path in sorted(HERE.glob("*.jsonl"))
    for line in lines(path)
    if "store" in line
]


def unpack(directory: str, target: Path) -> Path:
    with tarfile.open(HERE / f"{directory}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target / directory


def names(value: Any) -> str:
    return value["store"] if isinstance(value, dict) else str(value)


@pytest.fixture
def path(directory: str, tmp_path: Path) -> Path:
    return unpack(directory, tmp_path)


def spec(line: dict[str, Any]) -> StoreSpec:
    return spec_of(line["store"], formats.by_name(line["formats"][1]))


def digests(path: Path) -> dict[Path, str]:
    return {
        file: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != "lock.mdb"  # where LMDB notes its readers
    }


every_store = pytest.mark.parametrize(("directory", "line"), STORES, ids=names)


def test_there_is_a_store_of_every_format_and_every_upgrade_on_every_engine_that_keeps_its_rows():
    kept = [name for name in ENGINES if engine_class(name).capabilities.persistent]
    for engine in kept:
        held = [line for directory, line in STORES if directory.startswith(f"{engine}-")]
        assert {tuple(line["formats"]) for line in held} == {
            (first.name, last.name) for first, last in plans().values()
        }


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
    assert row_counts(path, line) == line["rows"]


def row_counts(path: Path, line: dict[str, Any]) -> dict[str, int]:
    with open_state(path, read_only=True) as state:
        engine: Engine = state.engine
    database = engine.open(path, line["store"], read_only=True)
    try:
        return {
            name: sum(len(keys) for keys, _ in database.namespace(name).scan())
            for name in sorted(database.namespaces())
        }
    finally:
        database.close()


@every_store
def test_it_is_written_to(path: Path, line: dict[str, Any]) -> None:
    with open_state(path) as state:
        store = state.open(spec(line))
        more = {"timestamp": 9_900} if store.spec.format.timestamped else {}
        store.put(b"new", b"value", **more)
        assert contents(store) == sorted(
            [*line["contents"], *(() if store.spec.format.versioned else [added(store)])]
        )
    with open_state(path, read_only=True) as state:
        found = state.open(spec(line)).get(b"new")
        assert found == b"value" or found.value == b"value"


def added(store: Any) -> list[Any]:
    return next(row for row in contents(store) if row[0] == b"new".hex())


@every_store
def test_it_is_upgraded(path: Path, line: dict[str, Any]) -> None:
    last = formats.by_name(line["formats"][1])
    done = upgrade(path, line["store"])
    assert done.before is last
    newest = spec_of(line["store"], done.format)
    with open_state(path) as state:
        converted = contents(state.open(newest))
    assert [bare(row) for row in converted] == [bare(row) for row in line["contents"]]
    left = row_counts(path, line)
    assert all(left.get(formats.by_name(older).namespace, 0) == 0 for older in done.format.upgrades)


def bare(row: list[Any]) -> list[Any]:
    """A row without what an upgrade adds, if it is what an upgrade adds."""
    key, found = row
    if isinstance(found, list):
        return [key, [without_additions(record) for record in found]]
    return [key, without_additions(found)]


def without_additions(record: dict[str, Any]) -> dict[str, Any]:
    additions = {"timestamp": -1, "headers": []}
    return {name: value for name, value in record.items() if additions.get(name) != value}
