"""Fixtures of the whole suite."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

import pytest

from tests.engines import ENGINES, Home, MakeHome
from tests.installing import fresh, install, sample

__all__ = ["engine", "fresh", "home", "install", "make_home", "sample"]

_SHARED_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 6 * 1024**3


_SCRATCH = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Have temporary directories in memory where there is room, unless TMPDIR says where.

    Tests open databases by the thousand, and an open waits for the disk some ten times. What a kill
    leaves is the same there; what a power cut would leave no test can see.
    """
    if "TMPDIR" in os.environ or not _SHARED_MEMORY.is_dir():
        return
    if shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM_BYTES:
        scratch = tempfile.mkdtemp(prefix="kstore-tests-", dir=_SHARED_MEMORY)
        config.stash[_SCRATCH] = os.environ["TMPDIR"] = scratch
        tempfile.tempdir = None  # which has been asked for by now


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Leave nothing in memory, what killed processes have left included; but what has failed."""
    scratch = session.config.stash.get(_SCRATCH, None)
    if scratch is not None and exitstatus == 0:
        session.config.add_cleanup(partial(shutil.rmtree, scratch, ignore_errors=True))


def pytest_collection_finish() -> None:
    """Have the collector leave alone what there is by now, thousands of tests among it.

    The suites of the kit have it run after each test.
    """
    gc.collect()
    gc.freeze()


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
