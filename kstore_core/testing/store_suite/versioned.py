"""Tests of versioned stores, with and without headers."""

from __future__ import annotations

from typing import Any

from kstore_core.testing.kinds import Kind
from kstore_core.testing.models import VersionedModel
from kstore_core.testing.store_suite.base import EACH_VERSIONED, HEADERS, StorePart
from kstore_core.types import LATEST, NOT_PUT

RETENTION_MS, INTERVAL_MS = 100, 20


class VersionedPromises(StorePart):
    """Tests that a versioned store works as in Kafka Streams, and returns the end of a version."""

    @EACH_VERSIONED
    def test_any_time_can_be_read(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(_spec(kind))
        model = VersionedModel(RETENTION_MS, INTERVAL_MS)
        for number, timestamp in enumerate([10, 50, 30, 90, 70, 20, 110, 60, 105]):
            for key in (b"k", b"k%d" % (number % 3)):
                data = None if number % 4 == 3 else b"%d" % timestamp
                headers = HEADERS[: number % 6] if kind.format.headers else ()
                code = store.put(key, data, timestamp=timestamp, headers=headers)
                value = None if data is None else (data, headers)
                assert code == model.put(key, value, timestamp), (
                    "put returns the end of the version"
                )
        for life in ("staged", "committed", "reopened"):
            _compare(kind, store, model)
            state.commit()
            if life == "committed":
                state = self.reopen(state)
                store = state.open(_spec(kind))
        assert store.stream_time == 110, "stream time is the same after a reopen"

    @EACH_VERSIONED
    def test_codes_and_tombstones(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(_spec(kind))
        assert store.put(b"k", b"1", timestamp=100) == LATEST
        assert store.put(b"k", b"0", timestamp=50) == 100, (
            "an older version ends at the start of the next one"
        )
        old = store.delete(b"k", timestamp=120)
        assert (old.value, old.timestamp, old.valid_to) == (b"1", 100, None)
        assert store.get(b"k") is None, "a deleted key has no latest version"
        found = store.get(b"k", 110)
        assert (found.value, found.valid_to) == (b"1", 120), (
            "a version ends at the time of its tombstone"
        )
        assert store.put(b"k", b"late", timestamp=19) == NOT_PUT, (
            "a put before the horizon is not stored"
        )
        assert store.put(b"k", b"just", timestamp=20) == 50, "a put at the horizon is stored"
        state.commit()
        store = self.reopen(state).open(_spec(kind))
        assert store.put(b"k", b"late", timestamp=19) == NOT_PUT, (
            "a put before the horizon is not stored after a reopen"
        )
        assert [record.timestamp for record in store.history(b"k")] == [20, 50, 100]

    @EACH_VERSIONED
    def test_a_scan_of_versions_is_a_moment(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(_spec(kind))
        for number in range(400):
            store.put(b"k%04d" % number, b"then", timestamp=50)
            if number == 200:
                state.commit()
        latest, past = store.all(), store.all(60, reverse=True)
        for number in range(0, 400, 3):
            store.put(b"k%04d" % number, b"later", timestamp=55)
        state.commit()
        keys = [b"k%04d" % number for number in range(400)]
        assert [(key, record.value) for key, record in latest] == [(key, b"then") for key in keys]
        assert [(key, record.value) for key, record in past] == [
            (key, b"then") for key in reversed(keys)
        ], "a scan as of a time shows the rows as of its call"
        assert store.get(b"k0000", 60).value == b"later"


def _spec(kind: Kind) -> Any:
    return kind.spec("s", RETENTION_MS, INTERVAL_MS)


def _compare(kind: Kind, store: Any, model: VersionedModel) -> None:
    keys = [b"k", b"k0", b"k1", b"k2", b"no"]
    for as_of in (None, 0, 15, 35, 55, 60, 75, 90, 108, 110, 200):
        wanted = [model.get(key, as_of) for key in keys]
        promise = f"a read as of {as_of} returns the version that was valid at this time"
        assert [_record(kind, store.get(key, as_of)) for key in keys] == wanted, promise
        assert [_record(kind, record) for record in store.get_many(keys, as_of)] == wanted, promise
        for reverse in (False, True):
            found = [
                (key, _record(kind, record))
                for key, record in store.range(b"k", b"k1", as_of, reverse=reverse)
            ]
            assert found == model.range(b"k", b"k1", as_of, reverse=reverse), promise
    for lo, hi in ((None, None), (20, 60), (None, 50), (60, None), (200, 300)):
        for reverse in (False, True):
            found = [_record(kind, r) for r in store.history(b"k", lo, hi, reverse=reverse)]
            assert found == model.history(b"k", lo, hi, reverse=reverse), (
                f"history({lo}, {hi}) returns every version that was valid at a time in the range"
            )


def _record(kind: Kind, record: Any) -> Any:
    if record is None:
        return None
    headers = tuple(record.headers) if kind.format.headers else ()
    return (record.value, headers), record.timestamp, record.valid_to
