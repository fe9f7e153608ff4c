"""Short reads in table files, with the same rows as RocksDB's iterator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstore_core.engine import Rows
from kstore_core.errors import CorruptionError, StoreClosedError
from kstore_rocksdb.database import RocksDBDatabase
from kstore_rocksdb.files import short_ranges
from kstore_rocksdb.files.runs import is_compacting
from kstore_rocksdb.namespace import FamilyNamespace
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import ENDS, KEYS, Pairs, numbered, put, started
from tests.support.threads import repeating

ROWS = 3000
READS = 256
"""The number of short reads after which the table files are opened."""


def uses_files(namespace: FamilyNamespace) -> bool:
    """Whether the next short read reads the table files itself."""
    ranges = namespace._ranges
    return ranges is not None and ranges.opened is not None


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each short read try to open the table files."""
    monkeypatch.setattr(short_ranges, "_READS_BETWEEN_ATTEMPTS", 1)


@pytest.fixture
def flushed(database: RocksDBDatabase) -> tuple[FamilyNamespace, Pairs]:
    """A namespace whose rows are all in table files, and the rows."""
    rows = numbered(ROWS)
    put(database, rows)
    namespace = database.namespace("default")
    namespace.native.flush()
    return namespace, sorted(rows.items())


def test_the_files_are_opened_after_many_reads(
    database: RocksDBDatabase, flushed: tuple[FamilyNamespace, Pairs]
) -> None:
    namespace, rows = flushed
    for number in range(READS):
        assert not uses_files(namespace)
        lo, hi = rows[number][0], rows[number + 5][0]
        assert started(namespace, lo, hi) == rows[number : number + 5]
    assert uses_files(namespace)
    for lo_at, hi_at in [(0, 0), (0, 1), (7, 20), (5, 133), (5, 134), (9, 1500), (2990, 2999)]:
        expected = rows[lo_at:hi_at]
        assert started(namespace, rows[lo_at][0], rows[hi_at][0]) == expected
    assert started(namespace, rows[5][0], rows[2][0]) == []
    assert started(namespace, b"\xff", b"\xff\xff") == []
    assert uses_files(namespace)


@pytest.mark.parametrize("way", ["put", "range", "load", "large", "sync"])
def test_a_write_closes_the_files(
    database: RocksDBDatabase, flushed: tuple[FamilyNamespace, Pairs], way: str, at_once: None
) -> None:
    namespace, rows = flushed
    keys = [row[0] for row in rows]
    started(namespace, keys[0], keys[1])
    assert uses_files(namespace)
    expected = rows[9:12]
    if way == "put":
        put(database, {keys[10]: None})
        del expected[1]
    elif way == "range":
        database.write({"default": Rows(deleted_ranges=[(keys[10], keys[11])])})
        del expected[1]
    elif way == "load":
        database.load("default", [([keys[10]], [b"new"])])
        expected[1] = keys[10], b"new"
    elif way == "large":
        database.write_large("default", Rows([keys[10], keys[11]], [b"new", None]))
        expected[1:] = [(keys[10], b"new")]
    else:
        database.sync()
    assert uses_files(namespace) == (way == "sync" and database._durability != "changelog")
    for _ in range(3):
        assert started(namespace, keys[9], keys[12]) == expected


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        st.tuples(ENDS, ENDS, st.none() | st.binary(max_size=3), st.booleans()), max_size=30
    )
)
def test_they_see_every_write(
    database: RocksDBDatabase,
    steps: list[tuple[bytes, bytes, bytes | None, bool]],
    at_once: None,
) -> None:
    namespace = database.namespace("default")
    database.write({"default": Rows(deleted_ranges=[(b"", None)])})
    namespace.native.flush()
    namespace.native.compact_range(None, None)  # the files then have no deletion of a range
    rows: dict[bytes, bytes] = {}
    for lo, hi, value, in_files in steps:
        put(database, {lo: value})
        rows.pop(lo, None)
        if value is not None:
            rows[lo] = value
        if in_files:
            namespace.native.flush()
        for first, last in ((lo, hi), (hi, lo), (KEYS[0], hi)):
            wanted = [(key, rows[key]) for key in sorted(rows) if first <= key < last]
            assert started(namespace, first, last) == wanted
            assert started(namespace, first, last) == wanted


