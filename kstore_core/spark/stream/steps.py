"""The function that is called after each step of an epoch. Tests kill the process in it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["StepHook", "no_step"]

StepHook = Callable[[str, "int | None"], None]
"""A function of a step's name and the step's shard. The shard is None for a step of the driver."""


def no_step(name: str, shard: int | None) -> None:
    """Do nothing after a step."""
