"""docs/seed-names.md: every name of the proposals has a row, and what a row names exists."""

import importlib
import inspect
import re
from typing import NamedTuple

import pytest

from kstore_core import codec, stores
from tests.support.places import ROOT

PAGE = ROOT / "docs/seed-names.md"
NAMES = ROOT / "tests/data/seed_names.txt"
NAME = r"`([\w.]+)(?:\(([\w, ]*)\))?`"
NOTHING = "\N{EN DASH}"


class Row(NamedTuple):
    proposal: str
    there: str
    here: str
    remark: str


def rows_of(page):
    rows, proposal = [], ""
    for line in page.splitlines():
        if line.startswith("## "):
            proposal = line[3:]
        elif line.startswith("| `"):
            rows.append(Row(proposal, *(cell.strip() for cell in line[1:-1].split(" | ", 2))))
    return rows


def names_in(cell):
    """Dotted names, each with its arguments in parentheses, or None where it has none."""
    return [(match[1], match[2]) for match in re.finditer(NAME, cell)]


def resolve(name):
    """The object of a dotted name: the longest module that there is, then attributes."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not (error.name and module.startswith(error.name)):
                raise
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def check(name, arguments):
    found = resolve(name)
    if arguments is None:
        return
    assert callable(found), f"{name} cannot be called"
    known = inspect.signature(found).parameters
    for argument in filter(None, arguments.split(", ")):
        assert argument in known, f"{name} has no parameter {argument}"


ROWS = rows_of(PAGE.read_text())


def test_no_name_is_lost_or_listed_twice():
    listed, proposal = [], ""
    for line in NAMES.read_text().splitlines():
        if line.startswith("# "):
            proposal = line[2:]
        elif line:
            listed.append((proposal, line))
    assert len(set(listed)) == len(listed)
    assert sorted((row.proposal, row.there.replace("`", "")) for row in ROWS) == sorted(listed)


def test_what_a_row_names_exists_or_a_reason_is_given():
    failed = {}
    for row in ROWS:
        try:
            check_row(row)
        except (AssertionError, AttributeError, ImportError) as error:
            failed[row.proposal.split(":")[0], row.there] = str(error)
    assert failed == {}


def check_row(row):
    if row.here == NOTHING:
        assert row.remark, f"why is there no {row.there}?"
    else:
        assert re.fullmatch(rf"{NAME}(, {NAME})*", row.here), "the cell holds more than names"
        for name, arguments in names_in(row.here):
            check(name, arguments)
    for name, arguments in names_in(row.remark):
        if name.startswith("kstore_core."):
            check(name, arguments)


@pytest.mark.parametrize(
    ("coming", "arrived"),
    [
        ("window stores", hasattr(stores, "window")),
        ("session stores", hasattr(stores, "session")),
        ("changelogs", hasattr(codec, "encode_record_batch")),
    ],
)
def test_what_has_come_is_no_longer_called_coming(coming, arrived):
    promise = re.compile(f"comes? with {coming}")
    waiting = [row.there for row in ROWS if promise.search(row.remark)]
    assert bool(waiting) is not arrived


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("kstore_core.nothing", None, AttributeError),
        ("kstore_core.Headers.nothing", None, AttributeError),
        ("nothing.at_all", None, ModuleNotFoundError),
        ("kstore_core.Headers.last", "key, nothing", AssertionError),
        ("kstore_core.LATEST", "", AssertionError),
    ],
)
def test_a_name_that_does_not_exist_is_noticed(name, arguments, error):
    with pytest.raises(error):
        check(name, arguments)
