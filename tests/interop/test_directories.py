"""One directory, passed from one side to the other and back.

Beside it lies another one in which Kafka Streams alone does the same. Whatever is asked of the one
must give what the other gives, and at the end of every part the same rows must lie in both.
"""

from __future__ import annotations

from pathlib import Path

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
from tests.interop.sides import Kafka, KStore, Side, data_rows
from tests.support.sound import assert_sound

LEFT = "index"
"""What verify finds after Kafka: index rows whose rows were deleted."""


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("first", ["Kafka", "kstore"])
def test_a_directory_goes_to_the_other_side_and_back(
    kafka: Harness, tmp_path: Path, cell: Cell, first: str, kind: Kind
) -> None:
    second = "kstore" if first == "Kafka" else "Kafka"
    with cell(kind, f"{first} writes, {second} goes on"):
        pass_on(kafka, kafka, tmp_path, kind, first, second)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("first", ["Kafka", "kstore"])
def test_a_directory_goes_to_a_newer_rocksdb_and_back(
    kafka: Harness, newer: Harness, tmp_path: Path, newer_cell: Cell, first: str, kind: Kind
) -> None:
    second = "kstore" if first == "Kafka" else "Kafka"
    with newer_cell(kind, f"{first} writes, {second} goes on"):
        pass_on(kafka, newer, tmp_path, kind, first, second)


def pass_on(
    kafka: Harness, other: Harness, scratch: Path, kind: Kind, first: str, second: str
) -> None:
    """Pass a directory between ``other`` and kstore, beside one that ``kafka`` has alone."""
    sides: dict[str, Side] = {"Kafka": Kafka(other), "kstore": KStore()}
    for part in range(PARTS):
        side = sides[second if part % 2 else first]
        operations = [
            STATE, *wake(kind, part), *reads(kind), *writes(kind, part), *reads(kind), STATE
        ]  # fmt: skip
        alone = sit(Kafka(kafka), kind, scratch / "alone", operations)
        passed = sit(side, kind, scratch / "passed", operations)
        assert not differing(side, kind, operations, alone, passed)
        live = first_segment(kind, part)
        rows = data_rows(other, kind, scratch / "passed", first_segment=live)
        assert rows == data_rows(kafka, kind, scratch / "alone", first_segment=live)
        assert_sound(scratch / "passed", kind.spec, besides=LEFT)


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
    kafka: Harness, tmp_path: Path, cell: Cell, first: str, older: Kind, newer: Kind
) -> None:
    """The first side begins and moves some rows, the other moves more, the first yet more."""
    sides: dict[str, Side] = {"Kafka": Kafka(kafka), "kstore": KStore()}
    second = "kstore" if first == "Kafka" else "Kafka"
    asked = reads(newer)
    with cell(newer, f"upgrade begun by {first}"):
        written = [*writes(older, 0), everything(older)]
        found = sit(sides["Kafka"], older, tmp_path / "other", written)[-1]
        points = [lookup(older, row) for row in found]
        left = []
        for name, kind, operations in (
            (first, older, [*writes(older, 0), *reads(older)]),
            (first, newer, [*wake(newer, 0, 1), *scans(newer), *points[::3]]),
            (second, newer, [STATE, *wake(newer, 0, 2), *asked, *points[1::3], *writes(newer, 1)]),
            (first, newer, [STATE, *wake(newer, 1), *asked, *points[2::3], *writes(newer, 2)]),
            (second, newer, [*wake(newer, 2), *asked]),
        ):
            alone = sit(sides["Kafka"], kind, tmp_path / "alone", operations)
            passed = sit(sides[name], kind, tmp_path / "passed", operations)
            assert not differing(sides[name], kind, operations, alone, passed)
            rows = data_rows(kafka, newer, tmp_path / "passed")
            assert rows == data_rows(kafka, newer, tmp_path / "alone")
            for directory in ("passed", "alone"):
                assert_sound(tmp_path / directory, kind.spec, besides=LEFT)
            left.append(sum(1 for _, family, _, _ in rows if family == older.spec.format.namespace))
        assert left == sorted(left, reverse=True)
        if not newer.duplicates:  # of which a lookup moves none
            assert left[0] > left[1] > left[2]
