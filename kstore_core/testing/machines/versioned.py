"""The state machine of a versioned store, with or without headers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from kstore_core.testing import strategies
from kstore_core.testing.machines.segmented import SegmentedMachine
from kstore_core.testing.models import VersionedModel

__all__ = ["VersionedMachine"]

KEYS = st.runner().flatmap(lambda machine: strategies.keys(machine.able))
ENDS = st.none() | KEYS
TIMES = st.integers(0, 60)


class VersionedMachine(SegmentedMachine):
    """A state machine that compares a versioned store with a model of all versions ever put."""

    model: VersionedModel

    def new_model(self) -> VersionedModel:
        return VersionedModel(self.retention_ms, self.segment_interval_ms)

    def rewrite(self) -> None:
        raise NotImplementedError(
            "rewrite() is needed only before a second upgrade, but a versioned store has only one "
            "older format"
        )

    def version(self, record: Any) -> Any:
        """Return ``((data, headers), timestamp, valid_to)`` of a record, as in the model."""
        if record is None:
            return None
        headers = tuple(record.headers) if self.kind.format.headers else ()
        return (record.value, headers), record.timestamp, record.valid_to

    @rule(key=KEYS, data=st.none() | strategies.values(), ago=TIMES, headers=strategies.headers())
    def put(self, key: bytes, data: bytes | None, ago: int, headers: Any) -> None:
        timestamp = max(0, self.model.observed + 8 - ago)
        stored = headers if self.kind.format.headers else ()
        valid_to = self.store.put(key, data, timestamp=timestamp, headers=stored)
        value = None if data is None else (data, tuple(stored))
        assert valid_to == self.model.put(key, value, timestamp), (
            "put returns the end of the version"
        )

    @rule(key=KEYS, ago=TIMES)
    def delete(self, key: bytes, ago: int) -> None:
        timestamp = max(0, self.model.observed + 3 - ago)
        late = timestamp < self.model.horizon
        wanted = None if late else self.model.get(key, timestamp)
        old = self.version(self.store.delete(key, timestamp=timestamp))
        assert old == wanted, "delete returns the record that was valid"
        self.model.put(key, None, timestamp)

    @rule(keys=st.lists(KEYS, max_size=4), ago=st.none() | TIMES)
    def get(self, keys: list[bytes], ago: int | None) -> None:
        as_of = None if ago is None else self.model.observed + 5 - ago
        wanted = [self.model.get(key, as_of) for key in keys]
        assert [self.version(self.store.get(key, as_of)) for key in keys] == wanted, "get"
        assert list(map(self.version, self.store.get_many(keys, as_of))) == wanted, "get_many"

    @rule(key=KEYS, lo=st.none() | TIMES, width=st.none() | TIMES, reverse=st.booleans())
    def history(self, key: bytes, lo: int | None, width: int | None, reverse: bool) -> None:
        first = None if lo is None else self.model.observed - lo
        last = None if width is None else (first or 0) + width
        found = list(map(self.version, self.store.history(key, first, last, reverse=reverse)))
        assert found == self.model.history(key, first, last, reverse=reverse), "history"

    @rule(lo=ENDS, hi=ENDS, ago=st.none() | TIMES, reverse=st.booleans())
    def range(self, lo: Any, hi: Any, ago: int | None, reverse: bool) -> None:
        as_of = None if ago is None else self.model.observed + 5 - ago
        scan = self.store.range(lo, hi, as_of, reverse=reverse)
        found = [(key, self.version(record)) for key, record in scan]
        assert found == self.model.range(lo, hi, as_of, reverse=reverse), "range"
