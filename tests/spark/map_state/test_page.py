"""The examples on joins, on processing with state and on partition time print what they say."""

from __future__ import annotations

import contextlib
import io
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.pages import DOCS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "examples"),
    [
        ("map-state.md", 2),
        ("partition-time.md", 4),
        ("temporal-join.md", 2),
        ("processors-on-spark.md", 1),
    ],
)
def test_the_page_says_what_happens(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    page: str,
    examples: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    found = [text for language, text in blocks if language == "python"]
    promised = [text for language, text in blocks if language == "text"]
    assert len(found) == len(promised) == examples
    names: dict[str, Any] = {"__name__": "__main__"}
    for example, wanted in zip(found, promised, strict=True):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(example, page, "exec"), names)
        assert out.getvalue() == wanted
    assert names["spark"] is spark
