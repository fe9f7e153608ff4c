"""The engine whose databases the tests of this folder open."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kstore_lmdb import LMDBEngine
from kstore_lmdb.database import LMDBDatabase

OpenDatabase = Callable[..., LMDBDatabase]


@pytest.fixture
def engine_class() -> type[LMDBEngine]:
    """The engine of the fixtures in tests/plugins/conftest.py."""
    return LMDBEngine
