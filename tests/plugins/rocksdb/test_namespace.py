"""Lookups, scans and counts of one namespace."""

from __future__ import annotations

import pytest

from kstore_rocksdb.database import RocksDBDatabase
from tests.plugins.rocksdb.support import flat, numbered, put, scanned

ROWS = {b"": b"empty key", b"a": b"1", b"b": b"", b"b\x00": b"3", b"c": b"4", b"\xff\xff": b"5"}
BOUNDS = [None, b"", b"a", b"b", b"b\x00", b"bb", b"c", b"\xff", b"\xff\xff", b"\xff\xff\xff"]


def test_get_gives_the_value_or_none(database: RocksDBDatabase) -> None:
    put(database, ROWS)
    namespace = database.namespace("default")
    assert [namespace.get(key) for key in ROWS] == list(ROWS.values())
    assert namespace.get(b"no") is None


def test_get_many_keeps_the_order_of_the_keys(database: RocksDBDatabase) -> None:
    put(database, ROWS)
    namespace = database.namespace("default")
    assert namespace.get_many([b"c", b"no", b"", b"c"]) == [b"4", None, b"empty key", b"4"]
    assert namespace.get_many((b"a", b"zz")) == [b"1", None]
    assert namespace.get_many([]) == []


@pytest.mark.parametrize("reverse", [False, True])
def test_every_pair_of_bounds_is_half_open(database: RocksDBDatabase, reverse: bool) -> None:
    put(database, ROWS)
    namespace = database.namespace("default")
    for lo in BOUNDS:
        for hi in BOUNDS:
            expected = [
                (key, value)
                for key, value in sorted(ROWS.items(), reverse=reverse)
                if (lo is None or lo <= key) and (hi is None or key < hi)
            ]
            assert scanned(namespace, lo, hi, reverse=reverse) == expected, (lo, hi)
            assert namespace.first(lo, hi, reverse=reverse) == next(iter(expected), None)


def test_chunks_start_small_and_grow(database: RocksDBDatabase) -> None:
    rows = numbered(3000)
    put(database, rows)
    for reverse in (False, True):
        chunks = list(database.namespace("default").scan(reverse=reverse))
        assert [len(keys) for keys, _ in chunks] == [32, 128, 512, 1024, 1024, 280]
        assert flat(chunks) == sorted(rows.items(), reverse=reverse)


def test_a_scan_ends_at_the_edge_of_a_chunk(database: RocksDBDatabase) -> None:
    put(database, numbered(32))
    for reverse in (False, True):
        scan = database.namespace("default").scan(reverse=reverse)
        assert len(next(scan)[0]) == 32
        for _ in range(3):
            with pytest.raises(StopIteration):
                next(scan)


def test_an_iterator_is_not_moved_before_it_has_a_place(database: RocksDBDatabase) -> None:
    """The binding's ``next`` would kill the process."""
    namespace = database.namespace("default")
    for reverse in (False, True):
        assert scanned(namespace, reverse=reverse) == []
        assert scanned(namespace, b"a", b"b", reverse=reverse) == []


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_is_as_of_its_call(database: RocksDBDatabase, reverse: bool) -> None:
    rows = numbered(3000)
    put(database, rows)
    namespace = database.namespace("default")
    scan = namespace.scan(reverse=reverse)
    seen = flat([next(scan)])
    put(database, dict.fromkeys(rows))
    put(database, {b"%08d" % i: b"later" for i in range(5000)})
    database.sync()
    namespace.native.flush()
    namespace.native.compact_range(None, None)
    assert seen + flat(scan) == sorted(rows.items(), reverse=reverse)


def test_bounds_stay_alive_as_long_as_the_scan(database: RocksDBDatabase) -> None:
    """The binding keeps a bare pointer to the upper bound."""
    put(database, {b"%04d" % i: b"x" for i in range(1000)})
    namespace = database.namespace("default")
    for end in range(100, 300):
        scan = namespace.scan(b"0000", bytes(bytearray(b"%04d" % end)))
        rubbish = [bytes(bytearray(b"%04d" % i)) for i in range(50)]
        assert len(flat(scan)) == end
        del rubbish


def test_a_closed_scan_is_at_its_end(database: RocksDBDatabase) -> None:
    put(database, numbered(100))
    scan = database.namespace("default").scan()
    next(scan)
    scan.close()
    scan.close()
    assert list(scan) == []


def test_scans_are_forgotten_when_they_end(database: RocksDBDatabase) -> None:
    put(database, numbered(100))
    namespace = database.namespace("default")
    kept = namespace.scan()
    list(namespace.scan())
    namespace.first()
    next(namespace.scan())
    assert list(namespace.scans) == [id(kept)]


def test_an_interrupted_scan_does_not_go_on(database: RocksDBDatabase) -> None:
    put(database, numbered(100))
    scan = database.namespace("default").scan()

    class Interrupted:
        def key(self) -> bytes:
            raise KeyboardInterrupt

    scan._native = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        next(scan)
    assert list(scan) == []


def test_count_is_about_right(database: RocksDBDatabase) -> None:
    namespace = database.namespace("default")
    assert namespace.approximate_count() == 0
    put(database, numbered(500))
    assert namespace.approximate_count() == 500


def test_a_count_that_overflows_is_the_largest(
    database: RocksDBDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = database.namespace("default")

    class Overflowing:
        def property_int_value(self, _: str) -> int:
            return 2**64 - 5

    monkeypatch.setattr(namespace, "_native", Overflowing())
    assert namespace.approximate_count() == 2**63 - 1
    monkeypatch.undo()


@pytest.mark.parametrize("key", ["text", 1, None, bytearray(b"a"), memoryview(b"a")])
def test_only_bytes_are_keys(database: RocksDBDatabase, key: object) -> None:
    namespace = database.namespace("default")
    with pytest.raises(TypeError, match="bytes"):
        namespace.get(key)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bytes"):
        namespace.get_many([key])  # type: ignore[list-item]
    if key is not None:
        with pytest.raises(TypeError):
            namespace.scan(key)  # type: ignore[arg-type]


def test_namespaces_are_apart(database: RocksDBDatabase) -> None:
    database.namespace("offsets")
    database.namespace("keyValueWithTimestamp")
    put(database, {b"k": b"default"})
    put(database, {b"k": b"offsets"}, "offsets")
    assert database.namespace("default").get(b"k") == b"default"
    assert database.namespace("offsets").get(b"k") == b"offsets"
    assert database.namespace("keyValueWithTimestamp").get(b"k") is None
    assert sorted(database.namespaces()) == ["default", "keyValueWithTimestamp", "offsets"]
    assert database.namespace("offsets") is database.namespace("offsets")
