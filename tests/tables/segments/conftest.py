"""Window stores by their raw rows: what lies below every shape that keeps rows in segments."""

from __future__ import annotations

import pytest

from kstore_core.tables.segments import children


@pytest.fixture
def few_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most two databases are open at a time, so that every other use closes and opens one."""
    monkeypatch.setattr(children, "MAX_OPEN", 2)
