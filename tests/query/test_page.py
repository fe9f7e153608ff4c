"""The page on queries runs, and tells of every query and every reason."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from kstore_core import query
from kstore_core.query import FailureReason, Query
from tests.support.pages import DOCS, blocks

PAGE = (DOCS / "queries.md").read_text()


def test_the_page_runs_and_prints_what_it_says(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    out = io.StringIO()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(out):
        for text in blocks("queries.md"):
            exec(compile(text, "queries.md", "exec"), names)
    assert out.getvalue() == "".join(blocks("queries.md", language="text"))


def test_the_page_tells_of_every_query_and_reason() -> None:
    kinds = [kind for kind in vars(query).values() if isinstance(kind, type)]
    for kind in kinds:
        if issubclass(kind, Query) and kind is not Query:
            assert f"`{kind.__name__}" in PAGE, kind
    for reason in FailureReason:
        assert f"| `{reason}` |" in PAGE, reason
