"""The common parts of the machines of stores with segments."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from kstore_core.spec import StoreSpec
from kstore_core.testing import strategies
from kstore_core.testing.machines.store import StoreMachine

__all__ = ["ENDS", "KEYS", "RECORDS", "TIMES", "SegmentedMachine", "WindowedMachine"]

KEYS = strategies.keys()
ENDS = st.none() | KEYS | strategies.bounds()
RECORDS = strategies.records()
TIMES = st.integers(-40, 60)
"""Milliseconds before the stream time."""


class SegmentedMachine(StoreMachine):
    """A store in segments of time, and its model.

    Attributes
    ----------
    retention_ms, segment_interval_ms : int
        Those of the store.
    """

    retention_ms: ClassVar[int] = 30
    segment_interval_ms: ClassVar[int] = 10

    def spec(self) -> StoreSpec:
        return self.kind.spec("s", self.retention_ms, self.segment_interval_ms)

    @invariant()
    def stream_time_is_the_models(self) -> None:
        assert self.store.stream_time == self.model.observed, "stream time is the greatest time"


class WindowedMachine(SegmentedMachine):
    """A window or session store, and its model."""

    def all_items(self, key_from: bytes | None, *, reverse: bool) -> list[Any]:
        """Return the model's items from ``key_from`` on."""
        raise NotImplementedError

    def change(self, key: bytes, given: Any, ago: int, items: list[Any]) -> None:
        """Put a record, and delete some of the items."""
        raise NotImplementedError

    def time(self, ago: int) -> int:
        return max(0, int(self.model.observed) - ago)

    def items(self, scan: Any) -> list[Any]:
        """Items of (Windowed, value) in the form of the models."""
        return [((w.key, w.start, w.end), self.read(value)) for w, value in scan]

    @rule(
        key=KEYS,
        given=RECORDS,
        ago=TIMES,
        key_from=st.sampled_from([None, b""]),
        reverse=st.booleans(),
        commit=st.booleans(),
    )
    def scan_during_changes(
        self, key: bytes, given: Any, ago: int, key_from: Any, reverse: bool, commit: bool
    ) -> None:
        wanted = self.all_items(key_from, reverse=reverse)
        scan = self.store.fetch_range(key_from, None, reverse=reverse)
        self.change(key, given, ago, wanted)
        if commit:
            self.commit()
        assert self.items(scan) == wanted, "a scan shows the store as of its call"
