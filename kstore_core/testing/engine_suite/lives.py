"""A random life, for what only a sequence of calls brings about."""

from __future__ import annotations

from typing import ClassVar

from kstore_core.testing.engine_suite.base import EnginePart
from kstore_core.testing.running import run_machine


class LifePromises(EnginePart):
    """All of it together.

    Attributes
    ----------
    lives : int
        How many; more find more.
    """

    lives: ClassVar[int] = 20

    def test_random_lives(self) -> None:
        # Here, for the machine shares what this suite's parts share.
        from kstore_core.testing.machines.engine import EngineMachine

        run_machine(EngineMachine, make_engine=self.new_engine, examples=self.lives)
