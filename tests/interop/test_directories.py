"""One directory, passed from one side to the other and back.

Beside it lies another one in which Kafka Streams alone does the same. Whatever is asked of the one
must give what the other gives, and at the end of every part the same rows must lie in both. Kafka
Streams does it once for all tests that pass the same on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.interop.differences import disagreements
from tests.interop.directories import STATE, differing, sit
from tests.interop.harness import Harness
from tests.interop.kinds import EDGES, KINDS, NAME, Kind
from tests.interop.lives import (
    NOW,
    PARTS,
    everything,
    first_segment,
    lookup,
    reads,
    scans,
    wake,
    writes,
)
from tests.interop.results import Cell
from tests.interop.sides import Kafka, KStore, Operation, Side, data_rows
from tests.support.sound import assert_sound

LEFT = "index"
"""What verify finds after Kafka: index rows whose rows were deleted."""


class Sitting(NamedTuple):
    """What Kafka Streams alone answers from the opening of a directory to its closing.

    Attributes
    ----------
    kind : Kind
        The kind of store that it opens.
    operations : list of dict
    results : list
    rows : list of tuple
        The rows in the directory afterwards.
    """

    kind: Kind
    operations: list[Operation]
    results: list[Any]
    rows: list[tuple[str, str, str, str]]


class Alone:
    """Directories in which Kafka Streams alone works."""

    def __init__(self, kafka: Harness, new_directory: Callable[[], Path]) -> None:
        self._kafka = kafka
        self._new_directory = new_directory
        self._kept: dict[tuple[str, ...], list[Sitting]] = {}

    def life(self, kind: Kind) -> list[Sitting]:
        """The sittings of a directory, one for each part."""
        return self._once(self._live, kind)

    def upgrade(self, older: Kind, newer: Kind) -> list[Sitting]:
        """The sittings of a directory that is upgraded; the first one writes the older format."""
        return self._once(self._upgraded, older, newer)

    def _once(self, work: Callable[..., Iterator[Sitting]], *kinds: Kind) -> list[Sitting]:
        names = tuple(kind.name for kind in kinds)
        if names not in self._kept:
            self._kept[names] = list(work(self._new_directory(), *kinds))
        return self._kept[names]

    def _live(self, directory: Path, kind: Kind) -> Iterator[Sitting]:
        for part in range(PARTS):
            operations = [
                STATE, *wake(kind, part), *reads(kind), *writes(kind, part), *reads(kind), STATE
            ]  # fmt: skip
            results = sit(Kafka(self._kafka), kind, directory, operations)
            rows = data_rows(self._kafka, kind, directory, first_segment=first_segment(kind, part))
            yield Sitting(kind, operations, results, rows)

    def _upgraded(self, directory: Path, older: Kind, newer: Kind) -> Iterator[Sitting]:
        side, asked = Kafka(self._kafka), reads(newer)
        written = [*writes(older, 0), everything(older)]
        points = [lookup(older, row) for row in sit(side, older, directory / "other", written)[-1]]
        for kind, operations in (
            (older, [*writes(older, 0), *reads(older)]),
            (newer, [*wake(newer, 0, 1), *scans(newer), *points[::3]]),
            (newer, [STATE, *wake(newer, 0, 2), *asked, *points[1::3], *writes(newer, 1)]),
            (newer, [STATE, *wake(newer, 1), *asked, *points[2::3], *writes(newer, 2)]),
            (newer, [*wake(newer, 2), *asked]),
        ):
            results = sit(side, kind, directory / "alone", operations)
            rows = data_rows(self._kafka, newer, directory / "alone")
            assert_sound(directory / "alone", kind.spec, besides=LEFT)
            yield Sitting(kind, operations, results, rows)


@pytest.fixture(scope="module")
def alone(kafka: Harness, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """What Kafka Streams alone does, in directories of its own."""
    return Alone(kafka, lambda: tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("first", ["Kafka", "kstore"])
def test_a_directory_goes_to_the_other_side_and_back(
    kafka: Harness, alone: Alone, tmp_path: Path, cell: Cell, first: str, kind: Kind
) -> None:
    second = "kstore" if first == "Kafka" else "Kafka"
    with cell(kind, f"{first} writes, {second} goes on"):
        pass_on(alone, kafka, tmp_path, kind, first, second)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("first", ["Kafka", "kstore"])
def test_a_directory_goes_to_a_newer_rocksdb_and_back(
    newer: Harness, alone: Alone, tmp_path: Path, newer_cell: Cell, first: str, kind: Kind
) -> None:
    second = "kstore" if first == "Kafka" else "Kafka"
    with newer_cell(kind, f"{first} writes, {second} goes on"):
        pass_on(alone, newer, tmp_path, kind, first, second)


def pass_on(
    alone: Alone, kafka: Harness, directory: Path, kind: Kind, first: str, second: str
) -> None:
    """Pass a directory between ``kafka`` and kstore, beside one that Kafka Streams has alone."""
    sides: dict[str, Side] = {"Kafka": Kafka(kafka), "kstore": KStore()}
    for part, sitting in enumerate(alone.life(kind)):
        side = sides[second if part % 2 else first]
        passed = sit(side, kind, directory, sitting.operations)
        assert not differing(side, kind, sitting.operations, sitting.results, passed)
        live = first_segment(kind, part)
        assert data_rows(kafka, kind, directory, first_segment=live) == sitting.rows
        assert_sound(directory, kind.spec, besides=LEFT)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kstore_reads_what_kafka_wrote_and_changes_nothing(
    kafka: Harness, tmp_path: Path, cell: Cell, kind: Kind
) -> None:
    wanted = reads(kind)
    with cell(kind, "reads"):
        written = sit(Kafka(kafka), kind, tmp_path, [*writes(kind, 0), *wanted])
        before = kafka.raw(tmp_path, NAME)
        if kind.shape == "versioned":
            # Kafka hides history once it is reopened, and forgets what has expired.
            theirs = written[-len(wanted) :]
            pairs = [
                (operation, result)
                for operation, result in zip(wanted, theirs, strict=True)
                if operation.get("as_of", NOW["versioned"]) >= NOW["versioned"] - 1000
            ]
            wanted, theirs = [list(column) for column in zip(*pairs, strict=True)]
        else:
            theirs = sit(Kafka(kafka), kind, tmp_path, wanted)
        with KStore().open(kind, tmp_path, read_only=True) as run:
            ours = [run(operation) for operation in wanted]
            state = run(STATE)
        assert not disagreements(kind, wanted, theirs, ours)
        assert state["offset"] == sum(1 for op in writes(kind, 0) if op["op"] != "commit")
        assert kafka.raw(tmp_path, NAME) == before


@pytest.mark.parametrize(("older", "newer"), EDGES, ids=lambda kind: str(kind))
@pytest.mark.parametrize("first", ["Kafka", "kstore"])
def test_an_upgrade_is_finished_on_the_other_side(
    kafka: Harness,
    alone: Alone,
    tmp_path: Path,
    cell: Cell,
    first: str,
    older: Kind,
    newer: Kind,
) -> None:
    """The first side begins and moves some rows, the other moves more, the first yet more."""
    sides: dict[str, Side] = {"Kafka": Kafka(kafka), "kstore": KStore()}
    second = "kstore" if first == "Kafka" else "Kafka"
    with cell(newer, f"upgrade begun by {first}"):
        left = []
        sittings = alone.upgrade(older, newer)
        for name, sitting in zip((first, first, second, first, second), sittings, strict=True):
            kind, operations, results, rows = sitting
            passed = sit(sides[name], kind, tmp_path, operations)
            assert not differing(sides[name], kind, operations, results, passed)
            assert data_rows(kafka, newer, tmp_path) == rows
            assert_sound(tmp_path, kind.spec, besides=LEFT)
            left.append(sum(1 for _, family, _, _ in rows if family == older.spec.format.namespace))
        assert left == sorted(left, reverse=True)
        if not newer.duplicates:  # of which a lookup moves none
            assert left[0] > left[1] > left[2]
