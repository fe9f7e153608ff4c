"""The workloads of the comparison run on both sides, and measure the same operations."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from asv_benchmarks.peer import tables
from asv_benchmarks.peer.goals import GOALS, GROUPS
from asv_benchmarks.peer.jvm import command
from asv_benchmarks.peer.results import Measured, own_command, results_of

RECORDS = 2000


@pytest.fixture(scope="module")
def java(classpath: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    java, javac = shutil.which("java"), shutil.which("javac")
    assert java is not None
    assert javac is not None
    return command(java, javac, classpath, tmp_path_factory.mktemp("peer") / "classes")


def test_both_sides_measure_every_operation(java: list[str], tmp_path: Path) -> None:
    kafka: Measured = {}
    kstore: Measured = {}
    for group in GROUPS:
        kafka |= results_of([*java, group, str(RECORDS), "0"], tmp_path)
        kstore |= results_of(own_command(group, "rocksdb", "changelog", RECORDS), tmp_path)
    assert {goal.peer for goal in GOALS} <= kafka.keys()
    assert {(goal.bench, goal.op) for goal in GOALS} == kstore.keys()
    assert all(value > 0 for value in (kafka | kstore).values())
    assert list(tmp_path.iterdir()) == []


def test_both_sides_measure_how_cost_grows(java: list[str], tmp_path: Path) -> None:
    kafka = results_of([*java, "records", str(RECORDS), "0"], tmp_path)
    kafka |= results_of([*java, "versions", str(RECORDS), "0", "10", "5"], tmp_path)
    kstore = results_of(own_command("records", "rocksdb", "changelog", RECORDS), tmp_path)
    kstore |= results_of(own_command("versions", "rocksdb", "changelog", RECORDS, 10, 5), tmp_path)
    assert kafka.keys() == kstore.keys()
    tables.records(kafka, kstore, [RECORDS])
    tables.versions(kafka, kstore, [(10, 5)])
