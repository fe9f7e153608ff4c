"""Calls that go to the cluster with Spark Connect, and are plain calls otherwise."""

from __future__ import annotations

import pickle
import warnings
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from kstore_core.errors import CommitConflictError
from kstore_core.spark.runtime import server
from kstore_core.spark.runtime.server import is_connect, on_server


def outcome(function: Any) -> tuple[Any, Any, Any]:
    """What the task of a call returns."""
    rows = pa.RecordBatch.from_pydict({"id": [0]})
    (batch,) = server._Call(function).run(iter([rows]))
    found: tuple[Any, Any, Any] = pickle.loads(batch.column(0)[0].as_py())
    return found


def test_without_connect_it_is_a_call() -> None:
    assert not is_connect(None)
    given = [3, 1, 2]
    assert on_server(None, given.sort, reverse=True) is None
    assert given == [3, 2, 1]


def test_a_task_returns_the_result_or_the_error() -> None:
    assert outcome(partial(max, 3, 4)) == (4, None, [])

    def fail() -> None:
        raise CommitConflictError("version 2 exists")

    result, error, warned = outcome(fail)
    assert (result, warned, str(error)) == (None, [], "version 2 exists")
    assert type(error) is CommitConflictError
    with pytest.raises(KeyboardInterrupt):
        outcome(partial(_interrupt))


def test_a_task_returns_its_warnings() -> None:
    def warn() -> int:
        warnings.warn("gaps", UserWarning, stacklevel=2)
        return 1

    assert outcome(warn) == (1, None, [("gaps", UserWarning)])


def _interrupt() -> None:
    raise KeyboardInterrupt
