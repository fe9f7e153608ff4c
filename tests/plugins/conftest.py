"""Databases that are closed when their test ends, of the engine of the folder's conftest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kstore_core.engine import Database, Engine, Rows
from tests.plugins.support import opening


@pytest.fixture
def open_database(
    engine_class: Callable[[Any], Engine], tmp_path: Path
) -> Iterator[Callable[..., Database]]:
    """Opens the store ``s`` in ``tmp_path``; engine options by name."""
    with opening(engine_class, tmp_path) as open_one:
        yield open_one


@pytest.fixture
def database(open_database: Callable[..., Database]) -> Database:
    """The store ``s``, new and empty."""
    return open_database()


@pytest.fixture
def closed(open_database: Callable[..., Database]) -> Database:
    """The store ``s`` with the row ``a``, closed."""
    database = open_database()
    database.write({"default": Rows([b"a"], [b"1"])})
    database.close()
    return database
