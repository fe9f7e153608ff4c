"""The examples of docs/sql.md run, one after the other, and print what stands below them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.page_runs import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_page_says_what_happens(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names, printed = run("docs/sql.md")
    for found, promised in printed:
        assert found == promised
    assert names["spark"] is spark
    assert len(printed) == 3
