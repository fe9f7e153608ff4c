"""The page of guarantees promises nothing that no test shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from kstore_core.testing import CrashSuite, EngineSuite, StoreSuite
from tests.support.places import ROOT

PAGE = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8")
PROMISED, _, NOT_PROMISED = PAGE.partition("\n## What is not promised\n")
TEST = re.compile(r"`((?:tests|kstore_core)/[\w/]+\.py(?:::\w+)*)`")
RULE = re.compile(r"\|[-|]+\|")


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a page, each as rows of cells, its head first and without its rule."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|") and not RULE.fullmatch(line):
            found[-1].append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif not line.startswith("|") and found[-1]:
            found.append([])
    return [table for table in found if table]


@cache
def names_of(path: Path) -> set[str]:
    """The tests of a file, with their classes before them, and the classes."""

    def within(body: Iterable[ast.stmt], before: str) -> set[str]:
        names = set()
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                names.add(before + node.name)
            elif isinstance(node, ast.ClassDef):
                names |= {before + node.name} | within(node.body, f"{before}{node.name}::")
        return names

    return within(ast.parse(path.read_text(encoding="utf-8")).body, "")


def wrong_with(test: str) -> str | None:
    """The reason why pytest does not run a test of this name."""
    file, _, name = test.partition("::")
    path = ROOT / file
    if not name:
        return "a file is no test"
    if not path.is_file():
        return "there is no such file"
    if name not in names_of(path):
        return f"{file} has no {name}"
    if file.startswith("tests/"):
        return None if path.name.startswith("test_") else "pytest does not look there"
    suites = {part.__name__ for suite in (EngineSuite, StoreSuite) for part in suite.__mro__}
    return None if name.partition("::")[0] in suites else "no engine is held to it"


def test_the_tests_that_are_named_exist() -> None:
    named = sorted(set(TEST.findall(PAGE)))
    assert len(named) > 150
    assert {test: wrong for test in named if (wrong := wrong_with(test))} == {}


@pytest.mark.parametrize(
    ("test", "wrong"),
    [
        ("tests/project/test_guarantees.py", "a file is no test"),
        ("tests/project/test_nothing.py::test_it", "no such file"),
        ("tests/project/test_guarantees.py::test_nothing", "has no test_nothing"),
    ],
)
def test_a_test_that_does_not_exist_is_noticed(test: str, wrong: str) -> None:
    assert wrong in str(wrong_with(test))


def test_no_promise_stands_without_a_test() -> None:
    found = tables(PROMISED)
    assert len(found) >= 8
    for head, *rows in found:
        assert head[-1] == "shown by", f"a table without tests: {head}"
        assert rows
        for row in rows:
            assert len(row) == len(head)
            assert TEST.sub("", row[-1]).strip(" ,") == "", f"more than tests: {row[-1]}"
            assert TEST.search(row[-1]), f"no test shows that {row[:-1]}"


def test_what_is_not_promised_says_why() -> None:
    ((head, *rows),) = tables(NOT_PROMISED)
    assert head == ["not promised", "reason, and remedy"]
    assert len(rows) > 5
    assert all(len(row) == 2 and all(row) for row in rows)


def test_the_killers_count_is_about_right() -> None:
    told = int(re.findall(r"some (\d+) writers", PAGE)[0])
    assert abs(told - 2 * CrashSuite.kills * len(CrashSuite.combinations)) <= 30
