"""The examples of docs/spark.md run, one after the other, and print what stands below them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.places import DOCS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = DOCS / "spark.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_says_what_happens(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [(match[1], match[2]) for match in BLOCK.finditer(PAGE.read_text())]
    names: dict[str, Any] = {}
    examples = 0
    for (language, text), (following, promised) in zip(
        blocks, [*blocks[1:], ("", "")], strict=True
    ):
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, str(PAGE), "exec"), names)
            assert out.getvalue() == (promised if following == "text" else "")
            examples += 1
    assert names["spark"] is spark
    assert examples == 7
