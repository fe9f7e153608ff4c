"""Databases that are closed when their test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kstore_rocksdb import RocksDBEngine
from kstore_rocksdb.database import RocksDBDatabase
from tests.plugins.support import opening

OpenDatabase = Callable[..., RocksDBDatabase]


@pytest.fixture
def open_database(tmp_path: Path) -> Iterator[OpenDatabase]:
    """Opens the store ``s`` in ``tmp_path``; engine options by name."""
    with opening(RocksDBEngine, tmp_path) as open_one:
        yield open_one


@pytest.fixture
def database(open_database: OpenDatabase) -> RocksDBDatabase:
    """The store ``s``, new and empty."""
    return open_database()