def test_rows_in_memory_keep_the_files_closed(database: RocksDBDatabase, at_once: None) -> None:
    rows = numbered(ROWS)
    put(database, dict(list(rows.items())[1:]))
    namespace = database.namespace("default")
    namespace.native.flush()
    put(database, dict(list(rows.items())[:1]))
    for _ in range(5):
        assert started(namespace, KEYS[0], KEYS[3]) == list(rows.items())[:3]
    assert not uses_files(namespace)


def test_many_reads_begin_a_flush(
    database: RocksDBDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = numbered(ROWS)
    put(database, rows)
    namespace = database.namespace("default")
    flushes: list[int] = []

    def has_unflushed_rows(_: FamilyNamespace, rows_read: int) -> bool:
        flushes.append(rows_read)
        return True

    monkeypatch.setattr(FamilyNamespace, "has_unflushed_rows", has_unflushed_rows)
    for _ in range(2 * READS):
        started(namespace, KEYS[0], KEYS[3])
    assert flushes == [3 * READS, 6 * READS]


def test_a_compaction_keeps_the_files_closed(
    flushed: tuple[FamilyNamespace, Pairs], at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that a compaction replaces would keep their space on the disk while they are open."""
    namespace, rows = flushed
    for name, number in [("num-running-compactions", 1), ("compaction-pending", 1), ("x", 0)]:
        found = {f"rocksdb.{name}": number}
        family: Any = SimpleNamespace(property_int_value=lambda name, found=found: found.get(name))
        assert is_compacting(family) == bool(number)
    monkeypatch.setattr(short_ranges, "is_compacting", lambda family: True)
    assert started(namespace, rows[0][0], rows[2][0]) == rows[:2]
    assert not uses_files(namespace)


def test_damage_is_an_error(flushed: tuple[FamilyNamespace, Pairs], at_once: None) -> None:
    namespace, rows = flushed
    (file,) = namespace._path.glob("*.sst")
    started(namespace, rows[0][0], rows[1][0])
    assert uses_files(namespace)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    with file.open("r+b") as opened:  # the same file, which is mapped
        opened.write(data)
    failures = 0
    for at in range(0, ROWS - 10, 10):
        try:
            assert started(namespace, rows[at][0], rows[at + 10][0]) == rows[at : at + 10]
        except CorruptionError:
            failures += 1
            with pytest.raises(CorruptionError, match="checksum mismatch"):
                started(namespace, rows[at][0], rows[at + 10][0])
    assert 0 < failures < ROWS / 20


def test_a_close_and_a_drop_end_them(open_database: OpenDatabase, at_once: None) -> None:
    database = open_database()
    kept, dropped = database.namespace("default"), database.namespace("dropped")
    for namespace in (kept, dropped):
        started(namespace, KEYS[0], KEYS[5])
        assert uses_files(namespace)
    database.drop_namespace("dropped")
    with pytest.raises(StoreClosedError):
        dropped.start(KEYS[0], KEYS[5])
    database.close()
    with pytest.raises(StoreClosedError):
        kept.start(KEYS[0], KEYS[5])


def test_without_mapped_files_rocksdb_reads_all(open_database: OpenDatabase, at_once: None) -> None:
    database = open_database(mmap_reads=False)
    put(database, numbered(60))
    namespace = database.namespace("default")
    namespace.native.flush()
    started(namespace, KEYS[0], KEYS[5])
    assert not uses_files(namespace)


def test_threads_see_one_commit_and_no_earlier_one(
    database: RocksDBDatabase, at_once: None
) -> None:
    """Each write gives all rows one value. A read must find one, of the last write or a later."""
    namespace = database.namespace("default")
    keys = [b"%08d" % number for number in range(400)]
    database.write_large("default", Rows(keys, [b"0"] * len(keys)))
    written, failures, in_files = [0], list[str](), [0]

    def read(_: int) -> None:
        least = written[0]
        in_files[0] += uses_files(namespace)
        pairs = started(namespace, keys[0], b"~")
        values = {int(value) for _, value in pairs}
        if len(pairs) != len(keys) or len(values) != 1 or min(values) < least:
            failures.append(f"{sorted(values)} was read after {least} was written")

    with repeating(read), repeating(read):
        for number in range(1, 150):
            rows = Rows(list(keys), [b"%d" % number] * len(keys))
            if number % 3:
                database.write_large("default", rows)
            else:
                database.write({"default": rows})
                namespace.native.flush()
            written[0] = number
    assert failures == []
    assert in_files[0]
