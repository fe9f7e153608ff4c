"""Tests of bulk loads into empty and filled namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kstore_core.testing.engine_suite.base import EnginePart, numbered, put, read, within
from kstore_core.testing.explaining import same

Chunks = Iterator[tuple[list[bytes], list[bytes]]]

NOT_ASCENDING: dict[str, list[tuple[list[bytes], list[bytes]]]] = {
    "backwards": [([b"b", b"a"], [b"1", b"2"])],
    "a key twice": [([b"a", b"a"], [b"1", b"2"])],
    "a key twice in two chunks": [([b"a", b"b"], [b"1", b"2"]), ([b"b"], [b"3"])],
    "backwards in two chunks": [([b"b"], [b"1"]), ([b"a"], [b"2"])],
    "backwards over an empty chunk": [([b"b"], [b"1"]), ([], []), ([b"a"], [b"2"])],
    "signed bytes": [([b"\x80", b"\x7f"], [b"1", b"2"])],
    "fewer values": [([b"a", b"b"], [b"1"])],
    "more values": [([b"a"], [b"1", b"2"])],
}
NOT_BYTES: dict[str, Any] = {
    "a key that is str": (["text"], [b"v"]),
    "a key that is None": ([None], [b"v"]),
    "a value that is str": ([b"key"], ["text"]),
    "a value that is None": ([b"key"], [None]),
}


class LoadPromises(EnginePart):
    """Tests of ``load``."""

    @pytest.mark.parametrize("size", [1, 7, 1000, 10**6])
    def test_a_load_is_read_back(self, size: int) -> None:
        database = self.open()
        rows = numbered(300 if size < 10 else 30_000)
        assert database.load("default", chunks(rows, size)) == len(rows), (
            "load returns the number of loaded rows"
        )
        namespace = database.namespace("default")
        same(read(namespace), list(rows.items()), "a scan shows every loaded row")
        same(namespace.get_many(list(rows)), list(rows.values()), "get_many finds every loaded row")
        same(
            read(self.reopen(database)),
            list(rows.items()),
            "every loaded row is there after a reopen",
        )

    def test_existing_rows_are_replaced(self) -> None:
        old = {b"%08d" % number: b"old" for number in range(0, 3000, 2)}
        database = self.filled(old)
        new = numbered(2000, b"new")
        with database.snapshot() as snapshot:
            assert database.load("default", chunks(new, 100)) == 2000
            same(
                read(snapshot),
                within(old, None, None),
                "a snapshot does not see what is loaded later",
            )
        same(
            read(database),
            within(old | new, None, None),
            "a load replaces the rows of the same keys and leaves the others",
        )
        put(database, {b"%08d" % 1: b"newest"})
        assert database.namespace("default").get(b"%08d" % 1) == b"newest", (
            "a row that is written after a load replaces the loaded row"
        )

    def test_a_load_before_all_and_after_all(self) -> None:
        database = self.filled({b"m": b"here"})
        assert database.load("default", [([b"a", b"b"], [b"1", b"2"])]) == 2
        assert database.load("default", [([b"x", b"y"], [b"3", b"4"])]) == 2
        assert [key for key, _ in read(database)] == [
            b"a", b"b", b"m", b"x", b"y"
        ], "the keys of a load may lie before and after the stored ones"  # fmt: skip

    def test_a_load_makes_its_namespace_and_touches_no_other(self) -> None:
        database = self.filled({b"k": b"v"})
        assert database.load("new", chunks(numbered(100), 10)) == 100
        assert "new" in database.namespaces(), "load creates a missing namespace"
        assert len(read(database.namespace("new"))) == 100
        assert read(database) == [(b"k", b"v")], "a load changes no other namespace"

    def test_nothing_to_load(self) -> None:
        database = self.filled({b"k": b"v"})
        assert database.load("default", []) == 0, "a load without chunks loads 0 rows"
        assert database.load("default", [([], []), ([], [])]) == 0, (
            "a load of empty chunks loads 0 rows"
        )
        assert read(database) == [(b"k", b"v")]

    def test_empty_values_are_loaded(self) -> None:
        database = self.open()
        database.load("default", [((b"a", b"b"), (b"", b"2")), ([], []), ([b"c"], [b""])])
        assert read(database) == [(b"a", b""), (b"b", b"2"), (b"c", b"")], (
            "chunks are any sequences; an empty value is a value"
        )

    @pytest.mark.parametrize("bad", NOT_ASCENDING.values(), ids=NOT_ASCENDING)
    def test_keys_that_do_not_ascend_are_refused(self, bad: Any) -> None:
        database = self.filled({b"old": b"row"})
        with pytest.raises(ValueError):  # noqa: PT011 - the message is the engine's
            database.load("default", bad)
        left = dict(read(database))
        assert left.pop(b"old", None) == b"row", "a refused load removes no row"
        assert left.keys() <= {key for keys, _ in bad for key in keys}, (
            "a refused load adds only rows that were given"
        )
        assert database.load("default", [([b"z"], [b"1"])]) == 1, (
            "a load after a refused one succeeds"
        )

    @pytest.mark.parametrize("bad", NOT_BYTES.values(), ids=NOT_BYTES)
    def test_only_bytes_are_loaded(self, bad: Any) -> None:
        database = self.open()
        with pytest.raises(TypeError):
            database.load("default", [([b"a"], [b"1"]), bad])
        assert dict(read(database)).keys() <= {b"a"}, "what is not bytes is not loaded"

    def test_an_error_of_the_caller_comes_through(self) -> None:
        database = self.filled({b"old": b"row"})

        def broken() -> Chunks:
            yield from chunks(numbered(200), 50)
            raise LookupError("the topic is gone")

        with pytest.raises(LookupError, match="the topic is gone"):
            database.load("default", broken())
        assert database.namespace("default").get(b"old") == b"row", "a failed load removes no row"
        put(database, {b"z": b"after"})
        assert database.namespace("default").get(b"z") == b"after", (
            "a write after a failed load succeeds"
        )


def chunks(rows: dict[bytes, bytes], size: int) -> Chunks:
    """Return ``rows`` in chunks of ``size``."""
    keys = list(rows)
    for start in range(0, len(keys), size):
        part = keys[start : start + size]
        yield part, [rows[key] for key in part]
