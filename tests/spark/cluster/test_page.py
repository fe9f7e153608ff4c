"""docs/clusters.md: its example prints what stands below it, and the tests that it names exist."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.places import DOCS, TESTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (DOCS / "clusters.md").read_text()


def test_the_example_prints_what_the_page_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ((example, promised),) = re.findall(
        r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )
    out = io.StringIO()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(out):
        exec(compile(example, "docs/clusters.md", "exec"), names)
    assert names["spark"] is spark
    assert out.getvalue() == promised


def test_each_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)
    assert len(named) >= 8
    for file, test in named:
        tree = ast.parse((TESTS / "spark" / file).read_text())
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert test in there, f"{file} has no {test}"


def test_each_failure_names_its_test() -> None:
    table = PAGE.partition("## What happens after a failure")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 8
    assert all(re.search(r"`[\w/]+\.py::test_\w+` \|$", row) for row in rows)
