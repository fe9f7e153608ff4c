"""The engine suite over every planted engine, to be run by test_planted.py."""

from __future__ import annotations

from typing import Any

from kstore_core.testing import EngineSuite
from tests.testing.planted import PLANTED, PlantedEngine


def suite(engine: type[PlantedEngine]) -> type[EngineSuite]:
    def make_engine(_: Any) -> PlantedEngine:
        return engine()

    return type(f"Test{engine.__name__}", (EngineSuite,), {"make_engine": make_engine})


globals().update({f"Test{engine.__name__}": suite(engine) for engine in [PlantedEngine, *PLANTED]})
