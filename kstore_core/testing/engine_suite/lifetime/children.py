"""Tests of child databases, which contain one segment each, for engines that support them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstore_core.engine import DURABILITY_LEVELS, Database, Rows
from kstore_core.errors import EngineLockedError, UnsupportedError
from kstore_core.testing.engine_suite.base import EnginePart, put, read, refuses
from kstore_core.testing.engine_suite.lifetime.opening import trace

STORE = "windows"


class ChildPromises(EnginePart):
    """Tests of the methods for child databases.

    An engine without child databases must refuse the calls.
    """

    def child(self, name: str, rows: dict[bytes, bytes] | None = None, **how: Any) -> Database:
        database = self.engine.open_child(self.root, STORE, name, **how)
        self._opened.callback(database.close)
        if rows is not None:
            put(database, dict(rows))
        return database

    def test_an_engine_without_children_says_so(self) -> None:
        if self.able.children:
            return
        assert self.engine.children(self.root, STORE) == [], (
            "children() is empty without capabilities.children"
        )
        assert self.engine.parents(self.root) == [], (
            "parents() is empty without capabilities.children"
        )
        uses: dict[str, Callable[[], object]] = {
            "open_child": lambda: self.engine.open_child(self.root, STORE, "w.1"),
            "drop_child": lambda: self.engine.drop_child(self.root, STORE, "w.1"),
            "rename_child": lambda: self.engine.rename_child(self.root, STORE, "w.1", "w.2"),
        }
        for name, use in uses.items():
            refuses(UnsupportedError, use, f"{name} without capabilities.children", "children")

    def test_children_are_independent(self) -> None:
        if not self.able.children:
            return
        assert self.engine.children(self.root, STORE) == [], "a missing store has no children"
        assert self.engine.parents(self.root) == [], "parents() of a missing directory is empty"
        assert not self.root.exists(), "children() and parents() make nothing"
        same_name = self.open(STORE)
        put(same_name, {b"k": b"the store of that name"})
        first, second = self.child("w.20", {b"k": b"20"}), self.child("w.10", {b"k": b"10"})
        put(first, {b"n": b"1"}, "offsets")
        assert self.engine.children(self.root, STORE) == ["w.10", "w.20"], (
            "children() returns sorted names"
        )
        assert self.engine.stores(self.root) == [STORE], "stores() does not list children"
        self.open("apart")
        assert self.engine.parents(self.root) == [STORE], "parents() lists the stores with children"
        assert self.engine.children(self.root, "other") == [], (
            "children() lists the children of one store only"
        )
        first.write({"default": Rows(deleted_ranges=[(b"", None)])})
        assert read(second) == [(b"k", b"10")], "children do not share rows"
        assert read(same_name) == [(b"k", b"the store of that name")], (
            "a child of a store and the database of the store do not share rows"
        )
        first.close()
        assert self.child("w.20").namespace("offsets").get(b"n") == b"1", (
            "rows of a child are there after a reopen"
        )

    def test_a_parent_is_known_before_its_first_child(self) -> None:
        if not self.able.children:
            return
        for level in DURABILITY_LEVELS:
            made = self.engine.make_parent(self.root, STORE, durability=level)
            assert made, "make_parent() returns True for a new store"
            assert self.new_engine().parents(self.root) == [STORE], (
                "parents() lists a store without a child"
            )
            assert self.engine.children(self.root, STORE) == [], "make_parent() makes no child"
            assert self.engine.stores(self.root) == []
            assert not self.engine.make_parent(self.root, STORE), (
                "make_parent() returns False for a known store"
            )
            assert self.engine.drop_parent(self.root, STORE), (
                "drop_parent() returns True for a store without children"
            )
            assert self.engine.parents(self.root) == [], "drop_parent() undoes make_parent()"
            assert not self.engine.drop_parent(self.root, STORE), (
                "drop_parent() returns False for a missing store"
            )
        self.engine.make_parent(self.root, STORE)
        self.child("w.10", {b"k": b"v"}).close()
        assert not self.engine.drop_parent(self.root, STORE), (
            "drop_parent() does not drop a store with children"
        )
        assert read(self.child("w.10")) == [(b"k", b"v")]
        assert self.engine.parents(self.root) == [STORE]

    def test_a_child_opens_as_a_store_does(self) -> None:
        if not self.able.children:
            return
        refuses(
            FileNotFoundError,
            lambda: self.child("w.10", read_only=True),
            "a read-only open of a child that is missing",
            "w.10",
        )
        assert self.engine.children(self.root, STORE) == [], (
            "a refused read-only open makes no child"
        )
        writer = self.child("w.10", {b"k": b"v"})
        refuses(EngineLockedError, lambda: self.child("w.10"), "a second writer of a child", "w.10")
        reader = self.child("w.10", read_only=True)
        assert read(reader) == [(b"k", b"v")]
        refuses(
            UnsupportedError,
            lambda: reader.write({"default": Rows([b"k"], [None])}),
            "a write to a read-only child",
        )
        reader.close()
        writer.close()
        before = trace(self.root)
        assert self.engine.children(self.root, STORE) == ["w.10"]
        assert trace(self.root) == before, "children() writes nothing"
        assert self.engine.parents(self.root) == [STORE]
        assert trace(self.root) == before, "parents() writes nothing"

    def test_a_child_is_dropped_when_it_is_closed(self) -> None:
        if not self.able.children:
            return
        database = self.child("w.10", {b"k": b"v"})
        self.child("w.20", {b"k": b"kept"}).close()
        refuses(
            EngineLockedError,
            lambda: self.engine.drop_child(self.root, STORE, "w.10"),
            "drop_child of a child that is open",
            "w.10",
        )
        database.close()
        self.engine.drop_child(self.root, STORE, "w.10")
        assert self.engine.children(self.root, STORE) == ["w.20"], (
            "drop_child() drops one child only"
        )
        refuses(KeyError, lambda: self.engine.drop_child(self.root, STORE, "w.10"), "a second drop")
        assert read(self.child("w.10")) == [], "a dropped child is empty when it is made again"
        assert read(self.child("w.20")) == [(b"k", b"kept")]

    def test_a_child_is_renamed_unless_the_name_is_taken(self) -> None:
        if not self.able.children:
            return
        for name in ("w.10", "w.20"):
            self.child(name, {b"k": name.encode()}).close()
        refuses(
            FileExistsError,
            lambda: self.engine.rename_child(self.root, STORE, "w.10", "w.20"),
            "rename_child to a name that is taken",
            "w.20",
        )
        self.engine.rename_child(self.root, STORE, "w.10", "w.30")
        assert self.engine.children(self.root, STORE) == ["w.20", "w.30"]
        database = self.child("w.30")
        assert read(database) == [(b"k", b"w.10")], "a renamed child has its rows"
        refuses(
            EngineLockedError,
            lambda: self.engine.rename_child(self.root, STORE, "w.30", "w.40"),
            "rename_child of a child that is open",
            "w.30",
        )
        refuses(
            KeyError,
            lambda: self.engine.rename_child(self.root, STORE, "w.10", "w.50"),
            "rename_child of a child that is missing",
        )
