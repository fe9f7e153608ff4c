"""The kit finds the bugs that are planted for it, and none where there is none."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kstore_core.testing import EngineMachine, EngineSuite
from kstore_core.testing.running import quick
from tests.testing.planted import PLANTED, PlantedEngine

SUITES = Path(__file__).with_name("planted_suites.py")


class Outcomes:
    """By suite and test, whether a phase of it failed."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, bool]] = defaultdict(dict)
        self.errors: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors.append(str(report.longrepr))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        suite, test = report.nodeid.split("::")[1:]
        tests = self.of[suite.removeprefix("Test")]
        test = test.partition("[")[0]
        tests[test] = tests.get(test, False) or report.failed


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """Of every engine's suite: those tests that should fail, and all of the sound engine's."""
    known = {name for name in dir(EngineSuite) if name.startswith("test_")}
    assert {test for engine in PLANTED for test in engine.caught_by} <= known
    found = Outcomes()
    wanted = [f"{SUITES}::TestPlantedEngine"]
    for engine in PLANTED:
        wanted += [f"{SUITES}::Test{engine.__name__}::{test}" for test in engine.caught_by]
    without = [argument for name in ("cacheprovider", "xdist", "terminal")
               for argument in ("-p", f"no:{name}")]  # fmt: skip
    addopts = ["-o", "addopts=--import-mode=importlib", f"--rootdir={SUITES.parents[2]}"]
    status = pytest.main([*without, *addopts, *wanted], plugins=[found])
    assert (status, found.errors) == (pytest.ExitCode.TESTS_FAILED, [])
    return found


def test_every_test_of_the_suite_passes_on_a_sound_engine(outcomes: Outcomes) -> None:
    ran = outcomes.of["PlantedEngine"]
    assert ran.keys() == {name for name in dir(EngineSuite) if name.startswith("test_")}
    assert [test for test, failed in ran.items() if failed] == []


@pytest.mark.parametrize("engine", PLANTED, ids=lambda engine: engine.__name__)
def test_a_planted_bug_is_caught(outcomes: Outcomes, engine: type[PlantedEngine]) -> None:
    assert engine.caught_by or engine.lives_catch
    for test in engine.caught_by:
        assert outcomes.of[engine.__name__].get(test), f"{test} passes on {engine.__name__}"


@pytest.mark.parametrize(
    "engine", [e for e in PLANTED if e.lives_catch], ids=lambda engine: engine.__name__
)
def test_a_random_life_catches_it_too(engine: type[PlantedEngine]) -> None:
    machine = type("Machine", (EngineMachine,), {"make_engine": staticmethod(engine)})
    found = settings(quick(300), phases=[Phase.generate], derandomize=True, database=None)
    with pytest.raises(Exception):  # noqa: B017, PT011 - a bug may show in any way
        run_state_machine_as_test(machine, settings=found)
