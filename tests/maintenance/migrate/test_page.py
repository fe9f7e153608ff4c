"""The page on moving and copying stores says what is so."""

from __future__ import annotations

import pytest

from asv_benchmarks.benchmarks.migrate import WAYS, engines, migrated
from tests.support.page_runs import check_printed


def test_its_code_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_printed("docs/migrate.md", 2)


@pytest.mark.parametrize("way", WAYS)
def test_its_figures_are_of_migrations(way):
    for engine in engines():
        assert min(migrated(engine, way, 100)) > 0
