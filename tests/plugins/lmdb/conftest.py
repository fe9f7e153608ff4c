"""Databases that are closed when their test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kstore_lmdb import LMDBEngine
from kstore_lmdb.database import LMDBDatabase

OpenDatabase = Callable[..., LMDBDatabase]


@pytest.fixture
def open_database(tmp_path: Path) -> Iterator[OpenDatabase]:
    """Opens the store ``s`` in ``tmp_path``; engine options by name."""
    with ExitStack() as stack:

        def open_one(
            store: str = "s",
            *,
            root: Path = tmp_path,
            durability: Any = "process",
            read_only: bool = False,
            **options: Any,
        ) -> LMDBDatabase:
            engine = LMDBEngine(options or None)
            database = engine.open(root, store, durability=durability, read_only=read_only)
            stack.callback(database.close)
            return database

        yield open_one


@pytest.fixture
def database(open_database: OpenDatabase) -> LMDBDatabase:
    """The store ``s``, new and empty."""
    return open_database()
