"""Tests of window stores of every format, with and without duplicates."""

from __future__ import annotations

from typing import Any

import pytest

from kstore_core.errors import KeyTooLongError, UnsupportedError
from kstore_core.testing.kinds import WINDOW_SIZE_MS, Kind
from kstore_core.testing.models import WindowModel
from kstore_core.testing.store_suite.base import EACH_WINDOW, HEADERS, PARTITION, StorePart
from kstore_core.testing.suite import refuses

RETENTION_MS, INTERVAL_MS = 100, 20
KEYS = [b"", b"\x00", b"\x00\x00", b"k", b"k\x00", b"k\xff", b"kk", b"\xff", b"\xff\xff"]
STARTS = [10, 50, 30, 90, 70, 20, 110, 60, 105, 3, 12]
EACH_WAY = pytest.mark.parametrize("duplicates", [False, True], ids=["single", "duplicates"])


class WindowPromises(StorePart):
    """Tests that a window store works as in Kafka Streams, and that ranges of keys are exact."""

    @EACH_WAY
    @EACH_WINDOW
    def test_any_windows_can_be_fetched(self, kind: Kind, duplicates: bool) -> None:
        state = self.state()
        store = state.open(_spec(kind, duplicates))
        model = WindowModel(
            RETENTION_MS,
            INTERVAL_MS,
            size=WINDOW_SIZE_MS,
            duplicates=duplicates,
            time_ordered=kind.time_ordered,
            indexed=kind.indexed,
        )
        for number, start in enumerate(STARTS):
            for key in (*KEYS, KEYS[number % len(KEYS)]):
                record = kind.record(b"%d" % number, 1000 + number, HEADERS[: number % 6])
                record_or_none = None if number == 7 else record
                store.put(key, kind.value(record_or_none), window_start=start)
                model.put(key, record_or_none, start)
        for life in ("staged", "committed", "reopened"):
            _compare(kind, store, model)
            assert store.stream_time == 110, "stream time is the greatest start"
            state.commit({PARTITION: 1})
            if life == "committed":
                state = self.reopen(state)
                store = state.open(_spec(kind, duplicates))

    @EACH_WINDOW
    def test_what_has_expired_is_neither_seen_nor_taken(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(_spec(kind))
        value = kind.value(kind.record(b"v", 1))
        for start in (0, 20, 40, 100):
            store.put(b"k", value, window_start=start)
        first = [0] if kind.time_ordered else []
        assert [start for start, _ in store.fetch(b"k")] == [*first, 20, 40, 100], (
            "a window is visible while its start is later than stream time minus the retention; in "
            "a time-ordered store also if it is equal"
        )
        store.put(b"k", value, window_start=150)
        assert [start for start, _ in store.fetch(b"k")] == [100, 150]
        store.put(b"k", value, window_start=45)
        assert (store.late, store.fetch_one(b"k", 45)) == (0, None), (
            "an expired window in a live segment is stored and not visible"
        )
        store.put(b"k", value, window_start=39)
        assert (store.late, store.stream_time) == (1, 150), (
            "a window in an expired segment counts as late"
        )
        state.commit()
        store = self.reopen(state).open(_spec(kind))
        assert [start for start, _ in store.fetch(b"k")] == [100, 150], (
            "expired windows are not visible after a reopen"
        )
        assert store.stream_time == 150, "stream time is the same after a reopen"

    @EACH_WINDOW
    def test_duplicates_stay_in_their_order(self, kind: Kind) -> None:
        state = self.state()
        wanted = []
        for number in range(600):
            if number % 200 == 0:
                if number:
                    state.commit()
                    state = self.reopen(state)
                store = state.open(_spec(kind, duplicates=True))
            record = kind.record(b"%d" % number, number, HEADERS[: number % 6])
            store.put(b"k", kind.value(record), window_start=50)
            store.put(b"k", None, window_start=50)
            wanted.append((50, record))
        found = [(start, kind.read(value)) for start, value in store.fetch(b"k", 50, 50)]
        assert found == wanted, "after a reopen numbers continue after the highest stored one"
        refuses(UnsupportedError, lambda: store.fetch_one(b"k", 50), "fetch_one", "fetch(key")

    @pytest.mark.parametrize("key_from", [None, b""], ids=["all", "keys"])
    @EACH_WINDOW
    def test_a_window_scan_is_a_moment(self, kind: Kind, key_from: bytes | None) -> None:
        state = self.state()
        store = state.open(_spec(kind))
        value, later = (kind.value(kind.record(data, 1)) for data in (b"then", b"later"))
        for number in range(400):
            store.put(b"k%04d" % number, value, window_start=number % 80)
            if number == 200:
                state.commit()
        for reverse in (False, True):
            scan = store.fetch_range(key_from, None, reverse=reverse)
            whole = list(store.fetch_range(key_from, None, reverse=reverse))
            wanted = [next(scan) for _ in range(3)] + whole[3:]
            for number in range(0, 400, 3):
                store.put(b"k%04d" % number, later, window_start=number % 80)
            store.put(b"k0001", None, window_start=1)
            store.put(b"new", later, window_start=150)
            state.commit()
            assert len(wanted) > 100
            assert wanted[3:] == list(scan), (
                "a scan shows the rows as of its call, even rows that have expired since"
            )

    @EACH_WINDOW
    def test_window_keys_that_the_engine_cannot_hold_are_refused_at_once(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(_spec(kind))
        value = kind.value(kind.record(b"v", 1))
        if self.able.max_key_bytes is not None:
            long = b"k" * (self.able.max_key_bytes + 1)
            refuses(
                KeyTooLongError,
                lambda: store.put(long, value, window_start=150),
                "a long key",
                "bytes",
            )
            assert store.stream_time == -1, "a refused put does not move stream time"
        else:
            store.put(b"k" * 65536, value, window_start=50)
            assert store.fetch_one(b"k" * 65536, 50) == value, "a long key is stored"
            assert len(list(store.fetch_range(b"k" * 65536, b"k" * 65536))) == 1
        store.put(b"", value, window_start=50)
        assert store.fetch_one(b"", 50) == value, "the empty key is stored on every engine"
        state.commit()


def _spec(kind: Kind, duplicates: bool = False) -> Any:
    return kind.spec("s", RETENTION_MS, INTERVAL_MS, duplicates=duplicates)


def _compare(kind: Kind, store: Any, model: WindowModel) -> None:
    times = [(None, None), (0, 200), (20, 60), (None, 50), (60, None), (105, 105), (200, 300)]
    for reverse in (False, True):
        for lo, hi in times:
            for key in KEYS:
                scan = store.fetch(key, lo, hi, reverse=reverse)
                found = [(start, kind.read(value)) for start, value in scan]
                assert found == model.fetch(key, lo, hi, reverse=reverse), (
                    f"fetch({key!r}, {lo}, {hi}) gives the windows of this key and no other"
                )
            for key_from in (None, b"\x00", b"k"):
                for key_to in (None, b"", b"\x00\x00", b"k\x00\x00", b"k\xff"):
                    scan = store.fetch_range(key_from, key_to, lo, hi, reverse=reverse)
                    found = [((w.key, w.start, w.end), kind.read(value)) for w, value in scan]
                    assert found == model.range(key_from, key_to, lo, hi, reverse=reverse), (
                        f"fetch_range({key_from!r}, {key_to!r}, {lo}, {hi}) is exact"
                    )
        assert len(list(store.all(reverse=reverse))) == len(list(store.fetch_all(reverse=reverse)))
    if not model.duplicates:
        for start in (*STARTS, 4):
            values = [kind.read(store.fetch_one(key, start)) for key in KEYS]
            assert values == [model.fetch_one(key, start) for key in KEYS], "fetch_one"
