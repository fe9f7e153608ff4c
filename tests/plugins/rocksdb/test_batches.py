"""Batches: atomic, over several namespaces, ranges before rows, and never poisonous."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kstore_core.engine import Rows
from kstore_rocksdb.database import RocksDBDatabase
from tests.plugins.rocksdb.support import numbered, put, reopened, scanned


def test_one_batch_reaches_every_namespace(database: RocksDBDatabase) -> None:
    database.namespace("other")
    put(database, {b"a": b"0", b"b": b"0"})
    database.write(
        {
            "default": Rows([b"a", b"b"], [b"1", None]),
            "other": Rows([b"a"], [b"2"]),
        }
    )
    assert scanned(database.namespace("default")) == [(b"a", b"1")]
    assert scanned(database.namespace("other")) == [(b"a", b"2")]


def test_ranges_are_deleted_before_rows_are_written(database: RocksDBDatabase) -> None:
    database.namespace("other")
    put(database, {b"%d" % i: b"old" for i in range(10)})
    put(database, {b"%d" % i: b"old" for i in range(10)}, "other")
    database.write({"default": Rows([b"3", b"4"], [b"new", None], [(b"2", b"6"), (b"8", b"9")])})
    assert b"".join(key for key, _ in scanned(database.namespace("default"))) == b"013679"
    assert database.namespace("default").get(b"3") == b"new"
    assert len(scanned(database.namespace("other"))) == 10


@pytest.mark.parametrize(
    ("lo", "left"), [(b"", b""), (b"5", b"01234"), (b"9", b"012345678"), (b"99", b"0123456789")]
)
def test_a_range_without_an_end_reaches_it(
    database: RocksDBDatabase, lo: bytes, left: bytes
) -> None:
    put(database, {b"%d" % i: b"old" for i in range(10)})
    database.write({"default": Rows([b"~"], [b"new"], [(lo, None)])})
    assert b"".join(key for key, _ in scanned(database.namespace("default"))) == left + b"~"


def test_a_range_without_an_end_in_an_empty_namespace(database: RocksDBDatabase) -> None:
    database.write({"default": Rows(deleted_ranges=[(b"", None)])})
    assert scanned(database.namespace("default")) == []


def test_an_inverted_range_deletes_nothing_and_does_not_poison(
    database: RocksDBDatabase, tmp_path: Path
) -> None:
    """RocksDB would log it and then fail on it, at this and at every later open."""
    put(database, {b"a": b"1", b"m": b"2", b"z": b"3"})
    database.write({"default": Rows([b"b"], [b"4"], [(b"z", b"a"), (b"m", b"m")])})
    put(database, {b"c": b"5"})
    database.close()
    assert [key for key, _ in reopened(tmp_path)] == [b"a", b"b", b"c", b"m", b"z"]


def test_a_batch_is_independent_of_its_lists(database: RocksDBDatabase) -> None:
    keys, values = [b"a", b"b"], [b"1", b"2"]
    database.write({"default": Rows(keys, list(values))})
    keys.clear()
    assert scanned(database.namespace("default")) == [(b"a", b"1"), (b"b", b"2")]


@pytest.mark.parametrize(
    "rows",
    [
        Rows([b"b", "c"], [b"2", b"3"]),  # type: ignore[list-item]
        Rows([b"b", b"c"], [b"2", 3]),  # type: ignore[list-item]
        Rows([b"b", b"c"], [b"2"]),
        Rows([b"b"], [b"2"], [("a", None)]),  # type: ignore[list-item]
    ],
    ids=["key", "value", "lengths", "range"],
)
def test_a_bad_batch_writes_nothing(database: RocksDBDatabase, rows: Any) -> None:
    put(database, {b"a": b"1"})
    with pytest.raises((TypeError, ValueError)):
        database.write({"default": rows})
    put(database, {b"z": b"26"})
    assert scanned(database.namespace("default")) == [(b"a", b"1"), (b"z", b"26")]


def test_an_unknown_namespace_is_refused_before_anything_is_written(
    database: RocksDBDatabase,
) -> None:
    with pytest.raises(KeyError):
        database.write({"default": Rows([b"a"], [b"1"]), "no": Rows([b"a"], [b"1"])})
    assert scanned(database.namespace("default")) == []
    assert database.namespaces() == ["default"]


def test_large_batches_and_unsorted_ones(database: RocksDBDatabase) -> None:
    rows = numbered(20_000)
    put(database, rows)
    backwards = list(reversed(rows))
    database.write({"default": Rows(backwards, [b"new"] * len(backwards))})
    assert scanned(database.namespace("default")) == [(key, b"new") for key in rows]


def test_empty_batches(database: RocksDBDatabase) -> None:
    database.write({})
    database.write({"default": Rows()})
    assert scanned(database.namespace("default")) == []
