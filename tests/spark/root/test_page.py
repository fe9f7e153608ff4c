"""The examples of docs/spark-roots.md run, and its table of options is the code's."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core.spark.source.write_options import WRITE_OPTIONS
from tests.spark.support.object_store import Bucket
from tests.support.page_runs import BLOCK
from tests.support.places import DOCS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = DOCS / "spark-roots.md"


def test_the_page_says_what_happens(
    spark: SparkSession, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    page = page.replace("https://minio.example", bucket.options["endpoint"])
    page = page.replace("s3://stores/", f"s3://{bucket.name}/").replace("/data/", f"{tmp_path}/")
    blocks = [(match[1], match[2]) for match in BLOCK.finditer(page)]
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
    assert examples == 6


def test_every_option_of_a_write_is_in_its_table() -> None:
    page = PAGE.read_text()
    for option in WRITE_OPTIONS.values():
        assert f"| `{option.name}` | {option.wants} | {option.meaning} |" in page
