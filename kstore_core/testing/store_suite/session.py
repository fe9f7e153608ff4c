"""Tests of session stores, with and without headers."""

from __future__ import annotations

from typing import Any

from kstore_core.errors import KeyTooLongError
from kstore_core.testing.kinds import Kind
from kstore_core.testing.models import SessionModel
from kstore_core.testing.store_suite.base import EACH_SESSION, HEADERS, PARTITION, StorePart
from kstore_core.testing.suite import refuses
from kstore_core.types import Windowed

RETENTION_MS, INTERVAL_MS = 100, 20
KEYS = [b"", b"\x00", b"k", b"k\x00", b"kk", b"\xff"]
TIMES = [(10, 30), (0, 0), (25, 90), (90, 90), (60, 70), (0, 110), (105, 110), (12, 13)]


class SessionPromises(StorePart):
    """Tests that a session store works as in Kafka Streams, and also finds sessions by end time."""

    @EACH_SESSION
    def test_any_sessions_can_be_found(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(_spec(kind))
        model = SessionModel(
            RETENTION_MS, INTERVAL_MS, time_ordered=kind.time_ordered, indexed=kind.indexed
        )
        for number, (start, end) in enumerate(TIMES):
            for key in KEYS:
                record = kind.record(b"%d" % number, 0, HEADERS[: number % 6])
                store.put(Windowed(key, start, end), kind.value(record))
                model.put(key, start, end, record)
        store.remove(Windowed(b"k", 60, 70))
        model.put(b"k", 60, 70, None)
        store.remove(Windowed(b"no", 60, 70))
        for life in ("staged", "committed", "reopened"):
            _compare(kind, store, model)
            assert store.stream_time == 110, "stream time is the greatest end"
            state.commit({PARTITION: 1})
            if life == "committed":
                state = self.reopen(state)
                store = state.open(_spec(kind))

    @EACH_SESSION
    def test_what_has_expired_is_neither_found_nor_taken(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(_spec(kind))
        value = kind.value(kind.record(b"v", 1))
        for end in (0, 45, 60, 150):
            store.put(Windowed(b"k", 0, end), value)
        assert _ends(store) == [60, 150], (
            "a session is found while its end is later than the horizon"
        )
        assert store.fetch_session(b"k", 0, 45) is None
        store.put(Windowed(b"k", 3, 45), value)
        assert (store.late, _ends(store)) == (0, [60, 150]), (
            "an expired session in a live segment is stored and not found"
        )
        store.put(Windowed(b"k", 0, 39), value)
        assert (store.late, store.stream_time) == (1, 150), (
            "a session in an expired segment counts as late"
        )
        state.commit()
        store = self.reopen(state).open(_spec(kind))
        assert _ends(store) == [60, 150], "expired sessions are not found after a reopen"

    @EACH_SESSION
    def test_session_keys_that_the_engine_cannot_hold_are_refused_at_once(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(_spec(kind))
        value = kind.value(kind.record(b"v", 1))
        if self.able.max_key_bytes is not None:
            long = Windowed(b"k" * (self.able.max_key_bytes + 1), 0, 5)
            refuses(KeyTooLongError, lambda: store.put(long, value), "a long key", "bytes")
            assert store.stream_time == -1, "a refused put does not move stream time"
        else:
            store.put(Windowed(b"k" * 65536, 0, 5), value)
            assert store.fetch_session(b"k" * 65536, 0, 5) == value, "a long key is stored"
        store.put(Windowed(b"", 0, 5), value)
        assert store.fetch_session(b"", 0, 5) == value, "the empty key is stored on every engine"
        state.commit()


def _spec(kind: Kind) -> Any:
    return kind.spec("s", RETENTION_MS, INTERVAL_MS)


def _ends(store: Any) -> list[int]:
    return [session.end for session, _ in store.fetch(b"k")]


def _compare(kind: Kind, store: Any, model: SessionModel) -> None:
    def items(scan: Any) -> list[Any]:
        return [((w.key, w.start, w.end), kind.read(value)) for w, value in scan]

    for reverse in (False, True):
        for first, last in ((None, None), (20, 60), (13, 0), (None, 25), (90, None), (110, 110)):
            times: Any = {"earliest_end": first, "latest_start": last, "reverse": reverse}
            for key in KEYS:
                found = items(store.find_sessions(key, first, last, reverse=reverse))
                assert found == model.find(key, key, **times), (
                    f"find_sessions({key!r}, {first}, {last}) returns the overlapping sessions"
                )
            for ends in ((None, None), (b"", b"k"), (b"\x00", b"k\x00"), (b"kk", b"k")):
                found = items(store.find_sessions_range(*ends, first, last, reverse=reverse))
                assert found == model.find(*ends, **times), (
                    f"find_sessions_range({ends}, {first}, {last}) is exact"
                )
            found = items(store.find_sessions_between(first, last, reverse=reverse))
            assert found == model.find(earliest_end=first, latest_end=last, reverse=reverse), (
                f"find_sessions_between({first}, {last}) returns the sessions with such an end"
            )
        for key in KEYS:
            assert items(store.fetch(key, reverse=reverse)) == model.find(key, key, reverse=reverse)
    for key in KEYS:
        for start, end in (*TIMES, (1, 2)):
            found_one = kind.read(store.fetch_session(key, start, end))
            assert found_one == model.fetch_session(key, start, end), "fetch_session is exact"
