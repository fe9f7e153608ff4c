"""The page on verifying runs, and tells of everything that can be found."""

import re
from pathlib import Path

import pytest

import kstore_core
from tests.support.page_runs import run

PAGE = Path(kstore_core.__file__).parent.parent / "docs" / "verify.md"


def test_the_code_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, printed = run(PAGE)
    assert [found for found, promised in printed] == [promised for found, promised in printed]


def test_every_kind_of_finding_is_on_the_page() -> None:
    package = Path(kstore_core.__file__).parent / "maintenance" / "verify"
    code = "".join(path.read_text() for path in package.glob("*.py"))
    kinds = {*re.findall(r'Fault\(\s*"([a-z ]+)"', code), "key and serde", "value and serde"}
    told = set(
        re.findall(r"`([a-z ]+)`", PAGE.read_text().split("| finding |")[1].split("\n\n")[0])
    )
    assert kinds - {"note", "locked"} == told
