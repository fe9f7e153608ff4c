"""Table files that kstore reads itself, with the same rows as RocksDB's iterator."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    DBCompressionType,
    Options,
    Rdict,
)

from kstore_core.engine import Rows
from kstore_core.errors import CorruptionError
from kstore_rocksdb.database import RocksDBDatabase
from kstore_rocksdb.files.runs import open_runs
from kstore_rocksdb.files.table_reader import TableFile, TableScan, UnreadableTableError
from kstore_rocksdb.namespace import FamilyNamespace
from kstore_rocksdb.scan import FamilyScan
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import Pairs, flat, numbered, put, scanned

ROWS = 3000
"""Enough rows for a scan that goes on in the table files."""

FOUR_CHUNKS = 32 + 128 + 512 + 1024
"""The rows of the first four chunks of a scan. The fourth may come from the table files."""

ATTEMPT_CHUNKS = 16
CHUNKS_BEFORE_FLUSH = 3 + ATTEMPT_CHUNKS + 1
"""The chunks of a scan up to the second attempt to go on in the files, which begins a flush."""

MANY_ROWS = 50_000

KEYS = st.one_of(
    st.binary(max_size=2),
    st.binary(max_size=300),
    st.builds(lambda stem, end: stem * 20 + end, st.binary(min_size=1, max_size=1), st.binary()),
)
VALUES = st.one_of(st.none(), st.binary(max_size=200), st.just(b"v" * 5000))
WRITES = st.lists(st.dictionaries(KEYS, VALUES, min_size=1, max_size=30), min_size=1, max_size=6)
numbers = itertools.count()

Change = Callable[[Options, BlockBasedOptions], None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables") / "within"  # else its parent looks like a state
    folder.mkdir()
    return folder


def opened(path: Path, *, block_size: int = 4096, version: int = 6, change: Change) -> Rdict:
    """A database whose table files have these features."""
    table = BlockBasedOptions()
    table.set_bloom_filter(10, False)
    table.set_format_version(version)
    table.set_block_size(block_size)
    native = Options(raw_mode=True)
    native.set_compression_type(DBCompressionType.none())
    native.create_if_missing(True)
    change(native, table)
    native.set_block_based_table_factory(table)
    return Rdict(str(path), native)


def unchanged(native: Options, table: BlockBasedOptions) -> None:
    """Leave the options as they are."""


def quiet(native: Options, table: BlockBasedOptions) -> None:
    """Compact only when the test asks for it."""
    native.set_disable_auto_compactions(True)


def all_rows(scan: TableScan, size: int = 7) -> Pairs:
    keys: list[bytes] = []
    values: list[bytes] = []
    while scan.take(size, keys, values):
        pass
    return list(zip(keys, values, strict=True))


def all_packed(scan: TableScan, size: int = 7, most_bytes: int = 1000) -> Pairs:
    rows: Pairs = []
    while True:
        keys, values = scan.packed(size, most_bytes)
        assert len(keys) == len(values) <= size
        if not keys:
            return rows
        assert sum(map(len, values)) - len(values[-1]) < most_bytes
        rows += zip(keys, values, strict=True)


@given(
    writes=WRITES,
    compacted=st.integers(0, 6),
    block_size=st.sampled_from([32, 300, 4096]),
    version=st.sampled_from([5, 6]),
    bounds=st.lists(st.tuples(KEYS, st.none() | KEYS), max_size=5),
)
def test_the_rows_are_those_of_rocksdb(
    folder: Path,
    writes: list[dict[bytes, bytes | None]],
    compacted: int,
    block_size: int,
    version: int,
    bounds: list[tuple[bytes, bytes | None]],
) -> None:
    path = folder / f"rows{next(numbers)}"
    db = opened(path, block_size=block_size, version=version, change=quiet)
    model: dict[bytes, bytes] = {}
    held = []
    try:
        for number, rows in enumerate(writes):
            for key, value in rows.items():
                if value is None:
                    db.delete(key)
                    model.pop(key, None)
                else:
                    db[key] = model[key] = value
            held.append(db.snapshot())  # so that older rows of a key stay in the files
            if number != len(writes) // 2:
                db.flush()
            if number + 1 == compacted:
                db.compact_range(None, None)
        db.flush()
        runs = open_runs(db, path)
        assert runs is not None
        assert all_rows(TableScan(runs, b"")) == sorted(model.items()) == list(db.items())
        assert all_packed(TableScan(runs, b"")) == sorted(model.items())
        for lo, hi in bounds:
            expected = [
                row for row in sorted(model.items()) if lo <= row[0] < (hi or row[0] + b"0")
            ]
            if hi != b"":
                assert all_rows(TableScan(runs, lo, hi)) == expected
                assert all_packed(TableScan(runs, lo, hi), size=3) == expected
        held.clear()
        db.compact_range(None, None)
        assert all_rows(TableScan(runs, b"")) == sorted(model.items())  # of the removed files
    finally:
        held.clear()
        db.close()


def test_rows_in_memory_are_not_in_the_files(folder: Path) -> None:
    path = folder / "memory"
    db = opened(path, change=unchanged)
    try:
        assert open_runs(db, path) == []
        db[b"a"] = b"1"
        assert open_runs(db, path) is None
        db.flush()
        assert open_runs(db, path) is not None
        db.delete(b"a")
        assert open_runs(db, path) is None
        db.flush()
        runs = open_runs(db, path)
        assert runs is not None
        assert all_rows(TableScan(runs, b"")) == []
    finally:
        db.close()


def compressed(native: Options, table: BlockBasedOptions) -> None:
    native.set_compression_type(DBCompressionType.lz4())


def partitioned(native: Options, table: BlockBasedOptions) -> None:
    table.set_index_type(BlockBasedIndexType.two_level_index_search())


def old(native: Options, table: BlockBasedOptions) -> None:
    table.set_format_version(3)


@pytest.mark.parametrize("change", [compressed, partitioned, old])
def test_an_unknown_format_is_left_to_rocksdb(tmp_path: Path, change: Change) -> None:
    path = tmp_path / "within" / "db"
    db = opened(path, change=change)
    try:
        for i in range(1000):
            db[b"%05d" % i] = b"value" * 20
        db.flush()
        (file,) = path.glob("*.sst")
        with pytest.raises(UnreadableTableError):
            all_rows(TableScan([[TableFile(str(file))]], b""))
    finally:
        db.close()


def test_deletions_of_ranges_and_other_rows_are_left_to_rocksdb(tmp_path: Path) -> None:
    path = tmp_path / "within" / "db"
    db = opened(path, change=unchanged)
    try:
        db.put_entity(b"a", names=[b"one"], values=[b"1"])
        db.flush()
        runs = open_runs(db, path)
        assert runs is not None
        with pytest.raises(UnreadableTableError, match="rows of type"):
            all_rows(TableScan(runs, b""))
        db.delete_range(b"a", b"b")
        db.flush()
        assert open_runs(db, path) is None
    finally:
        db.close()


@pytest.mark.parametrize("read", [all_rows, all_packed])
@pytest.mark.parametrize("version", [5, 6])
def test_a_changed_byte_never_gives_other_rows(
    tmp_path: Path, version: int, read: Callable[[TableScan], Pairs]
) -> None:
    path = tmp_path / "within" / "db"
    db = opened(path, block_size=100, version=version, change=unchanged)
    rows = [(b"%03d" % i, b"value %d" % i) for i in range(40)]
    for key, value in rows:
        db[key] = value
    db.close()
    (file,) = path.glob("*.sst")
    data = file.read_bytes()
    other = tmp_path / "changed.sst"
    found = 0
    for at in range(len(data)):
        for mask in (1, 0x80, 0xFF):
            other.write_bytes(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])
            try:
                assert read(TableScan([[TableFile(str(other))]], b"")) == rows
            except UnreadableTableError:
                found += 1
    assert found > 2 * len(data)  # the filter and the padding of a footer are not read
    for size in range(len(data)):
        other.write_bytes(data[:size])
        with pytest.raises(UnreadableTableError):
            TableFile(str(other))


def chunks_of(scan: Iterator[tuple[list[bytes], list[bytes]]], count: int) -> Pairs:
    return flat(itertools.islice(scan, count))


def read_into(seen: Pairs, scan: FamilyScan) -> None:
    for chunk in scan:
        seen += flat([chunk])


def in_tables(scan: FamilyScan) -> bool:
    """Whether a scan reads the table files itself."""
    return scan._tables is not None


@pytest.fixture
def flushed(database: RocksDBDatabase) -> tuple[FamilyNamespace, Pairs]:
    """A namespace whose rows are all in table files, and the rows."""
    rows = numbered(ROWS)
    put(database, rows)
    database.sync()
    namespace = database.namespace("default")
    namespace.native.flush()
    return namespace, sorted(rows.items())


def test_a_long_scan_goes_on_in_the_table_files(
    flushed: tuple[FamilyNamespace, Pairs],
) -> None:
    namespace, rows = flushed
    for lo, hi in [
        (None, None),
        (rows[5][0], None),
        (None, rows[-7][0]),
        (rows[3][0], rows[-1][0]),
    ]:
        expected = [row for row in rows if (lo or b"") <= row[0] < (hi or b"\xff")]
        scan = namespace.scan(lo, hi)
        assert chunks_of(scan, 4) == expected[:FOUR_CHUNKS]
        assert in_tables(scan)
        assert flat(scan) == expected[FOUR_CHUNKS:]
        chunk, rest = namespace.start(lo, hi)
        assert chunk is not None
        assert rest is not None
        assert flat([chunk, *rest]) == expected
    scan = namespace.scan(reverse=True)
    assert chunks_of(scan, 4) == rows[::-1][:FOUR_CHUNKS]
    assert not in_tables(scan)


@pytest.mark.parametrize("before", [0, 2, 4])
@pytest.mark.parametrize("way", ["put", "range", "load", "large"])
def test_a_write_does_not_change_a_long_scan(
    database: RocksDBDatabase, flushed: tuple[FamilyNamespace, Pairs], before: int, way: str
) -> None:
    namespace, rows = flushed
    scan = namespace.scan()
    seen = chunks_of(scan, before)
    middle, last = rows[ROWS // 2][0], rows[-1][0]
    if way == "put":
        put(database, {middle: None, last: b"new", b"\xff": b"new"})
    elif way == "range":
        database.write({"default": Rows(deleted_ranges=[(middle, None)])})
    elif way == "load":
        database.load("default", [([middle, last, b"\xff"], [b"new"] * 3)])
    else:
        database.write_large("default", Rows([middle, last, b"\xff"], [b"new", None, b"new"]))
    namespace.native.flush()
    seen += chunks_of(scan, max(4 - before, 1))
    assert in_tables(scan) == (before == 4)
    assert seen + flat(scan) == rows
    now = scanned(namespace)
    assert now != rows
    assert now == list(namespace.native.items())


def test_rows_in_memory_are_scanned_too(database: RocksDBDatabase) -> None:
    rows = numbered(ROWS)
    put(database, rows)
    scan = database.namespace("default").scan()
    assert chunks_of(scan, 4) == sorted(rows.items())[:FOUR_CHUNKS]
    assert not in_tables(scan)
    assert len(flat(scan)) == ROWS - (FOUR_CHUNKS)


def in_memory(database: RocksDBDatabase, name: str) -> int:
    """The number of rows that RocksDB has not flushed."""
    native = database.namespace(name).native
    return sum(
        native.property_int_value(f"rocksdb.num-entries-{kind}") or 0
        for kind in ("active-mem-table", "imm-mem-tables")
    )


def wait_for_flush(database: RocksDBDatabase) -> None:
    deadline = time.monotonic() + 30
    while in_memory(database, "default"):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_long_scan_begins_a_flush_of_all_namespaces(database: RocksDBDatabase) -> None:
    rows = numbered(MANY_ROWS)
    database.namespace("offsets")
    put(database, rows)
    put(database, {b"topic": b"1"}, "offsets")
    namespace = database.namespace("default")
    scan = namespace.scan()
    seen = chunks_of(scan, CHUNKS_BEFORE_FLUSH - 1)
    assert in_memory(database, "default") == MANY_ROWS
    seen += chunks_of(scan, 1)
    wait_for_flush(database)
    assert in_memory(database, "offsets") == 0
    assert not in_tables(scan)
    seen += chunks_of(scan, ATTEMPT_CHUNKS)
    assert in_tables(scan)
    assert seen + flat(scan) == sorted(rows.items())
    put(database, {b"topic": b"2"}, "offsets")  # the buffers no longer count as full
    put(database, {b"topic": b"3"}, "offsets")
    assert in_memory(database, "offsets") == 2


def test_a_scan_begins_no_flush_of_few_rows(database: RocksDBDatabase) -> None:
    rows = numbered(MANY_ROWS)
    put(database, rows)
    database.namespace("default").native.flush()
    put(database, dict(list(rows.items())[: MANY_ROWS // 100]))
    assert scanned(database.namespace("default")) == sorted(rows.items())
    assert in_memory(database, "default") == MANY_ROWS // 100


def test_a_scan_begins_no_flush_to_a_disk_that_is_nearly_full(
    database: RocksDBDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a write-ahead log, RocksDB may lose the rows of a flush that fails."""
    rows = numbered(MANY_ROWS)
    put(database, rows)
    free = 4 * database._options.write_buffers_bytes
    disk = SimpleNamespace(free=free - 1)
    monkeypatch.setattr("kstore_rocksdb.database.shutil.disk_usage", lambda _: disk)
    assert scanned(database.namespace("default")) == sorted(rows.items())
    assert in_memory(database, "default") == MANY_ROWS
    disk.free = free
    assert scanned(database.namespace("default")) == sorted(rows.items())
    wait_for_flush(database)


