"""The crash tests of an engine, which kill writers and check the remaining rows and offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from kstore_core.testing.killer.combinations import combination, combinations, covering
from kstore_core.testing.killer.killing import Killer
from kstore_core.testing.suite import Suite

__all__ = ["CrashSuite"]


class CrashSuite(Suite):
    """The crash tests of an engine, one test for each name in ``combinations``.

    Attributes
    ----------
    kills : int
        The number of kills per combination.
    seed : int
    combinations : sequence of str
        The names of the combinations to test. The default covers every pair of choices.
    """

    kills: ClassVar[int] = 4
    seed: ClassVar[int] = 1
    combinations: ClassVar[Sequence[str]] = tuple(map(str, covering(combinations())))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        super().pytest_generate_tests(metafunc)
        if "crashing" in metafunc.fixturenames:
            metafunc.parametrize("crashing", self.combinations)

    def test_a_kill_leaves_what_was_committed(self, crashing: str, record_property: Any) -> None:
        if not self.able.persistent:
            return
        killer = Killer(self.new_engine, combination(crashing), self.root.parent, self.seed)
        tally = killer.run(self.kills)
        assert tally.kills == self.kills
        record_property("kills", tally.kills)
