"""Handles: their ``with`` blocks, also when a signal arrives."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from kstore_core.changelog import FileChangelog
from kstore_core.system.handle import Handle
from kstore_core.testing.interrupter.aims import Arrival


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


class Kept(Interrupted):
    """A handle that records its commits, too, and can be entered."""

    read_only = False

    def _check(self) -> None: ...

    def commit(self) -> None:
        """Record the commit."""
        self._closed.append("committed")


def arrive() -> None:
    """Let a signal arrive whose handler has not run when this function returns."""
    _ = Arrival(signal.SIGINT).now


def test_a_signal_at_the_end_of_a_with_block_closes_without_a_commit() -> None:
    closed: list[str] = []
    with pytest.raises(KeyboardInterrupt) as caught, Kept(closed):
        arrive()
    assert closed == ["closed"]
    assert caught.value.__traceback__ is not None


def test_a_signal_at_the_end_of_a_with_block_that_raised_has_the_error_as_its_context() -> None:
    class Failed(Kept):
        def close(self) -> None:
            super().close()
            raise OSError("the close failed")

    for handle, contexts in ((Kept, ["block"]), (Failed, ["the close failed", "block"])):
        closed: list[str] = []

        def fail(handle: type[Kept] = handle, closed: list[str] = closed) -> None:
            with handle(closed):
                try:
                    raise ValueError("block")
                finally:
                    arrive()

        with pytest.raises(KeyboardInterrupt) as caught:
            fail()
        assert closed == ["closed"]
        error, seen = caught.value.__context__, []
        while error is not None:
            seen.append(str(error))
            error = error.__context__
        assert seen == contexts


def test_the_lock_of_a_log_is_free_after_a_signal_at_the_end_of_its_block(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as caught, FileChangelog(tmp_path, "t"):
        arrive()
    FileChangelog(tmp_path, "t").close()
    assert caught.value.__traceback__ is not None  # which kept the log alive
