"""The selection of ``make test`` covers every module, shape and engine, and one Spark pipeline."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from kstore_core.testing.kinds import KINDS
from tests.support.engines import ENGINES
from tests.support.imports import CORE, PLUGINS, SOURCES, imported
from tests.support.places import ROOT, TESTS
from tests.support.selection import LATER, SELECTED, SPARK_PATH

pytestmark = pytest.mark.slow  # collects every test


@pytest.fixture(scope="module")
def selected(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """The identifiers of the items that ``make test`` runs, by file."""
    found = request.config.stash.get(SELECTED, None)
    if found is None:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "selected"]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        found = done.stdout.splitlines()
    items = defaultdict(list)
    for line in found:
        file, separator, item = line.partition("::")
        if separator:
            items[file].append(item)
    return items


BY_NAME = {
    "kstore_core.moved": "kstore_core.errors",  # the face of the whole imports it
    "pyspark_kstore": "kstore_core.spark.source.datasource",
    "pyspark_kstore_kafka": "kstore_core.spark.kafka.datasource",
    **{
        f"kstore_core.cli.commands.{path.stem}": "kstore_core.cli.app"
        for path in (CORE / "cli" / "commands").glob("[a-z]*.py")
    },
}
"""Modules that are imported by their names, and what does so or what they hand on."""


def imports() -> dict[str, set[str]]:
    """Each module and package of the project and its tests, with the names that it imports."""
    graph: dict[str, set[str]] = defaultdict(set)
    for base, root in ((ROOT, CORE), (PLUGINS, PLUGINS), (ROOT, TESTS)):
        for source in root.rglob("*"):
            if source.suffix in SOURCES and "sample_plugin" not in source.parts:
                parts = source.relative_to(base).with_suffix("").parts
                graph[".".join(part for part in parts if part != "__init__")] |= imported(source)
    return graph


def test_every_module_is_imported(selected: dict[str, list[str]]) -> None:
    """From a test, by way of what it imports, except ``kstore_core``, which names everything."""
    graph = imports()
    for name, by in BY_NAME.items():
        graph[by].add(name)
    reached: set[str] = set()
    left = {file.removesuffix(".py").replace("/", ".") for file in selected}
    assert left <= graph.keys()
    while left:
        name = left.pop()
        reached.add(name)
        names = {used if used in graph else used.rpartition(".")[0] for used in graph[name]}
        names.add(name.rpartition(".")[0])
        left |= (names & graph.keys()) - reached - {"kstore_core"}
    ours = {name for name in graph if not name.startswith("tests") and name != "kstore_core"}
    assert sorted(ours - reached) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_every_kind_is_opened_on_every_engine(selected: dict[str, list[str]], engine: str) -> None:
    contract = selected[f"tests/plugins/{engine}/test_contract.py"]
    missing = [str(kind) for kind in KINDS if not any(str(kind) in item for item in contract)]
    assert missing == []


def test_a_pipeline_runs_on_spark(selected: dict[str, list[str]]) -> None:
    assert SPARK_PATH
    assert selected.keys() >= SPARK_PATH.keys()


def test_what_waits_exists() -> None:
    for place in [*LATER, *SPARK_PATH]:
        assert Path(ROOT, place).exists(), f"{place} is in tests/support/selection.py"
