"""Snapshots: one moment of all namespaces, for lookups and for scans alike."""

from __future__ import annotations

import threading

import pytest

from kstore_core.engine import Rows
from kstore_rocksdb import loading
from kstore_rocksdb.database import RocksDBDatabase
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import flat, numbered, put, scanned

NAMES = ["default", "offsets", "other"]


def test_a_snapshot_does_not_move(database: RocksDBDatabase) -> None:
    """The binding's own snapshots do, as soon as they are iterated."""
    rows = numbered(3000)
    for name in NAMES:
        database.namespace(name)
        put(database, rows, name)
    snapshot = database.snapshot()
    for name in NAMES:
        changed = dict.fromkeys(list(rows)[::3], b"changed")
        put(database, {**changed, **numbered(100, start=5000)}, name)
        database.write({name: Rows(deleted_ranges=[(b"%08d" % 1000, None)])})
        database.namespace(name).native.flush()
        database.namespace(name).native.compact_range(None, None)
    for name in NAMES:
        namespace = snapshot.namespace(name)
        keys = list(rows)
        assert scanned(namespace) == list(rows.items())
        assert scanned(namespace, reverse=True) == list(rows.items())[::-1]
        assert scanned(namespace, keys[10], keys[2000]) == list(rows.items())[10:2000]
        assert scanned(namespace, keys[5], keys[99], reverse=True) == list(rows.items())[98:4:-1]
        assert namespace.get_many([*keys, b"no"]) == [*rows.values(), None]
        assert namespace.get(b"%08d" % 5000) is None
        assert namespace.get(keys[-1]) == rows[keys[-1]]
        assert namespace.first() == (keys[0], rows[keys[0]])
        assert namespace.first(keys[7], reverse=True) == (keys[-1], rows[keys[-1]])
        assert namespace.approximate_count() >= 0
    assert scanned(database.namespace("default"))[0] == (b"%08d" % 0, b"changed")


def test_an_unknown_namespace(database: RocksDBDatabase) -> None:
    snapshot = database.snapshot()
    database.namespace("later")
    with pytest.raises(KeyError):
        snapshot.namespace("later")


def test_scans_of_one_snapshot_do_not_disturb_each_other(database: RocksDBDatabase) -> None:
    rows = numbered(2000)
    put(database, rows)
    namespace = database.snapshot().namespace("default")
    forward, backward = namespace.scan(), namespace.scan(reverse=True)
    inner = namespace.scan(b"%08d" % 100, b"%08d" % 1900)
    put(database, dict.fromkeys(rows))
    seen: dict[int, list[tuple[bytes, bytes]]] = {0: [], 1: [], 2: []}
    running = {0: forward, 1: backward, 2: inner}
    while running:
        for number, scan in list(running.items()):
            chunk = next(scan, None)
            if chunk is None:
                del running[number]
            else:
                seen[number] += flat([chunk])
            namespace.first()
    assert seen[0] == list(rows.items())
    assert seen[1] == list(rows.items())[::-1]
    assert seen[2] == list(rows.items())[100:1900]


def test_empty_and_inverted_bounds(database: RocksDBDatabase) -> None:
    put(database, {b"": b"0", b"a": b"1", b"b": b"2"})
    namespace = database.snapshot().namespace("default")
    for reverse in (False, True):
        assert scanned(namespace, b"b", b"a", reverse=reverse) == []
        assert scanned(namespace, b"a", b"a", reverse=reverse) == []
        assert scanned(namespace, None, b"", reverse=reverse) == []
        assert scanned(namespace, b"", b"a", reverse=reverse) == [(b"", b"0")]


def test_all_namespaces_are_of_one_moment_beside_writers(database: RocksDBDatabase) -> None:
    for name in NAMES:
        database.namespace(name)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            row = Rows([b"n"], [b"%d" % number])
            database.write(dict.fromkeys(NAMES, row))

    put_first = Rows([b"n"], [b"0"])
    database.write(dict.fromkeys(NAMES, put_first))
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            with database.snapshot() as snapshot:
                seen = set()
                for name in NAMES:
                    seen.add(snapshot.namespace(name).get(b"n"))
                    seen.add(scanned(snapshot.namespace(name))[0][1])
                assert len(seen) == 1
    finally:
        stop.set()
        writer.join()


def test_a_snapshot_is_freed_with_its_last_namespace(database: RocksDBDatabase) -> None:
    put(database, {b"a": b"1"})
    root = database._root
    namespace = database.snapshot().namespace("default")
    assert root.property_int_value("rocksdb.num-snapshots") == 1
    assert namespace.get(b"a") == b"1"
    del namespace
    assert root.property_int_value("rocksdb.num-snapshots") == 0


@pytest.mark.parametrize("reopen", [False, True])
@pytest.mark.parametrize("name", ["default", "other"])
def test_a_compaction_under_a_snapshot_of_loaded_rows_keeps_them(
    open_database: OpenDatabase, monkeypatch: pytest.MonkeyPatch, name: str, reopen: bool
) -> None:
    """RocksDB loses all rows if the snapshot was taken before anything was written, only loaded."""
    monkeypatch.setattr(loading, "FILES_FROM_ROWS", 1)
    database = open_database()
    rows = numbered(1000)
    database.load(name, [(list(rows), list(rows.values()))])
    if reopen:
        database.close()
        database = open_database()
    assert database._root.latest_sequence_number() == 0
    with database.snapshot() as snapshot:
        namespace = database.namespace(name)
        namespace.native.flush()
        namespace.native.compact_range(None, None)
        assert scanned(snapshot.namespace(name)) == list(rows.items())
        assert scanned(namespace) == list(rows.items())
    database.close()
    assert scanned(open_database().namespace(name)) == list(rows.items())


def test_a_snapshot_of_an_empty_database(database: RocksDBDatabase) -> None:
    with database.snapshot() as snapshot:
        put(database, {b"a": b"1"})
        database.namespace("default").native.flush()
        database.namespace("default").native.compact_range(None, None)
        assert scanned(snapshot.namespace("default")) == []
        assert scanned(database.namespace("default")) == [(b"a", b"1")]
