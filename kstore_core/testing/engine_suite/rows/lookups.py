"""Tests of lookups of one key and of many keys, and of counts."""

from __future__ import annotations

from kstore_core.engine import Rows
from kstore_core.testing.engine_suite.base import EnginePart, numbered, put, read
from kstore_core.testing.explaining import same

ROWS = {b"\x00": b"zero", b"a": b"1", b"a\x00": b"", b"b": b"2", b"\xff\xff": b"last"}


class LookupPromises(EnginePart):
    """Tests of ``get``, ``fast_get``, ``get_many`` and ``approximate_count``."""

    def test_get_gives_the_value_or_none(self) -> None:
        namespace = self.filled(ROWS).namespace("default")
        for key, value in ROWS.items():
            assert namespace.get(key) == value, "get gives the value that was written"
            assert type(namespace.get(key)) is bytes, "get gives bytes"
        for key in (b"A", b"a\x00\x00", b"\xff", b"\xff\xff\xff", b"c"):
            assert namespace.get(key) is None, "get gives None for a key that has no row"

    def test_an_empty_value_is_a_value(self) -> None:
        database = self.filled({b"k": b""})
        namespace = database.namespace("default")
        assert namespace.get(b"k") == b"", "an empty value is not None"
        assert namespace.get_many([b"k"]) == [b""], "an empty value is not None"
        assert read(namespace) == [(b"k", b"")], "a row with an empty value is scanned"
        assert self.reopen(database).namespace("default").get(b"k") == b"", (
            "an empty value is there after a reopen"
        )

    def test_fast_get_is_get(self) -> None:
        database = self.filled(ROWS)
        namespace = database.namespace("default")
        for key in (*ROWS, b"missing"):
            assert namespace.fast_get(key) == namespace.get(key), "fast_get works like get"

    def test_a_lookup_sees_the_last_write(self) -> None:
        database = self.open()
        namespace = database.namespace("default")
        get, fast_get = namespace.get, namespace.fast_get
        for value in (b"1", None, b"2", b"3", None):
            database.write({"default": Rows([b"k"], [value])})
            assert namespace.get(b"k") == value, "get sees what was written just before"
            assert get(b"k") == value, "a get that was bound before the write sees it"
            assert namespace.fast_get(b"k") == value, "fast_get sees what was written"
            assert fast_get(b"k") == value, "a fast_get that was bound before the write sees it"
            assert namespace.get_many([b"k"]) == [value], "get_many sees what was written"

    def test_get_many_keeps_the_order_of_its_keys(self) -> None:
        namespace = self.filled(ROWS).namespace("default")
        keys = [b"b", b"no", b"a", b"a", b"\x00", b"nor this", b"b", b"\xff\xff", b"a\x00"]
        wanted = [ROWS.get(key) for key in keys]
        promise = "get_many gives a value or None for each key, in the order of the keys"
        same(namespace.get_many(keys), wanted, promise)
        assert namespace.get_many(tuple(sorted(keys))) == [ROWS.get(k) for k in sorted(keys)], (
            f"{promise}; the keys may be any sequence, sorted or not"
        )
        assert namespace.get_many([]) == [], "get_many of no keys is empty"
        assert namespace.get_many([b"no", b"no"]) == [None, None], promise

    def test_get_many_of_many(self) -> None:
        rows = numbered(3000)
        namespace = self.filled(rows).namespace("default")
        keys = [b"%08d" % (number * 7919 % 6000) for number in range(6000)]
        same(
            namespace.get_many(keys),
            [rows.get(key) for key in keys],
            "get_many keeps the order of many keys",
        )

    def test_namespaces_are_apart(self) -> None:
        database = self.open()
        names = ["default", "offsets", "other"]
        for name in [*names, "empty"]:
            database.namespace(name)
        for name in names:
            put(database, {b"k": name.encode(), name.encode(): b"own"}, name)
        for name in names:
            namespace = database.namespace(name)
            assert namespace.name == name, "a namespace has its name"
            assert namespace.get(b"k") == name.encode(), "a row belongs to one namespace"
            assert dict(read(namespace)) == {b"k": name.encode(), name.encode(): b"own"}, (
                "a row belongs to one namespace"
            )
        assert read(database.namespace("empty")) == [], "a new namespace is empty"

    def test_a_count_is_about_right(self) -> None:
        database = self.open()
        namespace = database.namespace("default")
        assert namespace.approximate_count() == 0, "an empty namespace counts 0"
        put(database, numbered(1000))
        count = namespace.approximate_count()
        assert type(count) is int, "a count is an int"
        assert 500 <= count <= 2000, f"1000 rows are about 1000, not {count}"
        database.write({"default": Rows(deleted_ranges=[(b"", None)])})
        assert namespace.approximate_count() >= 0, "a count is never negative"
