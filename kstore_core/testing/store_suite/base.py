"""The base class of the store suite, which opens and closes state directories."""

from __future__ import annotations

from typing import Any

import pytest

from kstore_core.state import StateDirectory, open_state
from kstore_core.testing.kinds import KEY_VALUE, LAYERED, SESSION, VERSIONED, WINDOW, Kind, Record
from kstore_core.testing.suite import Suite

__all__ = ["EACH_KEY_VALUE", "EACH_SESSION", "EACH_VERSIONED", "EACH_WINDOW", "HEADERS",
           "PARTITION", "StorePart", "records"]  # fmt: skip

PARTITION = ("orders", 0)
HEADERS = (
    ("trace-id", b"abc"),
    ("trace-id", b"def"),
    ("none", None),
    ("empty", b""),
    ("", b"\xff"),
)
"""Headers with a repeated name, a value of None and an empty value. They are not sorted by name."""


def _each(kinds: tuple[Kind, ...]) -> pytest.MarkDecorator:
    """Parametrize a test with all kinds of a shape, with and without a cache and metrics."""
    layered = [kind for kind in LAYERED if kind.shape == kinds[0].shape]
    return pytest.mark.parametrize("kind", [*kinds, *layered], ids=str)


EACH_KEY_VALUE = _each(KEY_VALUE)
EACH_VERSIONED = _each(VERSIONED)
EACH_WINDOW = _each(WINDOW)
EACH_SESSION = _each(SESSION)


class StorePart(Suite):
    """The base class of all test classes of the store suite."""

    def state(self, **arguments: Any) -> StateDirectory:
        """Open the state directory of the test, which is closed at the end of the test."""
        state = open_state(self.root, engine=self.engine, **arguments)
        self._opened.callback(state.close)
        return state

    def reopen(self, state: StateDirectory, **arguments: Any) -> StateDirectory:
        """Close and reopen ``state``, with a new engine object if the engine is persistent."""
        state.close()
        if self.able.persistent:
            self.engine = self.new_engine()
        return self.state(**arguments)


def records(kind: Kind, count: int) -> dict[bytes, Record]:
    """Return a dict of records of ``kind``. Each record has a different time and headers."""
    return {
        b"k%04d" % number: kind.record(
            b"value %d" % number, 1_700_000_000_000 + number, HEADERS[: number % 6]
        )
        for number in range(count)
    }
