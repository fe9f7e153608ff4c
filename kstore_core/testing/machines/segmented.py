"""What the lives of window and session stores have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import invariant

from kstore_core.testing import strategies
from kstore_core.testing.kinds import Record
from kstore_core.testing.machines.store import StoreMachine

__all__ = ["ENDS", "KEYS", "RECORDS", "TIMES", "SegmentedMachine"]

KEYS = strategies.keys()
ENDS = st.none() | KEYS | strategies.bounds()
RECORDS = strategies.records()
TIMES = st.integers(-40, 60)
"""How long before stream time (ms)."""


class SegmentedMachine(StoreMachine):
    """A store in segments of time, and its model.

    Attributes
    ----------
    retention_ms, segment_interval_ms : int
        Those of the store.
    """

    retention_ms: ClassVar[int] = 30
    segment_interval_ms: ClassVar[int] = 10

    def time(self, ago: int) -> int:
        return max(0, int(self.model.observed) - ago)

    def read(self, value: Any) -> Record | None:
        return self.kind.read(value)

    def record(self, given: Any) -> Record | None:
        return None if given is None else self.kind.record(*given)

    def items(self, scan: Any) -> list[Any]:
        """Items of (Windowed, value) as the models have them."""
        return [((w.key, w.start, w.end), self.read(value)) for w, value in scan]

    @invariant()
    def stream_time_is_the_models(self) -> None:
        assert self.store.stream_time == self.model.observed, "stream time is the greatest time"
