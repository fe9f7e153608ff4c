"""Databases that are closed when their test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kstore_lmdb import LMDBEngine
from kstore_lmdb.database import LMDBDatabase
from tests.plugins.support import opening

OpenDatabase = Callable[..., LMDBDatabase]


@pytest.fixture
def open_database(tmp_path: Path) -> Iterator[OpenDatabase]:
    """Opens the store ``s`` in ``tmp_path``; engine options by name."""
    with opening(LMDBEngine, tmp_path) as open_one:
        yield open_one


@pytest.fixture
def database(open_database: OpenDatabase) -> LMDBDatabase:
    """The store ``s``, new and empty."""
    return open_database()
