"""The page on the contract kit runs, and tells of all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstore_core import testing
from kstore_core.testing.faults import OPERATIONS, Faults
from tests.support.pages import DOCS, blocks, source
from tests.testing.nested import run

PAGE = "extending/testing.md"
TEXT = (DOCS / PAGE).read_text(encoding="utf-8")


def test_the_file_of_the_page_passes(tmp_path: Path) -> None:
    module = tmp_path / "test_my_engine.py"
    module.write_text(source(PAGE, module.name), encoding="utf-8")
    some = "order_of_unsigned_bytes or kept or what_is_put or any_time"
    outcomes = run(str(module), "-k", some)
    assert outcomes.of.keys() == {"MyEngine", "StoresOnMyEngine"}
    assert [t for tests in outcomes.of.values() for t, failed in tests.items() if failed] == []


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(PAGE):
        exec(compile(block, PAGE, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("name", [name for name in testing.__all__ if name != "StoreMachine"])
def test_every_name_of_the_kit_is_told_of(name: str) -> None:
    assert name in TEXT or (name.startswith("Wrapped") and "`Wrapped…`" in TEXT)


def test_every_operation_and_fault_is_told_of() -> None:
    for name in (*OPERATIONS, *(name for name in vars(Faults) if not name.startswith("_"))):
        assert f"`{name}" in TEXT or name in ("meet", "armed"), name
