"""The examples of two pages run, one after the other, and print what stands below them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.page_runs import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(("page", "blocks"), [("docs/spark.md", 7), ("docs/sql.md", 3)])
def test_the_page_says_what_happens(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, blocks: int
) -> None:
    monkeypatch.chdir(tmp_path)
    names, printed = run(page)
    for found, promised in printed:
        assert found == promised
    assert names["spark"] is spark
    assert len(printed) == blocks
