"""The page on restoring says what is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.page_runs import run


def test_its_code_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, printed = run("docs/restore.md")
    assert len(printed) == 3
    for found, promised in printed:
        assert found == promised
