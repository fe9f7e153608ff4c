"""docs/engines: a page an engine, with its options, and a table of every workload."""

import re

import pytest

from asv_benchmarks.benchmarks.engines import WORKLOADS
from kstore_core.discovery.registry import engine_class, installed_engines
from kstore_core.engine import EngineOptions
from tests.support.page_runs import blocks
from tests.support.places import DOCS

PAGES = DOCS / "engines"
OWN = [engine.name for engine in installed_engines() if engine.distribution == "kstore"]


@pytest.mark.parametrize("name", sorted({path.stem for path in PAGES.glob("*.md")} - {"index"}))
def test_the_page_of_an_engine_lists_its_options(name):
    page = (PAGES / f"{name}.md").read_text()
    options = engine_class(name).options_type
    if options is EngineOptions:
        assert "There are no options." in page
    else:
        listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
        assert set(options.__dataclass_fields__) <= set(listed)


def test_the_table_of_measurements_has_every_engine_and_workload():
    lines = (PAGES / "index.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| `fillseq`"))
    columns = lines[start - 2].strip("| ").split(" | ")
    rows = [line.strip("| ").split(" | ") for line in lines[start : start + len(WORKLOADS)]]
    assert [row[0] for row in rows] == [f"`{workload}`" for workload in WORKLOADS]
    assert set(OWN) == set(columns)
    for row in rows:
        assert all(re.fullmatch(r"[\d,]+ \(\d+\.\d\d\)", cell) for cell in row[1:])


def test_the_example_of_the_memory_engine_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [example] = [text for language, text in blocks("docs/engines/memory.md") if language]
    exec(compile(example, "memory.md", "exec"), {})
    assert not list(tmp_path.iterdir())
