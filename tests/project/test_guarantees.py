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


@pytest.mark.parametrize("test", sorted(set(TEST.findall(PAGE))))
def test_a_test_that_is_named_exists(test: str) -> None:
    file, _, name = test.partition("::")
    path = ROOT / file
    assert name, "a file is no test"
    assert path.is_file()
    assert name in names_of(path), f"{file} has no {name}"
    if file.startswith("tests/"):
        assert path.name.startswith("test_"), "pytest does not look there"
    else:
        suites = {part.__name__ for suite in (EngineSuite, StoreSuite) for part in suite.__mro__}
        assert name.partition("::")[0] in suites, "no engine is held to it"


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
    assert head == ["not promised", "because, and what helps"]
    assert len(rows) > 5
    assert all(len(row) == 2 and all(row) for row in rows)


def test_the_killers_count_is_about_right() -> None:
    told = int(re.findall(r"some (\d+) times in the tests", PAGE)[0])
    assert abs(told - 2 * CrashSuite.kills * len(CrashSuite.combinations)) <= 30
