"""The examples of docs/kafka-spark.md run, and its tables name what there is."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core.spark.kafka.options import OPTIONS
from kstore_core.spark.kafka.reading import arrow_schema
from tests.support import pages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "kafka-spark.md"
ROW = re.compile(r"^\| (`[^|]*) \|(?:.*\|)? *([^|]*) \|$", re.MULTILINE)


def test_the_page_prints_what_it_says(
    spark: SparkSession, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}  # workers get its functions by value
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for code in pages.blocks(PAGE):
            assert "127.0.0.1:9092" in code
            exec(compile(code.replace("127.0.0.1:9092", servers), PAGE, "exec"), names)
    assert names["spark"] is spark
    assert out.getvalue() == "".join(pages.blocks(PAGE, language="text"))


def test_the_tables_name_all_options_and_columns() -> None:
    text = (pages.DOCS / PAGE).read_text(encoding="utf-8")
    options = {name: default for name, default in rows(text, "## Options") if "…" not in name}
    assert list(options) == list(OPTIONS)
    assert {name: options[name] for name in OPTIONS if OPTIONS[name]} == {
        name: default for name, default in OPTIONS.items() if default
    }
    columns = [name for name, _ in rows(text, "## The two sources")]
    assert columns == arrow_schema(headers=True).names


def rows(text: str, section: str) -> list[tuple[str, str]]:
    """The names in the first column of a section's last table, each with the last column."""
    part = text.partition(f"{section}\n")[2].partition("\n## ")[0]
    found = ROW.findall(part.rpartition("|---|")[2])
    return [(name, last) for names, last in found for name in re.findall(r"`([^`]*)`", names)]
