"""The hook that is called after each step of an epoch; the tests kill a process there."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["StepHook", "no_step"]

StepHook = Callable[[str, "int | None"], None]
"""Called with a step's name and its shard; None for a step of the driver."""


def no_step(name: str, shard: int | None) -> None:
    """Ignore a step."""
