"""Flush listeners: every change that leaves a cache is told once, under its own record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis.stateful import invariant, rule

from kstore_core import Headers, Windowed, serdes, stores
from kstore_core.discovery.registry import engine_class
from kstore_core.errors import StateError, UnsupportedError
from kstore_core.testing import (
    KeyValueMachine,
    SessionMachine,
    VersionedMachine,
    WindowMachine,
    run_machine,
)
from kstore_core.testing.kinds import KEY_VALUE, SESSION, VERSIONED, WINDOW
from kstore_core.types import ValueTimestampHeaders, VersionedRecordWithHeaders
from tests.support.engines import ENGINES, Home

HEADERS = Headers([("h", b"1")])


def with_listener(store: Any) -> list[Any]:
    told: list[Any] = []
    store.on_flush(lambda *change: told.append(change))
    return told


def test_a_change_has_its_key_its_new_and_its_old_value(home: Home) -> None:
    with home.open() as state:
        spec = stores.timestamped_key_value_with_headers(
            "s", key=serdes.UTF8, value=serdes.JSON
        ).with_cache()
        store = state.open(spec)
        told = with_listener(store)
        one = ValueTimestampHeaders({"n": 1}, 1, HEADERS)
        two = ValueTimestampHeaders({"n": 2}, 2, HEADERS)
        store.put("k", ValueTimestampHeaders({"n": 0}, 0))
        store.put("k", one)
        store.put("gone", one)
        store.delete("gone")
        assert told == []
        state.commit()
        assert told == [("k", one, None)], "what came and went is not told"
        store.put("k", two)
        state.flush()
        store.delete("k")
        state.commit()
        state.commit()
        assert told[1:] == [("k", two, one), ("k", None, two)]
        store.on_flush(None)
        store.put("k", two)
        state.commit()
        assert len(told) == 3


def test_window_and_session_changes_have_windowed_keys(home: Home) -> None:
    with home.open() as state:
        windows = state.open(stores.window("w", 1000, 10).with_cache())
        sessions = state.open(stores.session("x", 1000).with_cache())
        told, sessions_told = with_listener(windows), with_listener(sessions)
        windows.put(b"k", b"1", window_start=100)
        sessions.put(Windowed(b"k", 3, 7), b"1")
        state.commit()
        windows.put(b"k", None, window_start=100)
        sessions.remove(Windowed(b"k", 3, 7))
        state.commit()
        window = Windowed(b"k", 100, 110)
        assert told == [(window, b"1", None), (window, None, b"1")]
        assert sessions_told == [
            (Windowed(b"k", 3, 7), b"1", None),
            (Windowed(b"k", 3, 7), None, b"1"),
        ]


def test_of_a_versioned_store_the_latest_versions_are_told(home: Home) -> None:
    with home.open() as state:
        store = state.open(stores.versioned_key_value_with_headers("v", 1000, 10).with_cache())
        told = with_listener(store)
        store.put(b"k", b"1", timestamp=100, headers=[("h", b"1")])
        state.commit()
        store.put(b"k", b"0", timestamp=50)
        state.commit()
        store.put(b"k", b"2", timestamp=200)
        store.put(b"k", b"3", timestamp=300)
        state.commit()
        store.delete(b"k", timestamp=400)
        state.commit()
        one = VersionedRecordWithHeaders(b"1", 100, None, HEADERS)
        three = VersionedRecordWithHeaders(b"3", 300, None, Headers())
        assert told == [(b"k", one, None), (b"k", three, one), (b"k", None, three)]


def test_it_is_told_under_the_record_of_the_last_write(home: Home) -> None:
    with home.open() as state:
        store = state.open(stores.key_value("s").with_cache())
        other = state.open(stores.timestamped_key_value_with_headers("o"))
        seen: list[Any] = []

        def listener(key: bytes, new: Any, old: Any) -> None:
            current = state._current_record.current
            seen.append(None if current is None else (current.offset, list(current.headers)))
            if current is not None:
                other.put(key, new)  # takes the record's time and headers

        store.on_flush(listener)
        for offset, key in enumerate([b"a", b"b", b"a"]):
            with state.record(
                topic="t", partition=1, offset=offset, timestamp=offset + 5, headers=HEADERS
            ):
                store.put(key, b"%d" % offset)
        store.put(b"c", b"without")
        with state.record(topic="t", partition=1, offset=9, timestamp=1):
            state.commit()
        assert seen == [(1, [("h", b"1")]), (2, [("h", b"1")]), None]
        assert other.get(b"a") == ValueTimestampHeaders(b"2", 7, HEADERS)
        assert other.position == {"t": {1: 2}}
        assert store.position == {"t": {1: 2}}


def test_what_a_listener_writes_is_part_of_the_commit(home: Home) -> None:
    with home.open() as state:
        last = state.open(stores.key_value("a").with_cache())
        middle = state.open(stores.key_value("b").with_cache())
        first = state.open(stores.key_value("c").with_cache())
        first.on_flush(lambda key, new, old: middle.put(key, new + b"1"))
        middle.on_flush(lambda key, new, old: last.put(key, new + b"2"))
        first.put(b"k", b"0")
        state.commit()
    with home.open(read_only=True) as state:
        assert state.open(stores.key_value("a")).get(b"k") == b"012"


@pytest.mark.parametrize(("cache", "limit"), [(1 << 20, -1), (1 << 20, 10), (0, -1)])
def test_listeners_that_never_rest_are_refused(home: Home, cache: int, limit: int) -> None:
    with home.open(uncommitted_max_bytes=limit) as state:
        one = state.open(stores.key_value("one").with_cache(cache))
        one.on_flush(lambda key, new, old: one.put(key, new[::-1]))
        one.put(b"k", b"0123456789")
        with pytest.raises(StateError, match="1000 flushes"):
            state.commit()
        one.on_flush(None)
        state.commit()


def test_a_change_whose_listener_raised_is_told_again(home: Home) -> None:
    with home.open() as state:
        store = state.open(stores.key_value("s").with_cache())
        told: list[bytes] = []
        failing = [True]

        def listener(key: bytes, new: Any, old: Any) -> None:
            if key == b"b" and failing:
                failing.pop()
                raise LookupError("the listener failed")
            told.append(key)

        store.on_flush(listener)
        for key in (b"a", b"b", b"c"):
            store.put(key, b"1")
        with pytest.raises(LookupError, match="the listener failed"):
            state.commit()
        assert told == [b"a"]
        assert store.offsets() == {}
        state.commit({("t", 0): 1})
        assert told == [b"a", b"b", b"c"]
        assert [key for key, _ in store.all()] == told


def test_a_store_without_a_cache_has_no_flushes(home: Home) -> None:
    with home.open() as state:
        store = state.open(stores.key_value("s"))
        with pytest.raises(UnsupportedError, match="with_cache"):
            store.on_flush(print)
        with pytest.raises(UnsupportedError, match="with_cache"):
            store.on_flush(None)


class ReplicaMachine(KeyValueMachine):
    """A life whose changes make up the store again."""

    def open(self, **arguments: Any) -> None:
        super().open(**arguments)
        self.replica = {key: self.read(value) for key, value in self.store.all()}
        self.store.on_flush(self.told)

    def told(self, key: bytes, new: Any, old: Any) -> None:
        assert self.read(old) == self.replica.get(key), "the old value is what was told last"
        assert new is not None or old is not None, "a change changes something"
        if new is None:
            del self.replica[key]
        else:
            self.replica[key] = self.read(new)

    @rule()
    def compare(self) -> None:
        self.state.flush()
        assert self.replica == self.model.rows, "the changes make up the store"

    @invariant()
    def the_cache_keeps_to_its_budget(self) -> None:
        budget = self.store.table.budget
        assert budget.used_bytes <= max(budget.max_bytes, 0)


def run_on(engine_name: str, examples: int, machine: Any, **options: Any) -> None:
    """Run a machine of 40 steps on an engine."""
    make_engine = engine_class(engine_name)
    run_machine(machine, examples=examples, steps=40, make_engine=make_engine, **options)


@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.parametrize("max_bytes", [0, 150, 600, 1 << 20])
def test_changes_make_up_the_store(engine_name: str, max_bytes: int) -> None:
    examples = 25 if engine_name == "memory" else 5
    run_on(engine_name, examples, ReplicaMachine, kind=KEY_VALUE[-1].layered(max_bytes))


@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.parametrize("max_bytes", [0, 250, None])
@pytest.mark.parametrize(
    ("machine", "kind"),
    [
        (VersionedMachine, VERSIONED[1]),
        (WindowMachine, WINDOW[2]),
        (WindowMachine, WINDOW[4]),
        (WindowMachine, WINDOW[5]),
        (SessionMachine, SESSION[1]),
        (SessionMachine, SESSION[3]),
    ],
    ids=lambda part: str(part) if not isinstance(part, type) else "",
)
def test_random_lives_of_cached_stores(
    engine_name: str, machine: Any, kind: Any, max_bytes: int | None
) -> None:
    examples = {"memory": 20, "lmdb": 4, "rocksdb": 3}[engine_name]
    run_on(engine_name, examples, machine, kind=kind.layered(max_bytes))


@pytest.mark.parametrize("older", KEY_VALUE[:2], ids=str)
@pytest.mark.parametrize("engine_name", ENGINES)
def test_random_lives_of_cached_stores_with_an_upgrade(engine_name: str, older: Any) -> None:
    examples = 20 if engine_name == "memory" else 6
    run_on(engine_name, examples, KeyValueMachine, kind=older.layered(300), upgrading=True)
