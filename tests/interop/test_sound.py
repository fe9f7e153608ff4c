"""What Kafka Streams has upgraded is sound, half or whole, closed or killed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from kstore_rocksdb.files.manifest import read_manifest
from tests.interop.harness import Harness
from tests.interop.kinds import EDGES, NAME, Kind
from tests.interop.lives import everything, lookup, scans, wake, writes
from tests.interop.sides import Kafka, Operation
from tests.support.sound import assert_sound

EACH_EDGE = pytest.mark.parametrize(
    ("older", "newer"), [edge for edge in EDGES if not edge[0].duplicates], ids=str
)
"""Lookups move the rows of stores without duplicates only."""


@EACH_EDGE
def test_what_kafka_has_upgraded(kafka: Harness, tmp_path: Path, older: Kind, newer: Kind) -> None:
    points = written(kafka, tmp_path, older)
    for moved in (points[::2], points, []):  # half; the rest; a look at what is left drops it
        with Kafka(kafka).open(newer, tmp_path) as run:
            for operation in [*wake(newer, 0, 1), *moved, *scans(newer)]:
                run(operation)
        assert_sound(tmp_path, newer.spec, besides="index", test="interop")
        last = not moved and older.spec.format.namespace != "default"  # which stays
        assert bool(dropped(tmp_path)) == last


@pytest.mark.parametrize("half", [True, False], ids=["half", "whole"])
@pytest.mark.parametrize("shape", ["key_value", "window"])
def test_what_a_killed_kafka_has_upgraded(
    classpath: str, tmp_path: Path, shape: str, half: bool
) -> None:
    older, newer = next(
        edge for edge in EDGES if edge[0].shape == shape and edge[0].form == "timestamped"
    )
    with closing(Harness(classpath)) as kafka:
        points = written(kafka, tmp_path, older)
        for moved in (points[::2] if half else points, []):
            kafka.call("open", kind=newer.kafka, name=NAME, dir=str(tmp_path), **newer.options)
            for operation in [*wake(newer, 0, 1), *moved, *scans(newer)]:
                kafka.send(operation)
            if moved:
                kafka.call("close")
        kafka._jvm.kill()
    assert_sound(tmp_path, newer.spec)
    assert bool(dropped(tmp_path)) != half


def written(kafka: Harness, root: Path, older: Kind) -> list[Operation]:
    """A store of the older kind; a lookup of each of its rows."""
    with Kafka(kafka).open(older, root) as run:
        for operation in writes(older, 0):
            run(operation)
        return [lookup(older, row) for row in run(everything(older))]


def dropped(root: Path) -> set[str]:
    """The families of all databases that were dropped since they were opened last."""
    return {
        name for current in root.rglob("CURRENT") for name in read_manifest(current.parent).dropped
    }
