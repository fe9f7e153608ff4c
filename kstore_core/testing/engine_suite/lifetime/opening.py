"""Tests of opening databases, with the locks and the errors of an open."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kstore_core.engine import DURABILITY_LEVELS, Capabilities, Durability, Engine, Rows
from kstore_core.errors import EngineLockedError, SpecError, UnsupportedError
from kstore_core.testing.engine_suite.base import STORE, EnginePart, numbered, put, read, refuses
from kstore_core.testing.explaining import same


class OpenPromises(EnginePart):
    """Tests of the stores, the options, the capabilities and the method ``open`` of an engine."""

    def test_an_engine_has_a_name_and_capabilities(self) -> None:
        kind = type(self.engine)
        assert isinstance(self.engine, Engine), "an engine is a kstore_core.engine.Engine"
        assert type(kind.name) is str, "an engine has a name"
        assert kind.name, "an engine has a name"
        assert isinstance(kind.capabilities, Capabilities), (
            "the capabilities of an engine class are Capabilities"
        )
        assert isinstance(self.able, Capabilities), (
            "the capabilities of an engine object are Capabilities"
        )
        assert set(self.able.durability) <= set(DURABILITY_LEVELS), (
            "durability lists levels of the SPI"
        )
        assert kind.__name__ in repr(self.engine), "repr has the class name"
        longest = self.able.max_key_bytes
        assert longest is None or longest >= 64, "max_key_bytes is None or at least 64"

    def test_unknown_options_are_refused(self) -> None:
        kind = type(self.engine)
        refuses(SpecError, lambda: kind({"no_such_option": 1}), "an unknown option", "no_such")
        assert kind({}).options == kind(None).options == kind().options, "every field has a default"
        assert kind(self.engine.options).options == self.engine.options, (
            "an engine accepts its own options"
        )

    def test_an_engine_is_cheap_until_it_opens(self) -> None:
        for _ in range(100):
            self.new_engine()
        assert not self.root.exists(), "making an engine writes nothing"

    def test_a_persistent_engine_travels(self) -> None:
        if not self.able.persistent:
            return
        twin = pickle.loads(pickle.dumps(self.engine))
        assert type(twin) is type(self.engine), (
            "an engine can be pickled; Spark sends it to workers"
        )
        assert twin.options == self.engine.options, "an unpickled engine has the same options"

    def test_rows_are_there_again_after_a_reopen(self) -> None:
        database = self.open()
        rows = numbered(2000)
        put(database, rows)
        put(database, {b"n": b"1"}, "offsets")
        for number in range(3):
            database = self.reopen(database)
            same(read(database), list(rows.items()), "written rows are there after a reopen")
            assert database.namespace("offsets").get(b"n") == b"1", (
                "written rows are there after a reopen, in every namespace"
            )
            key = b"%08d" % number
            database.write({"default": Rows([key], [None]), "offsets": Rows([b"n"], [b"1"])})
            del rows[key]

    def test_the_last_batch_before_a_close_is_there(self) -> None:
        database = self.open()
        for number in range(20):
            put(database, {b"n": b"%d" % number})
            database = self.reopen(database)
            assert database.namespace("default").get(b"n") == b"%d" % number, (
                "the last batch before a close is there after a reopen"
            )

    @pytest.mark.parametrize("level", DURABILITY_LEVELS)
    def test_every_level_of_durability_is_taken(self, level: Durability) -> None:
        database = self.filled(numbered(100), durability=level)
        database.sync()
        put(database, {b"z": b"after"})
        assert len(read(self.reopen(database))) == 101, (
            f"a clean close loses nothing at durability={level!r}; an engine treats a level that "
            "it does not implement as 'process'"
        )

    def test_stores_are_named_and_not_made(self) -> None:
        assert self.engine.stores(self.root) == [], "stores() of a missing directory is empty"
        assert not self.root.exists(), "stores() makes nothing"
        for name in ("b", "a", "c"):
            self.open(name).close()
        assert self.engine.stores(self.root) == ["a", "b", "c"], "stores() gives sorted names"
        holder = self.open("b")
        assert self.engine.stores(self.root) == ["a", "b", "c"], "stores() locks nothing"
        holder.close()
        if not self.able.persistent:
            return
        before = trace(self.root)
        assert self.new_engine().stores(self.root) == ["a", "b", "c"], (
            "another engine object lists the stores"
        )
        assert self.engine.stores(self.root / "deeper") == [], "stores belong to their root"
        assert trace(self.root) == before, "stores() writes nothing"

    def test_stores_and_roots_are_apart(self) -> None:
        other = self.root.parent / "0_1"
        first, second = self.open("first"), self.open("second")
        third = self.open("first", root=other)
        for number, database in enumerate((first, second, third)):
            put(database, {b"k": b"%d" % number})
        first.write({"default": Rows(deleted_ranges=[(b"", None)])})
        assert read(first) == []
        assert read(second) == [(b"k", b"1")], "stores of one root do not share rows"
        assert read(third) == [(b"k", b"2")], "stores of two roots do not share rows"
        assert len({first.path, second.path, third.path}) == 3, "each database has its own path"
        assert self.engine.stores(other) == ["first"]

    def test_one_writer_at_a_time(self) -> None:
        database = self.filled({b"k": b"v"})
        engines = [self.engine, self.new_engine()] if self.able.persistent else [self.engine]
        for engine in engines:
            for _ in range(2):
                error = refuses(
                    EngineLockedError,
                    lambda engine=engine: engine.open(self.root, STORE),  # type: ignore[misc]
                    "a second open for writing",
                    STORE,
                )
                same = pickle.loads(pickle.dumps(error))
                assert (type(same), str(same)) == (EngineLockedError, str(error)), "errors pickle"
        put(database, {b"l": b"w"})
        assert len(read(database)) == 2, "the first writer can write after a refused open"
        database.close()
        second = self.open()
        database.close()
        refuses(EngineLockedError, lambda: self.engine.open(self.root, STORE), "a third open")
        assert len(read(second)) == 2, (
            "a second close of the first handle does not unlock the second handle"
        )


class ReadOnlyPromises(EnginePart):
    """Tests of ``open(…, read_only=True)``."""

    def test_a_missing_store_is_not_made(self) -> None:
        for _ in range(2):
            refuses(
                FileNotFoundError,
                lambda: self.engine.open(self.root, STORE, read_only=True),
                "a read-only open of a store that is missing",
                STORE,
            )
        assert self.engine.stores(self.root) == [], "a refused read-only open makes no store"
        assert not self.root.exists(), "a refused read-only open makes no directory"
        self.open("another").close()
        before = trace(self.root)
        refuses(
            FileNotFoundError,
            lambda: self.engine.open(self.root, STORE, read_only=True),
            "a read-only open of a store that is missing beside others",
            STORE,
        )
        assert trace(self.root) == before, "a read-only open writes nothing"

    def test_reading_leaves_the_directory_as_it_was(self) -> None:
        rows = numbered(2000)
        database = self.filled(rows)
        put(database, {b"n": b"1"}, "offsets")
        database.close()
        before = trace(self.root)
        reader = self.open(read_only=True)
        same(read(reader), list(rows.items()), "a read-only database reads all rows")
        assert reader.namespace("offsets").get(b"n") == b"1"
        assert sorted(reader.namespaces()) == ["default", "offsets"]
        assert reader.namespace("default").approximate_count() >= 0
        with reader.snapshot() as snapshot:
            assert len(read(snapshot)) == 2000
        reader.sync()
        reader.close()
        assert trace(self.root) == before, "reading changes no file"

    def test_a_reader_at_the_level_changelog_has_nothing_to_sync(self) -> None:
        self.filled({b"k": b"v"}).close()
        with closing(self.open(read_only=True, durability="changelog")) as reader:
            reader.sync()
            assert read(reader) == [(b"k", b"v")]

    def test_writes_are_refused(self) -> None:
        self.filled({b"k": b"v"}).close()
        database = self.open()
        put(database, {b"n": b"1"}, "offsets")
        database.close()
        reader = self.open(read_only=True)
        uses: dict[str, Callable[[], object]] = {
            "write": lambda: reader.write({"default": Rows([b"k"], [b"changed"])}),
            "load": lambda: reader.load("default", [([b"k"], [b"changed"])]),
            "drop_namespace": lambda: reader.drop_namespace("offsets"),
        }
        for name, use in uses.items():
            refuses(UnsupportedError, use, f"{name} of a read-only database", STORE)
        assert read(reader) == [(b"k", b"v")], "a read-only database refuses writes"
        assert sorted(reader.namespaces()) == ["default", "offsets"], (
            "a read-only database refuses drops"
        )

    def test_readers_beside_a_writer(self) -> None:
        rows = numbered(2000)
        writer = self.filled(rows)
        writer.sync()
        readers = [self.open(read_only=True) for _ in range(2)]
        for reader in readers:
            same(
                read(reader),
                list(rows.items()),
                "a reader beside a writer sees the rows that were written before its open",
            )
        put(writer, {b"later": b"row"})
        readers[0].close()
        assert len(read(writer)) == 2001, "the writer sees its rows after a reader was closed"
        refuses(
            EngineLockedError,
            lambda: self.engine.open(self.root, STORE),
            "a second writer after a reader was closed",
        )
        put(writer, dict.fromkeys(rows))
        assert len(read(readers[1].namespace("default"))) in (2000, 2001, 1), (
            "a reader sees the rows as of its open or later, and whole batches only"
        )
        assert read(self.open(read_only=True)) == [(b"later", b"row")], (
            "a reader sees every row that was written before its open"
        )


def trace(root: Path) -> dict[str, Any]:
    """Return the size, time and content of every file below ``root``, except for lock files."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")) if root.exists() else []:
        name = str(path.relative_to(root))
        if path.is_dir():
            found[name] = None
        elif "lock" not in path.name.lower():
            stat = path.stat()
            found[name] = stat.st_size, stat.st_mtime_ns, path.read_bytes()
    return found
