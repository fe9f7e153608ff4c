"""The page tells what the tests found: this needs no Java."""

from __future__ import annotations

from tests.interop.harness import pinned
from tests.interop.kinds import EDGES, KINDS
from tests.interop.results import COLUMNS, PAGE, embedded, recorded, release

UPGRADES = {column for column in COLUMNS if column.startswith("upgrade")}
PASSED_ON = {column for column in COLUMNS if column.endswith("goes on")}
NEWER = release(kafka=pinned("kafka.version"), rocksdb=pinned("rocksdb.newer"))


def test_the_page_tells_what_was_found() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == embedded(page), "write it anew: python -m tests.interop.results"


def test_every_kind_was_tested_in_every_direction_with_the_pinned_release() -> None:
    newer = {newer.name for _, newer in EDGES}
    (of_release,) = [
        outcomes
        for ran, outcomes in recorded().items()
        if ran.startswith(f"{pinned('kafka.version')} ") and ran != NEWER
    ]
    assert of_release.keys() == {kind.name for kind in KINDS}
    for kind, outcomes in of_release.items():
        assert outcomes.keys() == COLUMNS.keys() - (set() if kind in newer else UPGRADES)
        assert set(outcomes.values()) == {"yes"}, kind


def test_every_kind_was_passed_on_to_the_newer_rocksdb() -> None:
    of_newer = recorded()[NEWER]
    assert of_newer.keys() == {kind.name for kind in KINDS}
    for kind, outcomes in of_newer.items():
        assert outcomes.keys() == PASSED_ON
        assert set(outcomes.values()) == {"yes"}, kind


def test_the_pages_name_what_was_tested() -> None:
    (ran,) = {*recorded()} - {NEWER}
    kafka, rocksdb = ran.split(" with RocksDB ")
    newer = pinned("rocksdb.newer")
    engine = (PAGE.parent / "engines" / "rocksdb.md").read_text(encoding="utf-8")
    assert f"Kafka Streams {kafka} includes RocksDB {rocksdb}." in engine.replace("\n", " ")
    assert f"RocksDB {rocksdb} and {newer} write" in engine.replace("\n", " ")
    readme = (PAGE.parents[1] / "README.md").read_text(encoding="utf-8").replace("\n", " ")
    assert f"release {kafka}, with its own RocksDB {rocksdb} and with RocksDB {newer}" in readme
