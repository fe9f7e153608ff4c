"""Tests that a batch is atomic over all its namespaces, and first deletes its ranges."""

from __future__ import annotations

from typing import Any

import pytest

from kstore_core.engine import Rows
from kstore_core.testing.engine_suite.base import EnginePart, numbered, put, read
from kstore_core.testing.explaining import same

BEFORE = {b"a": b"1", b"b": b"2", b"c": b"3"}
WRONG: dict[str, Any] = {
    "a key that is str": Rows(["text"], [b"1"]),  # type: ignore[list-item]
    "a key that is None": Rows([None], [b"1"]),  # type: ignore[list-item]
    "a key that is a bytearray": Rows([bytearray(b"k")], [b"1"]),  # type: ignore[list-item]
    "a value that is str": Rows([b"k"], ["text"]),  # type: ignore[list-item]
    "a value that is int": Rows([b"k"], [5]),  # type: ignore[list-item]
    "a wrong row after good ones": Rows([b"k", b"l", b"m"], [b"1", None, 7]),  # type: ignore[list-item]
    "fewer values than keys": Rows([b"k", b"l"], [b"1"]),
    "fewer keys than values": Rows([b"k"], [b"1", b"2"]),
    "a range that begins with str": Rows(deleted_ranges=[("q", None)]),  # type: ignore[list-item]
    "a range that begins with None": Rows(deleted_ranges=[(None, b"z")]),  # type: ignore[list-item]
    "a range that ends with str": Rows(deleted_ranges=[(b"q", "z")]),  # type: ignore[list-item]
}


class BatchPromises(EnginePart):
    """Tests of ``write``."""

    def test_one_batch_reaches_every_namespace(self) -> None:
        database = self.filled(BEFORE)
        for name in ("offsets", "other"):
            put(database, BEFORE, name)
        database.write(
            {
                "default": Rows([b"a", b"d"], [None, b"4"]),
                "other": Rows([b"b"], [b"changed"], [(b"c", None)]),
            }
        )
        database.write({"default": Rows([b"e"], [b"5"])})
        wanted = {
            "default": [(b"b", b"2"), (b"c", b"3"), (b"d", b"4"), (b"e", b"5")],
            "other": [(b"a", b"1"), (b"b", b"changed")],
            "offsets": list(BEFORE.items()),
        }
        for name, rows in wanted.items():
            assert read(database.namespace(name)) == rows, (
                "a batch changes exactly the namespaces that it names"
            )

    def test_a_value_of_none_deletes(self) -> None:
        database = self.filled(BEFORE)
        database.write({"default": Rows([b"b", b"bb"], [None, None])})
        left = {b"a": b"1", b"c": b"3"}
        assert read(database) == list(left.items()), (
            "a value of None deletes its row; a missing row is no error"
        )
        assert read(self.reopen(database)) == list(left.items()), (
            "a deleted row is missing after a reopen"
        )

    def test_ranges_are_deleted_before_rows_are_written(self) -> None:
        database = self.filled(numbered(10, b"old"))
        key = list(numbered(12))
        database.write(
            {
                "default": Rows(
                    [key[3], key[4]], [b"new", None], [(key[2], key[6]), (key[8], key[9])]
                )
            }
        )
        wanted = dict.fromkeys([key[0], key[1], key[6], key[7], key[9]], b"old") | {key[3]: b"new"}
        same(
            read(database),
            sorted(wanted.items()),
            "ranges are half-open, and are deleted before the rows of the batch are written",
        )
        assert database.namespace("default").get(key[3]) == b"new", (
            "get sees the deleted ranges and the rows of a batch"
        )
        assert database.namespace("default").get(key[5]) is None, (
            "get sees the deleted ranges and the rows of a batch"
        )

    def test_a_range_without_an_end_reaches_it(self) -> None:
        rows = numbered(10) | {b"\xff" * 20: b"last"}
        for lo in (b"", *sorted(rows), b"\xff" * 21):
            database = self.open()
            put(database, rows)
            database.write({"default": Rows([b"\xff"], [b"new"], [(lo, None)])})
            wanted = {key: value for key, value in rows.items() if key < lo} | {b"\xff": b"new"}
            same(
                read(database),
                sorted(wanted.items()),
                f"the range ({lo!r}, None) deletes every key from {lo!r} on",
            )
            database.write({"default": Rows(deleted_ranges=[(b"", None)])})
            assert read(database) == [], "the range (b'', None) deletes every key"
            database.close()

    def test_an_empty_or_inverted_range_deletes_nothing(self) -> None:
        database = self.filled(BEFORE)
        batch = Rows([b"d"], [b"4"], [(b"c", b"a"), (b"b", b"b"), (b"x", b"z"), (b"c", b"")])
        database.write({"default": batch})
        database = self.reopen(database)
        assert dict(read(database)) == BEFORE | {b"d": b"4"}, (
            "a range whose hi is not above its lo deletes nothing"
        )

    def test_a_batch_is_not_kept(self) -> None:
        database = self.open()
        rows = Rows([b"k", b"l"], [b"1", b"2"], [(b"x", None)])
        batch = {"default": rows}
        database.write(batch)
        rows.keys[0] = b"changed"
        rows.values.clear()
        rows.deleted_ranges.append((b"", None))
        batch["other"] = rows
        put(database, {b"m": b"3"})
        assert read(database) == [(b"k", b"1"), (b"l", b"2"), (b"m", b"3")], (
            "write copies the lists of a batch; the caller may change them afterwards"
        )

    def test_a_batch_is_not_changed(self) -> None:
        database = self.open()
        rows = Rows([b"k", b"l"], [b"1", None], [(b"x", None)])
        database.write({"default": rows})
        assert rows == Rows([b"k", b"l"], [b"1", None], [(b"x", None)]), (
            "write does not change the lists of the caller"
        )

    @pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
    def test_a_batch_that_is_wrong_anywhere_writes_nothing(self, wrong: Rows) -> None:
        database = self.filled(BEFORE)
        database.namespace("other")
        good = Rows([b"a", b"n"], [b"changed", b"new"], [(b"b", None)])
        for batch in ({"default": good, "other": wrong}, {"other": wrong, "default": good}):
            with pytest.raises((TypeError, ValueError)):
                database.write(batch)
            assert read(database) == list(BEFORE.items()), "a refused batch writes nothing"
            assert read(database.namespace("other")) == [], "a refused batch writes to no namespace"
        put(database, {b"z": b"after"})
        assert len(read(database)) == 4, "a batch after a refused one is written"

    def test_a_batch_for_a_missing_namespace_writes_nothing(self) -> None:
        database = self.filled(BEFORE)
        rows = Rows([b"a", b"x"], [b"changed", b"new"], [(b"b", None)])
        for batch in ({"default": rows, "nowhere": rows}, {"nowhere": rows, "default": rows}):
            with pytest.raises(KeyError):
                database.write(batch)
            assert read(database) == list(BEFORE.items()), (
                "a batch that names a missing namespace writes nothing"
            )
        assert "nowhere" not in database.namespaces(), "a batch makes no namespace"

    def test_empty_batches(self) -> None:
        database = self.filled(BEFORE)
        database.write({})
        database.write({"default": Rows()})
        assert read(database) == list(BEFORE.items()), "an empty batch writes nothing"

    def test_a_large_batch(self) -> None:
        database = self.open()
        rows = numbered(20_000)
        put(database, rows)
        database.write(
            {"default": Rows(list(rows)[::2], [None] * 10_000, [(b"%08d" % 15_000, None)])}
        )
        same(read(database), list(rows.items())[1:15_000:2], "a large batch is written completely")
