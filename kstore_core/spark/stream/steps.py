"""The hook after each step of an epoch; tests kill a process in it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["StepHook", "no_step"]

StepHook = Callable[[str, "int | None"], None]
"""Called with a step's name and its shard; None for a step of the driver."""


def no_step(name: str, shard: int | None) -> None:
    """Ignore a step."""
