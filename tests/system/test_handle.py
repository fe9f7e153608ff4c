"""Handles: their ``with`` blocks, also when a signal arrives."""

from __future__ import annotations

import signal

import pytest

from kstore_core.system.handle import Handle


class Interrupted(Handle):
    """A handle that a Ctrl-C interrupts while its block is entered."""

    read_only = True

    def __init__(self, closed: list[str]) -> None:
        self._closed = closed
        self._is_open()

    def _check(self) -> None:
        signal.raise_signal(signal.SIGINT)

    def commit(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Record the close."""
        self._open = False
        self._closed.append("closed")


def test_a_handle_that_was_interrupted_at_its_with_is_closed_although_the_error_is_kept() -> None:
    closed: list[str] = []
    with (
        pytest.warns(ResourceWarning, match="was never closed"),
        pytest.raises(KeyboardInterrupt) as caught,
        Interrupted(closed),
    ):
        raise AssertionError("the block was entered")
    assert closed == ["closed"]
    assert caught.value.__traceback__ is not None
