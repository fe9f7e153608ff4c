"""Fixtures of the whole suite."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.engines import ENGINES, Home, MakeHome
from tests.installing import fresh, install, sample

__all__ = ["engine", "fresh", "home", "install", "make_home", "sample"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of each engine in turn."""
    return str(request.param)


@pytest.fixture
def make_home(tmp_path: Path, engine: str) -> MakeHome:
    """Makes empty state directories on the engine of the test."""
    numbers = itertools.count()

    def make() -> Home:
        return Home(tmp_path / f"0_{next(numbers)}", engine)

    return make


@pytest.fixture
def home(make_home: MakeHome) -> Home:
    """An empty state directory on the engine of the test."""
    return make_home()
