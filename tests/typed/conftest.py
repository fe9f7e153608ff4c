"""Fixtures of the shapes' tests."""

import pytest

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
