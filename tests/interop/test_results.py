"""The page tells what the tests found: this needs no Java."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from tests.interop.harness import PROJECT
from tests.interop.kinds import EDGES, KINDS
from tests.interop.results import COLUMNS, PAGE, embedded, recorded

UPGRADES = {column for column in COLUMNS if column.startswith("upgrade")}


def pinned_release() -> str:
    pom = ElementTree.parse(PROJECT / "pom.xml")
    version = pom.find("./{*}properties/{*}kafka.version")
    assert version is not None
    assert version.text is not None
    return version.text


def test_the_page_tells_what_was_found() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == embedded(page), "write it anew: python -m tests.interop.results"


def test_every_kind_was_tested_in_every_direction_with_the_pinned_release() -> None:
    newer = {newer.name for _, newer in EDGES}
    of_release = recorded()[pinned_release()]
    assert of_release.keys() == {kind.name for kind in KINDS}
    for kind, outcomes in of_release.items():
        assert outcomes.keys() == COLUMNS.keys() - (set() if kind in newer else UPGRADES)
        assert set(outcomes.values()) == {"yes"}, kind
