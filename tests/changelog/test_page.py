"""The page on changelogs says what is so."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from kstore_core import codec
from kstore_core.changelog import LogConfig
from tests.support.page_runs import check_printed
from tests.support.places import ROOT


def test_its_code_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_printed("docs/changelogs.md", 2)


def test_it_names_every_setting() -> None:
    text = (ROOT / "docs/changelogs.md").read_text()
    for field in fields(LogConfig):
        assert field.name in text, f"docs/changelogs.md does not tell of {field.name}"


def test_it_names_every_function_on_batches() -> None:
    text = (ROOT / "docs/changelogs.md").read_text()
    for name in codec.__all__:
        if "batch" in name or "record_columns" in name:
            assert f"`{name}`" in text, f"docs/changelogs.md does not tell of {name}"
