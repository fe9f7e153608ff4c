"""Tests of long keys, the empty key, large values, and many rows."""

from __future__ import annotations

import random

from kstore_core.engine import Rows
from kstore_core.errors import KeyTooLongError, KStoreError
from kstore_core.testing.engine_suite.base import EnginePart, numbered, put, read, refuses, within
from kstore_core.testing.explaining import same

LONG = 4096


class LimitPromises(EnginePart):
    """Tests of the limits in ``capabilities``, and of sizes that every engine must store."""

    def test_keys_up_to_the_limit_are_held(self) -> None:
        longest = self.able.max_key_bytes or LONG
        rows = {
            byte * (longest - less): byte for byte in (b"\x00", b"k", b"\xff") for less in (0, 1)
        }
        database = self.filled(rows)
        database.load("loaded", [(sorted(rows), [rows[key] for key in sorted(rows)])])
        database = self.reopen(database)
        for name in ("default", "loaded"):
            namespace = database.namespace(name)
            promise = f"a key of {longest} bytes is stored"
            same(read(namespace), within(rows, None, None), promise)
            assert [namespace.get(key) for key in rows] == list(rows.values()), promise
            same(namespace.get_many(list(rows)), list(rows.values()), promise)

    def test_a_key_beyond_the_limit_is_refused_before_anything_is_written(self) -> None:
        if self.able.max_key_bytes is None:
            return
        long = b"m" * (self.able.max_key_bytes + 1)
        database = self.filled({b"a": b"1"})
        database.namespace("other")
        good = Rows([b"a", b"b"], [b"changed", b"2"], [(b"a", None)])
        for bad in (
            Rows([long], [b"1"]),
            Rows([b"b", long, b"z"], [b"1", b"2", b"3"]),
            Rows([long * 3], [b"1"]),
        ):
            for batch in ({"default": good, "other": bad}, {"other": bad, "default": good}):
                refuses(
                    KeyTooLongError,
                    lambda batch=batch: database.write(batch),  # type: ignore[misc]
                    f"a key of {len(long)} bytes",
                    str(self.able.max_key_bytes),
                )
                assert read(database) == [(b"a", b"1")], (
                    "nothing is written of a batch with a key that is too long"
                )
                assert read(database.namespace("other")) == []
        refuses(
            KeyTooLongError,
            lambda: database.load("other", [([b"a", long], [b"1", b"2"])]),
            f"a load of a key of {len(long)} bytes",
            str(self.able.max_key_bytes),
        )

    def test_a_key_beyond_the_limit_is_found_nowhere(self) -> None:
        long = b"m" * ((self.able.max_key_bytes or LONG) + 1)
        database = self.filled({b"a": b"1", b"m" * 20: b"2", b"z": b"3"})
        namespace = database.namespace("default")
        assert namespace.get(long) is None, "get of a key that cannot be stored gives None"
        assert namespace.get_many([b"a", long, b"z"]) == [b"1", None, b"3"], (
            "get_many gives None for a key that cannot be stored"
        )
        database.write({"default": Rows(deleted_ranges=[(long, b"z" * len(long))])})
        assert read(namespace) == [(b"a", b"1"), (b"m" * 20, b"2")], (
            "the ends of a deleted range may be longer than any key"
        )

    def test_the_empty_key(self) -> None:
        database = self.filled({b"a": b"1"})
        namespace = database.namespace("default")
        assert namespace.get(b"") is None, "get of the empty key gives None if it has no row"
        assert namespace.get_many([b"", b"a"]) == [None, b"1"]
        if not self.able.empty_keys:
            refuses(
                KStoreError,
                lambda: put(database, {b"": b"0", b"b": b"2"}),
                "the empty key without capabilities.empty_keys",
            )
            assert read(namespace) == [(b"a", b"1")], "nothing is written of a refused batch"
            return
        rows = {b"": b"0", b"\x00": b"", b"a": b"1"}
        put(database, rows)
        database.load("loaded", [([b"", b"a"], [b"0", b"1"])])
        database = self.reopen(database)
        namespace = database.namespace("default")
        for reverse in (False, True):
            for lo in (None, b"", b"\x00"):
                for hi in (None, b"", b"\x00", b"b"):
                    promise = f"the empty key is the first: scan({lo!r}, {hi!r}, reverse={reverse})"
                    wanted = within(rows, lo, hi, reverse=reverse)
                    same(read(namespace.scan(lo, hi, reverse=reverse)), wanted, promise)
                    assert namespace.first(lo, hi, reverse=reverse) == (
                        wanted[0] if wanted else None
                    ), promise
        assert namespace.get(b"") == b"0", "the empty key is a key"
        assert namespace.fast_get(b"a") == b"1"
        assert namespace.get_many([b"a", b"", b"no", b""]) == [b"1", b"0", None, b"0"]
        assert read(database.namespace("loaded")) == [(b"", b"0"), (b"a", b"1")], (
            "a load stores the empty key"
        )
        with database.snapshot() as snapshot:
            database.write({"default": Rows([b""], [None])})
            assert snapshot.namespace("default").get(b"") == b"0", (
                "a snapshot has the row of the empty key"
            )
        assert namespace.get(b"") is None, "the empty key can be deleted"
        put(database, {b"": b"again"})
        database.write({"default": Rows(deleted_ranges=[(b"", b"\x00")])})
        assert read(namespace) == [(b"\x00", b""), (b"a", b"1")], (
            "a deleted range contains the empty key"
        )
        database.drop_namespace("loaded")
        assert read(database.namespace("loaded")) == [], (
            "a drop of the namespace drops the empty key"
        )

    def test_large_values(self) -> None:
        generator = random.Random(1)
        rows = {b"%d" % size: generator.randbytes(size) for size in (0, 1, 65_536, 4 << 20)}
        database = self.filled(rows)
        database.load("loaded", [(sorted(rows), [rows[key] for key in sorted(rows)])])
        database = self.reopen(database)
        for name in ("default", "loaded"):
            namespace = database.namespace(name)
            same(read(namespace), within(rows, None, None), "a value of 4 MiB is stored")
            assert all(namespace.get(key) == value for key, value in rows.items()), (
                "get returns large values"
            )
        put(database, {b"%d" % (4 << 20): b"small"})
        assert database.namespace("default").get(b"%d" % (4 << 20)) == b"small"

    def test_many_rows(self) -> None:
        rows = numbered(100_000)
        database = self.open()
        keys = list(rows)
        for start in range(0, len(keys), 10_000):
            put(database, dict.fromkeys(keys[start : start + 10000], b"v"))
        namespace = database.namespace("default")
        for reverse in (False, True):
            same(
                read(namespace.scan(reverse=reverse)),
                within(rows, None, None, reverse=reverse),
                "a scan reads all rows of a large namespace",
            )
        assert namespace.get_many(keys[::97]) == [b"v"] * len(keys[::97])
        database.write({"default": Rows(keys[1::2], [None] * 50_000)})
        assert read(self.reopen(database)) == [(key, b"v") for key in keys[::2]], (
            "after a reopen exactly the deleted rows are missing"
        )
