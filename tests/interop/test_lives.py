"""Random lives of a store, lived on both sides: the same results, and the same rows afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interop.differences import disagreements, lasting
from tests.interop.harness import Harness
from tests.interop.kinds import KINDS, Kind
from tests.interop.lives import commit, expiring, first_segment, recorded, wake
from tests.interop.results import Cell
from tests.interop.sides import Kafka, KStore, Operation, data_rows
from tests.interop.strategies import lives


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_same_life_leaves_the_same_rows(kafka: Harness, cell: Cell, kind: Kind) -> None:
    # Reopened, Kafka's store of duplicates writes over those that there are (decision 18).
    sittings = 1 if kind.duplicates else 2

    @settings(max_examples=15, deadline=None)
    @given(st.lists(lives(kind), min_size=sittings, max_size=sittings))
    def live(drawn: list[list[Operation]]) -> None:
        with tempfile.TemporaryDirectory() as directory:
            lived(kafka, kind, Path(directory), drawn)

    with cell(kind, "same lives"):
        live()


def lived(kafka: Harness, kind: Kind, directory: Path, sittings: list[list[Operation]]) -> None:
    """Run every operation on both sides, each in a directory of its own, and compare."""
    theirs, ours = directory / "kafka", directory / "kstore"
    for number, drawn in enumerate(sittings):
        awake = wake(kind, 0, number) if number else []
        wanted = [*awake, *drawn]
        operations = recorded(iter([*wanted, *expiring(kind, wanted)]), first=100 * number)
        with Kafka(kafka).open(kind, theirs) as run_kafka, KStore().open(kind, ours) as run_kstore:
            for operation in [*operations, commit(100 * number + 99)]:
                if not lasting(kind, operation, run_kstore):
                    pair = [run_kafka(operation)], [run_kstore(operation)]
                    assert not disagreements(kind, [operation], *pair)
        live = first_segment(kind, 0) if number else 0
        rows = [data_rows(kafka, kind, path, first_segment=live) for path in (theirs, ours)]
        assert rows[0] == rows[1]
