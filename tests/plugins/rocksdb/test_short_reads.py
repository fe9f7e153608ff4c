"""Short reads by an iterator that an earlier one has left: of the rows as they are now."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstore_core.engine import Rows
from kstore_core.errors import StoreClosedError
from kstore_rocksdb.database import RocksDBDatabase
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import ENDS, KEYS, numbered, put, started
from tests.support.threads import repeating


def test_they_leave_an_iterator_to_each_other(database: RocksDBDatabase) -> None:
    rows = numbered(60)
    put(database, rows)
    namespace = database.namespace("default")
    started(namespace, KEYS[3], KEYS[5])
    (idle,) = namespace._idle
    assert started(namespace, KEYS[7], KEYS[9]) == list(rows.items())[7:9]
    assert namespace._idle == [idle]
    put(database, {b"x": b"y"})
    assert namespace._idle == []


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.tuples(ENDS, ENDS, st.none() | st.binary(max_size=3)), max_size=30))
def test_they_see_every_write(
    database: RocksDBDatabase, steps: list[tuple[bytes, bytes, bytes | None]]
) -> None:
    namespace = database.namespace("default")
    database.write({"default": Rows(deleted_ranges=[(b"", None)])})
    rows: dict[bytes, bytes] = {}
    for lo, hi, value in steps:
        put(database, {lo: value})
        rows.pop(lo, None)
        if value is not None:
            rows[lo] = value
        for first, last in ((lo, hi), (hi, lo), (KEYS[0], hi)):
            wanted = [(key, rows[key]) for key in sorted(rows) if first <= key < last]
            assert started(namespace, first, last) == wanted


def test_they_see_what_was_loaded(database: RocksDBDatabase) -> None:
    namespace = database.namespace("default")
    assert started(namespace, KEYS[0], KEYS[5]) == []
    rows = numbered(50_000)
    database.load("default", [(list(rows), list(rows.values()))])
    assert started(namespace, KEYS[0], KEYS[5]) == list(rows.items())[:5]


def test_many_deleted_rows_hide_nothing(database: RocksDBDatabase) -> None:
    rows = numbered(3000)
    put(database, rows)
    put(database, dict.fromkeys(list(rows)[1:2999]))
    namespace = database.namespace("default")
    for _ in range(40):
        assert started(namespace, b"%08d" % 0, b"%08d" % 9999) == [
            row for row in rows.items() if row[0] in (b"%08d" % 0, b"%08d" % 2999)
        ]
        assert started(namespace, b"%08d" % 1, b"%08d" % 2) == []


def test_a_close_and_a_drop_end_them(open_database: OpenDatabase, tmp_path: Path) -> None:
    database = open_database()
    kept, dropped = database.namespace("default"), database.namespace("dropped")
    for namespace in (kept, dropped):
        started(namespace, KEYS[0], KEYS[5])
    database.drop_namespace("dropped")
    with pytest.raises(StoreClosedError):
        dropped.start(KEYS[0], KEYS[5])
    database.close()
    with pytest.raises(StoreClosedError):
        kept.start(KEYS[0], KEYS[5])
    open_database()  # nothing that is left holds its lock


def test_threads_see_what_was_written_before_they_read(database: RocksDBDatabase) -> None:
    namespace = database.namespace("default")
    put(database, {KEYS[0]: b"0"})
    written, failures = [0], list[str]()

    def read(_: int) -> None:
        least = written[0]
        ((_, value),) = started(namespace, KEYS[0], KEYS[1])
        if int(value) < least:
            failures.append(f"{value!r} was read after {least} was written")

    with repeating(read), repeating(read), repeating(read):
        for number in range(1, 1500):
            put(database, {KEYS[0]: b"%d" % number})
            written[0] = number
    assert failures == []


def test_the_first_chunk_and_the_rest_are_of_the_same_commit(database: RocksDBDatabase) -> None:
    """Each batch writes one value to all rows, so a read must find one value only."""
    namespace = database.namespace("default")
    put(database, dict.fromkeys(KEYS, b"0"))
    done, seen = threading.Event(), list[list[tuple[bytes, bytes]]]()

    def read_on() -> None:
        while not done.is_set():
            seen.append(started(namespace, KEYS[0], b"~"))

    readers = [threading.Thread(target=read_on) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for number in range(1, 1500):
            put(database, dict.fromkeys(KEYS, b"%d" % number))
    finally:
        done.set()
        for reader in readers:
            reader.join(60)
    assert len(seen) > 10
    assert all(len({value for _, value in pairs}) == 1 for pairs in seen)
    assert all([key for key, _ in pairs] == KEYS for pairs in seen)
