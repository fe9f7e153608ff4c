"""Tests that namespaces are created, listed and dropped, and exist after a reopen."""

from __future__ import annotations

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import StoreClosedError, UnsupportedError
from kstore_core.testing.engine_suite.base import EnginePart, put, read, refuses

NAMES = ["offsets", "keyValueWithTimestampAndHeaders", "a name with spaces", "ünïcödé", "x" * 60]


class NamespacePromises(EnginePart):
    """Tests of ``namespace``, ``namespaces`` and ``drop_namespace``."""

    def test_a_new_database_has_the_default_namespace(self) -> None:
        database = self.open()
        assert list(database.namespaces()) == ["default"], 'a new database has "default"'
        assert read(database) == [], "the default namespace of a new database is empty"

    def test_namespaces_are_made_when_asked_for(self) -> None:
        database = self.open()
        for name in NAMES:
            assert database.namespace(name).name == name, "a namespace has the name asked for"
            put(database, {b"k": name.encode()}, name)
        assert sorted(database.namespaces()) == sorted(["default", *NAMES]), (
            "namespaces lists what exists, each name once"
        )
        database = self.reopen(database)
        assert sorted(database.namespaces()) == sorted(["default", *NAMES]), (
            "namespaces are there again after a reopen"
        )
        for name in NAMES:
            assert read(database.namespace(name)) == [(b"k", name.encode())], (
                "namespaces have their rows after a reopen"
            )

    def test_an_empty_namespace_is_remembered(self) -> None:
        database = self.open()
        database.namespace("empty")
        assert sorted(self.reopen(database).namespaces()) == ["default", "empty"], (
            "namespace() makes the namespace, also without rows"
        )

    def test_a_dropped_namespace_is_gone_with_its_rows(self) -> None:
        database = self.open()
        put(database, {b"k": b"v"})
        for name in ("kept", "gone"):
            put(database, {b"k": name.encode()}, name)
        database.drop_namespace("gone")
        assert sorted(database.namespaces()) == ["default", "kept"], (
            "a dropped namespace is not listed"
        )
        with pytest.raises(KeyError):
            database.write({"gone": Rows([b"k"], [b"v"])})
        with pytest.raises(KeyError):
            database.drop_namespace("gone")
        database = self.reopen(database)
        assert sorted(database.namespaces()) == ["default", "kept"], (
            "a dropped namespace is not listed after a reopen"
        )
        assert read(database.namespace("gone")) == [], (
            "a dropped namespace is empty when it is made again"
        )
        assert read(database.namespace("kept")) == [(b"k", b"kept")], (
            "a drop leaves the rows of other namespaces"
        )
        assert read(database) == [(b"k", b"v")], "a drop leaves the rows of other namespaces"

    def test_a_namespace_dropped_and_made_again_is_new(self) -> None:
        database = self.open()
        for number in range(3):
            put(database, {b"%d" % number: b"v"}, "again")
            assert read(database.namespace("again")) == [(b"%d" % number, b"v")], (
                "a namespace that was dropped and made again has the new rows only"
            )
            database.drop_namespace("again")

    def test_a_handle_of_a_dropped_namespace_finds_nothing(self) -> None:
        database = self.open()
        put(database, {b"k": b"v"}, "gone")
        handle = database.namespace("gone")
        database.drop_namespace("gone")
        for use in (
            lambda: handle.get(b"k"),
            lambda: handle.get_many([b"k"])[0],
            lambda: read(handle) or None,
            lambda: handle.first(),
        ):
            try:
                found = use()
            except StoreClosedError:
                continue
            assert found is None, (
                "a handle of a dropped namespace finds nothing or raises StoreClosedError"
            )

    def test_the_default_namespace_cannot_be_dropped(self) -> None:
        database = self.filled({b"k": b"v"})
        refuses(
            UnsupportedError,
            lambda: database.drop_namespace("default"),
            'drop_namespace("default")',
            "default",
        )
        with pytest.raises(KeyError):
            database.drop_namespace("nowhere")
        assert read(database) == [(b"k", b"v")], "a refused drop drops nothing"

    def test_a_read_only_database_makes_no_namespace(self) -> None:
        self.filled({b"k": b"v"}).close()
        database = self.open(read_only=True)
        with pytest.raises(KeyError):
            database.namespace("nowhere")
        assert list(database.namespaces()) == ["default"], "a read-only database makes no namespace"
