"""The engine whose databases the tests of this folder open."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kstore_rocksdb import RocksDBEngine
from kstore_rocksdb.database import RocksDBDatabase

OpenDatabase = Callable[..., RocksDBDatabase]


@pytest.fixture
def engine_class() -> type[RocksDBEngine]:
    """The engine of the fixtures in tests/plugins/conftest.py."""
    return RocksDBEngine
