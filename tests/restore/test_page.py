"""The page on restoring says what is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.page_runs import check_printed


def test_its_code_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_printed("docs/restore.md", 3)
