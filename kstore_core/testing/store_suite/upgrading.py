"""Upgrades: a store of an older format is opened as a newer one, along every edge that exists."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kstore_core.errors import FormatDowngradeError
from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import EDGES, Edge, Kind, Record
from kstore_core.testing.machines.key_value import KeyValueMachine
from kstore_core.testing.machines.versioned import VersionedMachine
from kstore_core.testing.running import run_machine
from kstore_core.testing.store_suite.base import PARTITION, StorePart, records
from kstore_core.testing.suite import refuses

Contents = dict[bytes, Record]

EACH_EDGE = pytest.mark.parametrize("edge", EDGES, ids=str)
EACH_WAY = pytest.mark.parametrize("moving", [True, False], ids=["moving", "still"])


class UpgradePromises(StorePart):
    """Rows of the older format are read as if they were of the newer, and move when written."""

    upgrading_lives: ClassVar[int] = 8

    def older(self, edge: Edge, count: int = 60) -> Contents:
        """A store of the older kind, closed; what it holds."""
        contents = records(edge.older, count)
        with self.state() as state:
            store = state.open(_spec(edge.older))
            for key, record in contents.items():
                _put(edge.older, store, key, record)
            state.commit({PARTITION: 7})
        return contents

    @EACH_WAY
    @EACH_EDGE
    def test_older_rows_are_read_as_newer_ones(self, edge: Edge, moving: bool) -> None:
        contents = self.older(edge)
        state = self.state(migrate_on_read=moving)
        store = state.open(_spec(edge.newer))
        assert store.offsets() == {PARTITION: 7}, "offsets stay"
        for life in ("first", "again", "reopened"):
            assert _items(edge.newer, store) == list(contents.items()), "a scan reads both formats"
            assert _items(edge.newer, store, reverse=True) == list(contents.items())[::-1]
            keys = [*list(contents)[::7], b"no"]
            found = [edge.newer.read(record) for record in store.get_many(keys)]
            assert found == [contents.get(key) for key in keys], "get_many reads both formats"
            found = [edge.newer.read(store.get(key)) for key in keys]
            assert found == [contents.get(key) for key in keys], "get reads both formats"
            state.commit()
            if life == "again":
                state = self.reopen(state, migrate_on_read=moving)
                store = state.open(_spec(edge.newer))

    @EACH_WAY
    @EACH_EDGE
    def test_a_store_in_the_middle_of_its_upgrade(self, edge: Edge, moving: bool) -> None:
        contents = self.older(edge)
        state = self.state(migrate_on_read=moving)
        store = state.open(_spec(edge.newer))
        keys = list(contents)
        for number, key in enumerate(keys[::4]):
            contents[key] = edge.newer.record(b"new", contents[key].timestamp + 5, [("h", b"1")])
            _put(edge.newer, store, key, contents[key])
            if number == 5:
                state.commit()
        for key in keys[1::4]:
            _delete(edge.newer, store, key, contents.pop(key).timestamp + 5)
        contents[b"z"] = edge.newer.record(b"z", 1_700_000_000_100)
        _put(edge.newer, store, b"z", contents[b"z"])
        for life in ("staged", "committed", "reopened"):
            assert _items(edge.newer, store) == sorted(contents.items()), (
                f"{life}: newer rows win over older ones, and what was deleted stays so"
            )
            state.commit({PARTITION: 8})
            if life == "committed":
                state = self.reopen(state, migrate_on_read=moving)
                store = state.open(_spec(edge.newer))
        assert store.offsets() == {PARTITION: 8}

    @EACH_EDGE
    def test_what_is_not_committed_is_not_upgraded(self, edge: Edge) -> None:
        contents = self.older(edge)
        state = self.state()
        store = state.open(_spec(edge.newer))
        for key in contents:
            edge.newer.read(store.get(key))
            _put(edge.newer, store, key, edge.newer.record(b"lost", contents[key].timestamp + 5))
        store = self.reopen(state).open(_spec(edge.newer))
        assert _items(edge.newer, store) == list(contents.items()), (
            "moves are committed like writes, or discarded like them"
        )

    @EACH_EDGE
    def test_a_reader_upgrades_nothing(self, edge: Edge) -> None:
        contents = self.older(edge)
        with self.state(read_only=True) as state:
            assert _items(edge.newer, state.open(_spec(edge.newer))) == list(contents.items()), (
                "a read-only store is read as the newer format"
            )
        with self.state() as state:
            assert _items(edge.older, state.open(_spec(edge.older))) == list(contents.items()), (
                "and can still be opened as the older, for nothing was written"
            )

    @EACH_EDGE
    def test_there_is_no_way_back(self, edge: Edge) -> None:
        contents = self.older(edge)
        with self.state() as state:
            store = state.open(_spec(edge.newer))
            key = next(iter(contents))
            contents[key] = edge.newer.record(b"new", contents[key].timestamp)
            _put(edge.newer, store, key, contents[key])
        with self.state() as state:
            refuses(
                FormatDowngradeError,
                lambda: state.open(_spec(edge.older)),
                "opening a newer format as an older one",
                edge.newer.format.name,
                edge.older.format.name,
            )
            assert _items(edge.newer, state.open(_spec(edge.newer))) == list(contents.items())

    @EACH_EDGE
    def test_random_lives_with_an_upgrade(self, edge: Edge) -> None:
        versioned = edge.older.format.versioned
        run_machine(
            VersionedMachine if versioned else KeyValueMachine,
            make_engine=self.new_engine,
            kind=edge.older,
            upgrading=True,
            examples=self.upgrading_lives,
        )


def _spec(kind: Kind) -> StoreSpec:
    return kind.spec("s", 86_400_000, 10) if kind.format.versioned else kind.spec("s")


def _put(kind: Kind, store: Any, key: bytes, record: Record) -> None:
    if kind.format.versioned:
        headers = record.headers if kind.format.headers else ()
        store.put(key, record.data, timestamp=record.timestamp, headers=headers)
    else:
        store.put(key, kind.value(record))


def _delete(kind: Kind, store: Any, key: bytes, timestamp: int) -> None:
    if kind.format.versioned:
        store.delete(key, timestamp=timestamp)
    else:
        store.delete(key)


def _items(kind: Kind, store: Any, *, reverse: bool = False) -> list[tuple[bytes, Record | None]]:
    return [(key, kind.read(record)) for key, record in store.all(reverse=reverse)]
