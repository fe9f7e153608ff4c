"""A run of pytest within a test, and what came of it."""

from __future__ import annotations

from collections import defaultdict
from unittest import mock

import pytest
from hypothesis.internal.conjecture import engine as conjecture

from tests.support.places import ROOT


class Outcomes:
    """By suite and test, whether a phase of it failed."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, bool]] = defaultdict(dict)
        self.errors: list[str] = []
        self.ran = 0

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors.append(str(report.longrepr))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        suite, test = report.nodeid.split("::")[1:]
        self.ran += report.when == "call"
        tests = self.of[suite.removeprefix("Test")]
        test = test.partition("[")[0]
        tests[test] = tests.get(test, False) or report.failed


def run(*wanted: str) -> Outcomes:
    """Run the tests that are named, as if nothing else were going on.

    The search for a shorter failure ends with the first one, because only the outcome counts.
    """
    found = Outcomes()
    arguments = [
        "-o",
        "addopts=--import-mode=importlib",
        f"--rootdir={ROOT}",
        f"-c{ROOT}/pyproject.toml",
    ]
    for name in ("cacheprovider", "xdist", "terminal"):
        arguments += ["-p", f"no:{name}"]
    with mock.patch.object(conjecture, "MAX_SHRINKS", 1):
        status = pytest.main([*arguments, *wanted], plugins=[found])
    assert status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    assert found.errors == []
    return found