def test_a_scan_waits_for_no_writer(database: RocksDBDatabase) -> None:
    rows = numbered(MANY_ROWS)
    put(database, rows)
    with database._lock:
        reader = threading.Thread(target=lambda: seen.extend(scanned(namespace)))
        namespace, seen = database.namespace("default"), list[tuple[bytes, bytes]]()
        reader.start()
        reader.join(60)
        assert seen == sorted(rows.items())
    assert in_memory(database, "default") == MANY_ROWS


def test_a_long_scan_of_a_read_only_database_leaves_rows_in_memory(
    open_database: OpenDatabase,
) -> None:
    rows = numbered(MANY_ROWS)
    database = open_database(durability="process")
    put(database, rows)
    reader = open_database(read_only=True)
    assert scanned(reader.namespace("default")) == sorted(rows.items())
    assert in_memory(reader, "default") == MANY_ROWS


def test_without_mapped_files_rocksdb_reads_all(open_database: OpenDatabase) -> None:
    open_database().close()
    database = open_database(mmap_reads=False)
    rows = numbered(ROWS)
    put(database, rows)
    database.namespace("default").native.flush()
    scan = database.namespace("default").scan()
    chunks_of(scan, 4)
    assert not in_tables(scan)


def test_damage_after_the_switch_is_an_error(flushed: tuple[FamilyNamespace, Pairs]) -> None:
    namespace, rows = flushed
    (file,) = namespace._path.glob("*.sst")  # type: ignore[union-attr]
    scan = namespace.scan()
    seen = chunks_of(scan, 4)
    assert in_tables(scan)
    data = bytearray(file.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    with file.open("r+b") as opened:  # the same file, which is mapped
        opened.write(data)
    with pytest.raises(CorruptionError, match="checksum mismatch"):
        read_into(seen, scan)
    assert seen == rows[: len(seen)]
    assert ROWS / 2 < len(seen) < ROWS


def test_a_close_ends_a_scan_of_table_files(
    database: RocksDBDatabase, flushed: tuple[FamilyNamespace, Pairs]
) -> None:
    scan = flushed[0].scan()
    chunks_of(scan, 4)
    assert in_tables(scan)
    database.close()
    with pytest.raises(Exception, match="closed"):
        next(scan)


def test_scans_are_right_while_another_thread_writes(database: RocksDBDatabase) -> None:
    """Each batch writes one value to all rows, so a scan must find one value only."""
    keys = [b"%05d" % i for i in range(ROWS)]
    namespace = database.namespace("default")
    put(database, dict.fromkeys(keys, b"0"))
    done = threading.Event()

    def write() -> None:
        for number in range(60):
            rows = Rows(list(keys), [b"%d" % number] * ROWS)
            if number % 3:
                database.write({"default": rows})
            else:
                database.write_large("default", rows)
            namespace.native.flush()
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    in_files = scans = 0
    while not done.is_set() or not in_files:
        scan = namespace.scan()
        seen = chunks_of(scan, 4)
        in_files += in_tables(scan)
        scans += 1
        seen += flat(scan)
        assert [key for key, _ in seen] == keys
        assert len({value for _, value in seen}) == 1
    writer.join()
    assert scans > 1
