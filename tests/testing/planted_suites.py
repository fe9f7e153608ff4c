"""The engine suite over every planted engine, to be run by test_planted.py."""

from __future__ import annotations

from typing import Any

from kstore_core.testing import EngineSuite
from tests.testing.planted import PLANTED, PlantedEngine

STOPPED = "DeletesNoRange"
"""The planted engine whose suite is run as it is for authors, too."""


def suite(engine: type[PlantedEngine]) -> type[EngineSuite]:
    def make_engine(_: Any) -> PlantedEngine:
        return engine()

    given = {"make_engine": make_engine, "random_after_failures": True}
    return type(f"Test{engine.__name__}", (EngineSuite,), given)


class TestStopped(EngineSuite):
    """Random tests are skipped, for another one has failed before them."""

    def make_engine(self) -> PlantedEngine:
        return next(engine for engine in PLANTED if engine.__name__ == STOPPED)()


globals().update({f"Test{engine.__name__}": suite(engine) for engine in [PlantedEngine, *PLANTED]})
