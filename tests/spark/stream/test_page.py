"""The example of docs/streaming.md runs and prints what stands below it; its tables are whole."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.stream.shard_epochs import STEPS
from tests.support.page_runs import BLOCK
from tests.support.places import DOCS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (DOCS / "streaming.md").read_text()


def test_the_page_says_what_happens(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (text,) = (match[2] for match in BLOCK.finditer(PAGE) if match[1] == "python")
    (promised,) = (match[2] for match in BLOCK.finditer(PAGE) if match[1] == "text")
    names: dict[str, Any] = {}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "docs/streaming.md", "exec"), names)
    assert names["spark"] is spark
    assert out.getvalue() == promised


def test_every_step_is_in_the_table_of_what_is_left() -> None:
    (table,) = re.findall(r"\| last completed step .*?\n\n", PAGE, re.DOTALL)
    steps = [line.split("|")[1].strip() for line in table.splitlines()[2:] if line]
    steps = [step for step in steps if not step.startswith("only on an object store")]
    told_by_tasks = ["opened", "applied", "committed", "copied"]
    told_by_driver = ["reported to the driver", "published", "has returned"]
    for step, words in zip(steps[1:-1], told_by_tasks + told_by_driver, strict=True):
        assert words in step
    assert (*told_by_tasks, "reported", "published") == STEPS
