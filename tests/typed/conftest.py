"""Fixtures of the shapes' tests."""

import pytest

from kstore_core import serdes, stores
from tests.typed.kinds import KINDS


@pytest.fixture(params=KINDS, ids=str)
def kind(request):
    """Each key-value format in turn."""
    return request.param


@pytest.fixture
def state(home):
    """An open state directory on each engine in turn."""
    with home.open() as state:
        yield state


@pytest.fixture
def store(state, kind):
    """An open key-value store with bytes for keys and values."""
    return state.open(kind.factory("s"))


VERSIONED = [stores.versioned_key_value, stores.versioned_key_value_with_headers]


@pytest.fixture(params=VERSIONED, ids=["plain", "headers"])
def factory(request):
    """Each versioned format in turn."""
    return request.param


@pytest.fixture
def fx(state, factory):
    """A store with text for keys, bytes for values, and 1000 ms of history."""
    return state.open(factory("fx", 1000, 100, key=serdes.UTF8))
