"""The state machine of a session store, with or without headers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from kstore_core.testing.machines.segmented import ENDS, KEYS, RECORDS, TIMES, WindowedMachine
from kstore_core.testing.models import SessionModel
from kstore_core.types import Windowed

__all__ = ["SessionMachine"]

LENGTHS = st.integers(0, 25)


class SessionMachine(WindowedMachine):
    """A state machine that compares a session store with a model."""

    model: SessionModel

    def new_model(self) -> SessionModel:
        return SessionModel(
            self.retention_ms,
            self.segment_interval_ms,
            time_ordered=self.kind.time_ordered,
            indexed=self.kind.indexed,
        )

    def rewrite(self) -> None:
        for (key, start, end), record in self.model.aggregates.items():
            if self.model.is_live(end):
                self.store.put(Windowed(key, start, end), self.kind.value(record))

    def session(self, key: bytes, ago: int, length: int) -> Windowed[bytes]:
        end = self.time(ago)
        return Windowed(key, max(0, end - length), end)

    @rule(key=KEYS, ago=TIMES, length=LENGTHS, given=st.none() | RECORDS)
    def put(self, key: bytes, ago: int, length: int, given: Any) -> None:
        session, record = self.session(key, ago, length), self.record(given)
        late, was_late = self.store.late, self.model.late
        self.store.put(session, self.kind.value(record))
        self.model.put(key, session.start, session.end, record)
        assert self.store.late - late == self.model.late - was_late, "late writes are counted"

    @rule(which=st.integers(0, 20))
    def remove(self, which: int) -> None:
        stored = sorted(self.model.aggregates)
        key, start, end = stored[which % len(stored)] if stored else (b"k", 0, 0)
        self.store.remove(Windowed(key, start, end))
        self.model.put(key, start, end, None)

    @rule(key=KEYS, ago=TIMES, length=LENGTHS)
    def fetch_session(self, key: bytes, ago: int, length: int) -> None:
        session = self.session(key, ago, length)
        sessions = [(key, session.start, session.end), *self.model.aggregates]
        for asked in sessions[:4]:
            found = self.read(self.store.fetch_session(*asked))
            assert found == self.model.fetch_session(*asked), "fetch_session"

    @rule(key=KEYS, end=st.none() | TIMES, start=st.none() | TIMES, reverse=st.booleans())
    def find_sessions(self, key: bytes, end: Any, start: Any, reverse: bool) -> None:
        earliest, latest = self.at(end), self.at(start)
        found = self.items(self.store.find_sessions(key, earliest, latest, reverse=reverse))
        wanted = self.model.find(
            key, key, earliest_end=earliest, latest_start=latest, reverse=reverse
        )
        assert found == wanted, "find_sessions"

    @rule(
        key_from=ENDS,
        key_to=ENDS,
        end=st.none() | TIMES,
        start=st.none() | TIMES,
        reverse=st.booleans(),
    )
    def find_range(self, key_from: Any, key_to: Any, end: Any, start: Any, reverse: bool) -> None:
        earliest, latest = self.at(end), self.at(start)
        scan = self.store.find_sessions_range(key_from, key_to, earliest, latest, reverse=reverse)
        wanted = self.model.find(
            key_from, key_to, earliest_end=earliest, latest_start=latest, reverse=reverse
        )
        assert self.items(scan) == wanted, "find_sessions_range"

    @rule(first=st.none() | TIMES, last=st.none() | TIMES, reverse=st.booleans())
    def find_between(self, first: Any, last: Any, reverse: bool) -> None:
        earliest, latest = self.at(first), self.at(last)
        found = self.items(self.store.find_sessions_between(earliest, latest, reverse=reverse))
        wanted = self.model.find(earliest_end=earliest, latest_end=latest, reverse=reverse)
        assert found == wanted, "find_sessions_between"

    @rule(key=KEYS, key_to=ENDS, reverse=st.booleans())
    def fetch(self, key: bytes, key_to: Any, reverse: bool) -> None:
        found = self.items(self.store.fetch(key, reverse=reverse))
        assert found == self.model.find(key, key, reverse=reverse), "fetch"
        found = self.items(self.store.fetch_range(key, key_to, reverse=reverse))
        assert found == self.model.find(key, key_to, reverse=reverse), "fetch_range"

    def all_items(self, key_from: bytes | None, *, reverse: bool) -> list[Any]:
        return self.model.find(key_from, None, reverse=reverse)

    def change(self, key: bytes, given: Any, ago: int, items: list[Any]) -> None:
        self.put(key, ago, 3, given)
        self.remove(0)

    def at(self, ago: int | None) -> int | None:
        return None if ago is None else self.model.observed - ago
