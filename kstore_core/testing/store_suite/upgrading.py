"""Tests that open a store of each older format in each newer format."""

from __future__ import annotations

import pytest

from kstore_core.errors import FormatDowngradeError
from kstore_core.testing.kinds import EDGES, Edge, Record
from kstore_core.testing.store_suite.any_kind import delete, get, get_many, items, put, spec
from kstore_core.testing.store_suite.base import PARTITION, StorePart, records
from kstore_core.testing.suite import refuses

Contents = dict[bytes, Record]

EACH_EDGE = pytest.mark.parametrize("edge", EDGES, ids=str)
EACH_WAY = pytest.mark.parametrize("moving", [True, False], ids=["moving", "still"])


class UpgradePromises(StorePart):
    """Tests that rows of an older format are read in a newer format, and move when written."""

    def older(self, edge: Edge, count: int = 60) -> Contents:
        """Create and close a store of the older kind. Return the contents of the store."""
        contents = records(edge.older, count)
        with self.state() as state:
            store = state.open(spec(edge.older))
            for key, record in contents.items():
                put(edge.older, store, key, record)
            state.commit({PARTITION: 7})
        return contents

    @EACH_WAY
    @EACH_EDGE
    def test_older_rows_are_read_as_newer_ones(self, edge: Edge, moving: bool) -> None:
        contents = self.older(edge)
        state = self.state(migrate_on_read=moving)
        store = state.open(spec(edge.newer))
        assert store.offsets() == {PARTITION: 7}, "an upgrade leaves the offsets unchanged"
        for life in ("first", "again", "reopened"):
            assert items(edge.newer, store) == list(contents.items()), "a scan reads both formats"
            assert items(edge.newer, store, reverse=True) == list(contents.items())[::-1]
            keys = [*list(contents)[::7], b"no"]
            found = get_many(edge.newer, store, keys)
            assert found == [contents.get(key) for key in keys], "get_many reads both formats"
            found = [get(edge.newer, store, key) for key in keys]
            assert found == [contents.get(key) for key in keys], "get reads both formats"
            state.commit()
            if life == "again":
                state = self.reopen(state, migrate_on_read=moving)
                store = state.open(spec(edge.newer))

    @EACH_WAY
    @EACH_EDGE
    def test_a_store_in_the_middle_of_its_upgrade(self, edge: Edge, moving: bool) -> None:
        contents = self.older(edge)
        state = self.state(migrate_on_read=moving)
        store = state.open(spec(edge.newer))
        keys = list(contents)
        for number, key in enumerate(keys[::4]):
            contents[key] = edge.newer.record(b"new", contents[key].timestamp + 5, [("h", b"1")])
            put(edge.newer, store, key, contents[key])
            if number == 5:
                state.commit()
        for key in keys[1::4]:
            delete(edge.newer, store, key, contents.pop(key).timestamp + 5)
        contents[b"z"] = edge.newer.record(b"z", 1_700_000_000_100)
        put(edge.newer, store, b"z", contents[b"z"])
        for life in ("staged", "committed", "reopened"):
            assert items(edge.newer, store) == sorted(contents.items()), (
                f"{life}: newer rows replace older ones, and deleted rows stay deleted"
            )
            state.commit({PARTITION: 8})
            if life == "committed":
                state = self.reopen(state, migrate_on_read=moving)
                store = state.open(spec(edge.newer))
        assert store.offsets() == {PARTITION: 8}

    @EACH_EDGE
    def test_what_is_not_committed_is_not_upgraded(self, edge: Edge) -> None:
        contents = self.older(edge)
        state = self.state()
        store = state.open(spec(edge.newer))
        for key in contents:
            get(edge.newer, store, key)
            put(edge.newer, store, key, edge.newer.record(b"lost", contents[key].timestamp + 5))
        store = self.reopen(state).open(spec(edge.newer))
        assert items(edge.newer, store) == list(contents.items()), (
            "moved rows are committed or discarded like written rows"
        )

    @EACH_EDGE
    def test_a_reader_upgrades_nothing(self, edge: Edge) -> None:
        contents = self.older(edge)
        with self.state(read_only=True) as state:
            assert items(edge.newer, state.open(spec(edge.newer))) == list(contents.items()), (
                "a read-only store is read as the newer format"
            )
        with self.state() as state:
            assert items(edge.older, state.open(spec(edge.older))) == list(contents.items()), (
                "a read-only open as the newer format writes nothing"
            )

    @EACH_EDGE
    def test_there_is_no_way_back(self, edge: Edge) -> None:
        contents = self.older(edge)
        with self.state() as state:
            store = state.open(spec(edge.newer))
            key = next(iter(contents))
            contents[key] = edge.newer.record(b"new", contents[key].timestamp)
            put(edge.newer, store, key, contents[key])
        with self.state() as state:
            refuses(
                FormatDowngradeError,
                lambda: state.open(spec(edge.older)),
                "opening a newer format as an older one",
                edge.newer.format.name,
                edge.older.format.name,
            )
            assert items(edge.newer, state.open(spec(edge.newer))) == list(contents.items())
