"""Tests of an engine, which call methods of a state directory and interrupt these calls."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest

from kstore_core.testing.interrupter.interrupting import Interrupter
from kstore_core.testing.interrupter.operations import OPERATIONS
from kstore_core.testing.killer.combinations import combinations
from kstore_core.testing.suite import Suite

__all__ = ["InterruptSuite"]


class InterruptSuite(Suite):
    """The tests that interrupt calls on an engine, one test for each of :data:`OPERATIONS`.

    Each test uses a key-value store and a window store in one state directory. The attribute
    ``seed`` determines the durability level and the layers of the stores.

    Attributes
    ----------
    interrupts : int
        The number of interrupts per test.
    seed : int
    """

    interrupts: ClassVar[int] = 4
    seed: ClassVar[int] = 1

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        super().pytest_generate_tests(metafunc)
        if "interrupted" in metafunc.fixturenames:
            metafunc.parametrize("interrupted", OPERATIONS)

    def test_what_follows_an_interrupt_is_as_without_it(
        self, interrupted: str, record_property: Any
    ) -> None:
        fits = OPERATIONS[interrupted].fits
        able = [one for one in combinations() if one.shape == "two" and fits(one, self.able)]
        if not able:
            return
        chosen = random.Random(f"{self.seed} {interrupted}").choice(able)
        root = self.root.parent / "interrupted"
        tally = Interrupter(self.new_engine, chosen, interrupted, root, self.seed).run(
            self.interrupts
        )
        assert tally.interrupts == self.interrupts
        record_property("interrupts", tally.interrupts)
