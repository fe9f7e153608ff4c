"""The kit finds the bugs that are planted for it, and none where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kstore_core.testing import EngineMachine, EngineSuite
from kstore_core.testing.running import quick
from tests.testing.nested import Outcomes, run
from tests.testing.planted import PLANTED, PlantedEngine

SUITES = Path(__file__).with_name("planted_suites.py")


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """Of every engine's suite: those tests that should fail, and all of the sound engine's."""
    known = {name for name in dir(EngineSuite) if name.startswith("test_")}
    assert {test for engine in PLANTED for test in engine.caught_by} <= known
    wanted = [f"{SUITES}::TestPlantedEngine"]
    for engine in PLANTED:
        wanted += [f"{SUITES}::Test{engine.__name__}::{test}" for test in engine.caught_by]
    return run(*wanted)


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
