"""A hook that a stream calls after each step of an epoch, so that tests can kill the process."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["StepHook", "no_step"]

StepHook = Callable[[str, "int | None"], None]
"""The type of the hook. Its arguments are the name of the step and the number of the shard.

The number is None if the step belongs to the driver.
"""


def no_step(name: str, shard: int | None) -> None:
    """Do nothing. This is the hook outside of tests."""
