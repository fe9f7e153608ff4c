"""The page on the number of tasks says what is so."""

from __future__ import annotations

from tests.support.page_runs import check_printed


def test_its_code_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_printed("docs/rescaling.md", 2)
