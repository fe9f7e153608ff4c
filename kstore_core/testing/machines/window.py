"""The state machine of a window store of any format, with or without duplicates."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import WINDOW_SIZE_MS
from kstore_core.testing.machines.segmented import ENDS, KEYS, RECORDS, TIMES, WindowedMachine
from kstore_core.testing.models import WindowModel

__all__ = ["WindowMachine"]


class WindowMachine(WindowedMachine):
    """A state machine that compares a window store with a model.

    Attributes
    ----------
    retain_duplicates : bool
        True if the store retains duplicates.
    """

    retain_duplicates: ClassVar[bool] = False
    model: WindowModel

    def new_model(self) -> WindowModel:
        return WindowModel(
            self.retention_ms,
            self.segment_interval_ms,
            size=WINDOW_SIZE_MS,
            duplicates=self.retain_duplicates,
            time_ordered=self.kind.time_ordered,
            indexed=self.kind.indexed,
        )

    def spec(self) -> StoreSpec:
        return self.kind.spec(
            "s", self.retention_ms, self.segment_interval_ms, duplicates=self.retain_duplicates
        )

    def open(self, **arguments: Any) -> None:
        super().open(**arguments)
        self.model.opened()

    def rewrite(self) -> None:
        for (key, start), [(_, record)] in self.model.values.items():
            if self.model.is_live(start):
                self.store.put(key, self.kind.value(record), window_start=start)

    @rule(key=KEYS, given=st.none() | RECORDS, ago=TIMES)
    def put(self, key: bytes, given: Any, ago: int) -> None:
        record, start = self.record(given), self.time(ago)
        late, was_late = self.store.late, self.model.late
        self.store.put(key, self.kind.value(record), window_start=start)
        self.model.put(key, record, start)
        assert self.store.late - late == self.model.late - was_late, "late writes are counted"

    @precondition(lambda self: not self.retain_duplicates)
    @rule(keys=st.lists(KEYS, max_size=4), ago=TIMES)
    def fetch_one(self, keys: list[bytes], ago: int) -> None:
        start = self.time(ago)
        found = [self.read(self.store.fetch_one(key, start)) for key in keys]
        assert found == [self.model.fetch_one(key, start) for key in keys], "fetch_one"

    @rule(key=KEYS, lo=st.none() | TIMES, width=st.none() | TIMES, reverse=st.booleans())
    def fetch(self, key: bytes, lo: Any, width: Any, reverse: bool) -> None:
        first, last = self.times(lo, width)
        scan = self.store.fetch(key, first, last, reverse=reverse)
        found = [(start, self.read(value)) for start, value in scan]
        assert found == self.model.fetch(key, first, last, reverse=reverse), "fetch"

    @rule(
        key_from=ENDS,
        key_to=ENDS,
        lo=st.none() | TIMES,
        width=st.none() | TIMES,
        reverse=st.booleans(),
    )
    def fetch_range(self, key_from: Any, key_to: Any, lo: Any, width: Any, reverse: bool) -> None:
        first, last = self.times(lo, width)
        found = self.items(self.store.fetch_range(key_from, key_to, first, last, reverse=reverse))
        wanted = self.model.range(key_from, key_to, first, last, reverse=reverse)
        assert found == wanted, "fetch_range"

    @rule(lo=st.none() | TIMES, width=st.none() | TIMES, reverse=st.booleans())
    def fetch_all(self, lo: Any, width: Any, reverse: bool) -> None:
        first, last = self.times(lo, width)
        found = self.items(self.store.fetch_all(first, last, reverse=reverse))
        assert found == self.model.range(None, None, first, last, reverse=reverse), "fetch_all"

    def all_items(self, key_from: bytes | None, *, reverse: bool) -> list[Any]:
        return self.model.range(key_from, None, None, None, reverse=reverse)

    def change(self, key: bytes, given: Any, ago: int, items: list[Any]) -> None:
        self.put(key, given, ago)
        for (other, start, _), _ in items[:2]:
            self.put(other, None, self.model.observed - start)

    def times(self, lo: int | None, width: int | None) -> tuple[int | None, int | None]:
        first = None if lo is None else self.model.observed - lo
        return first, None if width is None else (first or 0) + abs(width)
