"""Segments that expire: hidden at once, gone after the commit, back where there is none."""

from __future__ import annotations

import logging

import pytest

from kstore_core import open_state
from kstore_core.discovery.registry import engine_class
from kstore_core.errors import EngineError
from kstore_core.testing.faults import Faults, FaultyEngine
from tests.support.fingerprints import fingerprint
from tests.tables.segments.rows import records, row, rows_of, window_spec

pytestmark = pytest.mark.usefixtures("left_sound")

SPEC = window_spec(retention_ms=20)
FOREVER = window_spec()


def times(store):
    return [window.start for window, _ in store.all()]


def fill(home, *starts):
    with home.open() as state:
        store = state.open(SPEC)
        for start in starts:
            store.put(b"k", b"v", window_start=start)
        state.commit({("t", 0): 1})


def segments(home):
    """As they are on disk."""
    with home.open(read_only=True) as state:
        return state.open(FOREVER).table.segments


def test_what_expires_is_hidden_at_once_and_gone_after_the_commit(home):
    with home.open() as state:
        store = state.open(SPEC)
        for start in (0, 10, 20):
            store.put(b"k", b"v", window_start=start)
        state.commit()
        store.put(b"k", b"v", window_start=35)
        assert store.table.segments == (1, 2, 3)
        assert store.table.dropped == 1
        assert segments(home) == (0, 1, 2)
        state.commit()
        assert segments(home) == (1, 2, 3)
        assert store.table.dropped == 1
        store.put(b"k", b"late", window_start=9)
        assert store.late == 1
        assert rows_of(store.table) == [(row(start), b"v") for start in (10, 20, 35)]


def test_without_a_commit_it_is_back(home):
    fill(home, 0, 10, 20)

    def fail():
        with home.open() as state:
            store = state.open(SPEC)
            store.put(b"k", b"v", window_start=1000)
            assert times(store) == [1000]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert segments(home) == (0, 1, 2)
    with home.open() as state:
        store = state.open(SPEC)
        assert (store.stream_time, times(store)) == (20, [10, 20])


def test_everything_may_expire_at_once(home):
    fill(home, 0, 10, 20)
    with home.open() as state:
        store = state.open(SPEC)
        store.put(b"k", b"v", window_start=10**12)
        state.commit({("t", 0): 2})
        assert store.table.dropped == 3
    assert segments(home) == (10**11,)
    with home.open() as state:
        store = state.open(SPEC)
        assert (store.stream_time, store.offsets()) == (10**12, {("t", 0): 2})


def test_staged_rows_of_what_expires_are_let_go_of(home):
    with home.open() as state:
        store = state.open(SPEC)
        store.put(b"k", b"x" * 1000, window_start=0)
        store.put(b"k", b"v", window_start=100)
        assert state.staged_bytes < 100
        assert times(store) == [100]
    assert segments(home) == (10,)


def test_a_shorter_retention_lets_go_at_the_first_commit_and_keeps_the_record(home):
    fill(home, 0, 10, 20)
    with home.open() as state:
        store = state.open(window_spec(retention_ms=5))
        store.clock.advance(90)
        store.table.expire(8)
        assert times(store) == []
        assert segments(home) == (0, 1, 2)
        state.commit()
    with home.open() as state:
        store = state.open(SPEC)
        assert (store.offsets(), store.stream_time) == ({("t", 0): 1}, 90)
        assert times(store) == []


def test_a_spill_does_not_let_go_of_anything(home):
    fill(home, 0, 10, 20)
    with home.open() as state:
        store = state.open(SPEC)
        store.put(b"k", b"v", window_start=45)
        state._staging.spill()
        if state.engine.capabilities.children:
            assert segments(home) == (0, 1, 2, 4)
        state.close()
    with home.open() as state:
        store = state.open(SPEC)
        assert (store.stream_time, store.offsets()) == (45, {("t", 0): 1})
        assert times(store) == [45]
    assert segments(home) == (2, 4)


def test_a_reader_hides_what_has_expired_and_drops_nothing(tmp_path, home):
    fill(home, 0, 10, 20, 30, 40)
    with home.open() as state:
        state.open(window_spec(retention_ms=15)).put(b"k", b"v", window_start=40)
        state.close()
    before = fingerprint(home.path) if home.path.exists() else None
    with home.open(read_only=True) as state:
        store = state.open(window_spec(retention_ms=15))
        assert store.table.segments == (2, 3, 4)
        assert times(store) == [30, 40]
    assert before == (fingerprint(home.path) if home.path.exists() else None)
    assert segments(home) == (2, 3, 4)


# Where each segment has a database.


def test_a_crash_between_the_commit_and_the_drop_is_cleaned_up(tmp_path):
    class Crashing(FaultyEngine):
        def drop_child(self, *_):
            raise ZeroDivisionError

    engine = engine_class("rocksdb")()

    def crash():
        with open_state(tmp_path, engine=Crashing(engine, Faults())) as state:
            store = state.open(SPEC)
            for start in (0, 10, 20):
                store.put(b"k", b"v", window_start=start)
            state.commit({("t", 0): 1})
            store.put(b"k", b"v", window_start=45)
            state.commit({("t", 0): 2})

    with pytest.raises(ZeroDivisionError):
        crash()
    assert sorted(records(engine, tmp_path)) == [0, 10, 20, 40]
    with open_state(tmp_path, engine=engine, read_only=True) as state:
        assert times(state.open(SPEC)) == [45]
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(SPEC)
        assert (store.offsets(), store.table.segments) == ({("t", 0): 2}, (2, 4))
        assert store.table.dropped == 2
    assert sorted(records(engine, tmp_path)) == [20, 40]


def test_a_drop_that_fails_is_told_and_tried_again(tmp_path, caplog):
    class Stubborn(FaultyEngine):
        def drop_child(self, *_):
            raise EngineError("not now")

    engine = engine_class("rocksdb")()
    with (
        caplog.at_level(logging.WARNING, "kstore_core"),
        open_state(tmp_path, engine=Stubborn(engine, Faults())) as state,
    ):
        store = state.open(SPEC)
        store.put(b"k", b"v", window_start=0)
        state.commit()
        store.put(b"k", b"v", window_start=45)
        state.commit({("t", 0): 1})
        assert "w.0 in" in caplog.text
        assert "not now" in caplog.text
        assert times(store) == [45]
    assert sorted(records(engine, tmp_path)) == [0, 40]
    with open_state(tmp_path, engine=engine) as state:
        state.open(SPEC)
    assert sorted(records(engine, tmp_path)) == [40]
