"""The kit finds the bugs that are planted for it, and none where there is none."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.internal.conjecture import engine as conjecture
from hypothesis.stateful import run_state_machine_as_test

from kstore_core.testing import EngineMachine, EngineSuite, StoreSuite
from kstore_core.testing.running import quick, shrinking_for
from tests.testing.nested import Outcomes, run
from tests.testing.planted import PLANTED, PlantedEngine

RANDOM = ("test_any_rows_and_any_bounds", "test_any_batches", "test_random_lives")
SUITES = Path(__file__).with_name("planted_suites.py")


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """Of every engine's suite: those tests that should fail, and all of the sound engine's."""
    known = {name for name in dir(EngineSuite) if name.startswith("test_")}
    assert {test for engine in PLANTED for test in engine.caught_by} <= known
    wanted = [f"{SUITES}::TestPlantedEngine"]
    for engine in PLANTED:
        wanted += [f"{SUITES}::Test{engine.__name__}::{test}" for test in engine.caught_by]
    stopped = ("test_a_range_without_an_end_reaches_it", *RANDOM)
    return run(*wanted, *(f"{SUITES}::TestStopped::{test}" for test in stopped))


def test_every_test_of_the_suite_passes_on_a_sound_engine(outcomes: Outcomes) -> None:
    ran = outcomes.of["PlantedEngine"]
    assert ran.keys() == {name for name in dir(EngineSuite) if name.startswith("test_")}
    assert [test for test, failed in ran.items() if failed] == []


@pytest.mark.parametrize("engine", PLANTED, ids=lambda engine: engine.__name__)
def test_a_planted_bug_is_caught(outcomes: Outcomes, engine: type[PlantedEngine]) -> None:
    assert engine.caught_by or engine.lives_catch
    for test in engine.caught_by:
        assert outcomes.of[engine.__name__].get(test), f"{test} passes on {engine.__name__}"


def test_random_tests_are_left_out_where_a_simple_one_has_failed(outcomes: Outcomes) -> None:
    """Else a suite looks for minutes for the shortest way to a fault that it has named already."""
    assert outcomes.of["Stopped"] == {
        "test_a_range_without_an_end_reaches_it": True,
        **dict.fromkeys(RANDOM, False),
    }
    assert outcomes.of["DeletesNoRange"]["test_any_batches"]


@pytest.mark.parametrize("suite", [EngineSuite, StoreSuite])
def test_random_tests_come_last(suite: type) -> None:
    """pytest runs the tests of base classes from the last class to the first."""
    parts = [
        {name: test for name, test in vars(part).items() if name.startswith("test_")}
        for part in suite.__mro__
    ]
    marked = [[n for n, test in part.items() if hasattr(test, "at_random")] for part in parts]
    sources = [{n: inspect.getsource(test) for n, test in part.items()} for part in parts]
    random = [
        [n for n, text in part.items() if "run_machine(" in text or "@given(" in text]
        for part in sources
    ]
    assert marked == random
    assert [number for number, names in enumerate(random) if names] == [1]


def test_a_shorter_failure_is_not_looked_for_for_minutes() -> None:
    """By a name within Hypothesis, which another release may call otherwise."""
    assert conjecture.MAX_SHRINKING_SECONDS >= 60
    with shrinking_for(2.0):
        assert conjecture.MAX_SHRINKING_SECONDS == 2.0


@pytest.mark.parametrize(
    "engine", [e for e in PLANTED if e.lives_catch], ids=lambda engine: engine.__name__
)
def test_a_random_life_catches_it_too(engine: type[PlantedEngine]) -> None:
    machine = type("Machine", (EngineMachine,), {"make_engine": staticmethod(engine)})
    # It ends with the first example that fails. Constants of the modules that other tests of this
    # process have imported are among the examples, so their order is not the same in each run.
    found = settings(quick(1500), phases=[Phase.generate], derandomize=True, database=None)
    with pytest.raises(Exception):  # noqa: B017, PT011 - a bug may show in any way
        run_state_machine_as_test(machine, settings=found)
