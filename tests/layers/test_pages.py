"""The code of the pages on layers runs, and the page on metrics names every one of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kstore_core.metrics import CATALOGUE
from tests.support.pages import DOCS, blocks


@pytest.mark.parametrize("page", ["layers.md", "caching.md", "transactions.md", "metrics.md"])
def test_the_code_of_a_page_runs(page: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(page)
    assert found
    names: dict[str, Any] = {}
    for text in found:
        if "prometheus" in text:
            client = pytest.importorskip("prometheus_client")
            monkeypatch.setattr(client, "REGISTRY", client.CollectorRegistry())
        if "opentelemetry" in text:
            pytest.importorskip("opentelemetry.metrics")
        exec(compile(text, page, "exec"), names)


def test_every_metric_is_told_of_and_no_other() -> None:
    text = (DOCS / "metrics.md").read_text()
    table = text[text.index("## What there is") :]
    told = {name for name in re.findall(r"`([a-z0-9-]+)`", table) if "-" in name}
    tags = {"thread-id", "task-id", "state-dir", "record-cache-id", "rocksdb-window",
            "rocksdb-session", "in-memory"}  # fmt: skip
    assert told - tags == CATALOGUE.keys()
