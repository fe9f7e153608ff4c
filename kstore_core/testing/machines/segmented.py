"""The base classes of the state machines of stores with segments."""

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
"""The strategy for the ages of records, in milliseconds before the stream time."""


class SegmentedMachine(StoreMachine):
    """The base class of the state machines of stores with segments.

    Attributes
    ----------
    retention_ms, segment_interval_ms : int
        The retention and the segment interval of the store in ms.
    """

    retention_ms: ClassVar[int] = 30
    segment_interval_ms: ClassVar[int] = 10

    def spec(self) -> StoreSpec:
        return self.kind.spec("s", self.retention_ms, self.segment_interval_ms)

    @invariant()
    def stream_time_is_the_models(self) -> None:
        assert self.store.stream_time == self.model.observed, "stream time is the greatest time"


class WindowedMachine(SegmentedMachine):
    """The base class of the state machines of window and session stores."""

    def all_items(self, key_from: bytes | None, *, reverse: bool) -> list[Any]:
        """Return the items of the model whose key is ``key_from`` or greater."""
        raise NotImplementedError

    def change(self, key: bytes, given: Any, ago: int, items: list[Any]) -> None:
        """Put a record into the store and the model, and delete some of the items in both."""
        raise NotImplementedError

    def time(self, ago: int) -> int:
        return max(0, int(self.model.observed) - ago)

    def items(self, scan: Any) -> list[Any]:
        """Return the items of a scan, ``(Windowed, value)``, in the form of the model's items."""
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
