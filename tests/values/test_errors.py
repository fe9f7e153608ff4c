"""The error tree: one root, the bases that callers know, and errors that can travel."""

import inspect
import pickle

import pytest

from kstore_core import errors
from kstore_core.errors import (
    CorruptionError,
    EngineError,
    EngineLockedError,
    FormatError,
    KStoreError,
    ReadOnlyHeadersError,
    SpecError,
    StateError,
    UnknownEngineError,
)

OWN = [getattr(errors, name) for name in errors.__all__]


def test_every_error_has_the_one_root_and_is_public():
    defined = {
        name
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if value.__module__ == errors.__name__
    }
    assert defined == set(errors.__all__)
    assert all(issubclass(kind, KStoreError) for kind in OWN)


def test_the_tree_is_the_one_that_the_docstring_draws():
    drawn = [line.partition("── ") for line in errors.__doc__.splitlines() if "── " in line]
    assert {after.split()[0] for _, _, after in drawn} == set(errors.__all__) - {"KStoreError"}
    above = [KStoreError]
    for before, _, after in drawn:
        depth = len(before) // 4
        kind = getattr(errors, after.split()[0])
        assert kind.__bases__[0] is above[depth - 1]
        above[depth:] = [kind]


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (FormatError, ValueError),
        (SpecError, ValueError),
        (UnknownEngineError, LookupError),
        (ReadOnlyHeadersError, TypeError),
    ],
)
def test_some_are_builtin_errors_too(kind, builtin):
    assert issubclass(kind, builtin)


@pytest.mark.parametrize("kind", OWN)
def test_errors_survive_pickling_with_what_they_carry(kind):
    error = kind("what happened")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == "what happened"


def test_a_lock_error_carries_its_holder():
    error = pickle.loads(pickle.dumps(EngineLockedError("held", pid=7)))
    assert (str(error), error.pid) == ("held", 7)
    assert EngineLockedError("held").pid is None


def test_a_format_error_carries_where():
    error = pickle.loads(pickle.dumps(FormatError("bad", offset=3)))
    assert (str(error), error.offset) == ("bad", 3)
    assert FormatError("bad").offset is None


def test_engine_and_state_errors_are_told_apart():
    assert issubclass(CorruptionError, EngineError)
    assert not issubclass(StateError, EngineError)
