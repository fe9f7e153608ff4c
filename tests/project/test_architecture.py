"""The floors of docs/architecture.md, held to the imports."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.imports import CORE, PLUGINS, SOURCES, imported, modules, sources
from tests.support.places import DOCS, ROOT, TESTS

FOR_PLUGINS = {
    "engine",
    "hookspecs",
    "types",
    "errors",
    "system.directories",
    "system.interrupts",
    "system.scratch",
}
"""What an engine's package may import, below kstore_core."""
LAZY = ["kstore_core", "kstore_core.changelog", "kstore_core.query", "kstore_core.testing"]
"""The packages whose names are imported when they are used."""

MOST_MODULES = 15
"""In a folder, its ``__init__`` aside."""


def floors(heading: str) -> dict[str, int]:
    """The packages of a table of docs/architecture.md, and their rows, the first one on top."""
    table = (DOCS / "architecture.md").read_text().partition(f"## {heading}\n")[2]
    rows = re.findall(r"^\| (`[^|]*`) \|", table.partition("\n## ")[0], re.MULTILINE)
    names = [(name, -row) for row, cell in enumerate(rows) for name in re.findall(r"`(\w+)`", cell)]
    assert len(names) == len({name for name, _ in names}), "a package stands in two rows"
    return dict(names)


def packages(root: Path) -> set[str]:
    modules = {path.stem for path in root.iterdir() if path.suffix in SOURCES}
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    return (modules | folders) - {"__init__"}


def upward(root: Path, prefix: str, rank: dict[str, int]) -> Iterator[str]:
    """Imports below ``root`` of what stands in the same row of the table, or further up."""
    for source in sources(root):
        own = source.relative_to(root).with_suffix("").parts[0]
        if own == "__init__":  # the face of the whole, which names what is below
            continue
        for name in imported(source):
            other = name.removeprefix(prefix).partition(".")[0]
            known = name.startswith(prefix) and other != own and other in rank
            if known and rank[other] >= rank[own]:
                yield f"{source.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize(
    ("heading", "root", "prefix"),
    [
        ("Floors of kstore_core", CORE, "kstore_core."),
        ("Floors of spark", CORE / "spark", "kstore_core.spark."),
    ],
)
def test_imports_run_down(heading: str, root: Path, prefix: str) -> None:
    rank = floors(heading)
    assert rank.keys() == packages(root), "docs/architecture.md names each package once"
    assert list(upward(root, prefix, rank)) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = modules()
    assert len(graph) > 300
    while leaves := {name for name, below in graph.items() if not below & graph.keys()}:
        graph = {name: below for name, below in graph.items() if name not in leaves}
    used = {below for names in graph.values() for below in names}
    assert sorted(graph.keys() & used) == []


def test_an_engine_imports_only_the_spi() -> None:
    wrong = []
    for source in sources(PLUGINS):
        package = source.relative_to(PLUGINS).parts[0]
        if package.startswith("pyspark_"):
            continue
        others = {path.name for path in PLUGINS.iterdir()} - {package}
        for name in imported(source):
            path = name.partition("kstore_core.")[2]
            spi = any(path == one or path.startswith(f"{one}.") for one in FOR_PLUGINS)
            if (path and not spi) or name.partition(".")[0] in others:
                wrong.append(f"{source.relative_to(PLUGINS)} imports {name}")
    assert wrong == []


def test_a_folder_can_be_seen_at_a_glance() -> None:
    crowded = []
    packages = [path.parent for top in (CORE, PLUGINS) for path in top.rglob("__init__.py")]
    for folder in packages:
        names = {path.stem for path in folder.iterdir() if path.suffix in SOURCES} - {"__init__"}
        if len(names) > MOST_MODULES:
            crowded.append(f"{folder.relative_to(ROOT)}: {len(names)}")
    assert crowded == []


@pytest.mark.parametrize(
    "statement",
    ["import kstore_core", "from kstore_core import open_state, stores, serdes, Headers"],
)
def test_import_loads_no_engine_and_nothing_heavy(statement: str) -> None:
    heavy = ["kstore_lmdb", "kstore_memory", "kstore_rocksdb", "rocksdict", "lmdb", "pyspark"]
    heavy += ["pyarrow", "numpy", "pandas", "click", "rich", "matplotlib"]
    heavy += ["kstore_core.query.queries", "kstore_core.changelog.files.changelog"]
    heavy += ["kstore_core.changelog.kafka.changelog"]
    code = f"{statement}; import sys; print(*sorted(set(sys.modules) & set({heavy!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("package", LAZY)
def test_a_package_has_the_names_that_it_imports_late(package: str) -> None:
    """In a process of its own: here, most of them have been imported."""
    code = (
        f"import {package} as package; assert {{*package.__all__}} <= {{*dir(package)}}\n"
        f"from {package} import *; assert {{*package.__all__}} <= {{*dir()}}\npackage.nothing"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert f"AttributeError: module '{package}' has no attribute 'nothing'" in done.stderr


def test_no_test_imports_another_test_module() -> None:
    """Shared parts have a module of their own, beside the tests or in ``tests/support``."""
    importing = re.compile(r"^\s*(?:from|import) (tests[\w.]*\.test_\w+)", re.MULTILINE)
    found = {
        str(path.relative_to(TESTS)): names
        for path in sources(TESTS)
        if (names := importing.findall(path.read_text()))
    }
    assert not found
