"""Table files that kstore writes: RocksDB reads them, and finds them equal to its own."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import (
    BlockBasedOptions,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    SstFileWriter,
)

from kstore_core import open_state, stores
from kstore_core.codec import RecordColumns, log_to_packed_rows
from kstore_core.engine import Rows, database
from kstore_core.errors import CorruptionError
from kstore_rocksdb.database import RocksDBDatabase
from kstore_rocksdb.files.table_reader import TableFile, TableScan
from kstore_rocksdb.files.table_writer import TableWriter
from tests.plugins.rocksdb.support import scanned

FOOTER_BYTES = 53
FILTER = b"fullfilter.rocksdb.BuiltinBloomFilter"

KEYS = st.one_of(
    st.binary(max_size=3),
    st.binary(max_size=300),
    st.builds(lambda stem, end: stem * 20 + end, st.binary(min_size=1, max_size=2), st.binary()),
)
VALUES = st.one_of(st.none(), st.binary(max_size=20), st.just(b"v" * 3000))
numbers = itertools.count()


def options() -> Options:
    """Options that make a table file of the same format as kstore's."""
    table = BlockBasedOptions()
    table.set_bloom_filter(10, False)
    table.set_format_version(5)
    native = Options(raw_mode=True)
    native.set_block_based_table_factory(table)
    native.set_compression_type(DBCompressionType.none())
    native.create_if_missing(True)
    return native


def written(path: Path, rows: dict[bytes, bytes | None]) -> Path:
    writer = TableWriter(str(path))
    keys = sorted(rows)
    half = len(keys) // 2
    for part in (keys[:half], keys[half:]):
        writer.add(part, [rows[key] for key in part], deletions=True)
    assert writer.rows == len(rows)
    writer.finish()
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables") / "within"  # else its parent looks like a state
    folder.mkdir()
    return folder


@given(
    rows=st.dictionaries(KEYS, VALUES, min_size=1, max_size=60),
    older=st.dictionaries(KEYS, st.binary(max_size=3), max_size=20),
)
def test_rocksdb_reads_what_was_written(
    folder: Path, rows: dict[bytes, bytes | None], older: dict[bytes, bytes]
) -> None:
    number = next(numbers)
    path = written(folder / f"{number}.sst", rows)
    ingestion = IngestExternalFileOptions()
    ingestion.set_move_files(True)
    model = {key: value for key, value in (older | rows).items() if value is not None}
    db = Rdict(str(folder / f"db{number}"), options())
    try:
        for key in [*older, *list(rows)[::3]]:
            db[key] = older.get(key, b"older")
        db.ingest_external_file([str(path)], ingestion)
        for key in {*rows, *older}:
            assert db.get(key) == model.get(key)
            assert db.get(key + b"\0") == model.get(key + b"\0")
        assert list(db.items()) == sorted(model.items())
        db.compact_range(None, None)
        assert list(db.items()) == sorted(model.items())
    finally:
        db.close()


def varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return number, at


def filter_of(path: Path) -> bytes | None:
    """The Bloom filter of a table file, or None."""
    data = path.read_bytes()
    begin, at = varint(data, len(data) - FOOTER_BYTES + 1)
    size, _ = varint(data, at)
    metadata = data[begin : begin + size]
    at = metadata.find(FILTER)
    if at < 0:
        return None
    begin, at = varint(metadata, at + len(FILTER))
    size, _ = varint(metadata, at)
    return data[begin : begin + size]


@pytest.mark.parametrize("size", range(0, 241, 5))
def test_the_filter_is_rocksdbs_own(tmp_path: Path, size: int) -> None:
    for length in range(size, min(size + 5, 241)):
        key = bytes((7 * length + 31 * i) % 256 for i in range(length))
        native = SstFileWriter(options())
        native.open(str(tmp_path / f"native{length}.sst"))
        native[key] = b"v"
        native.finish()
        ours = written(tmp_path / f"{length}.sst", {key: b"v"})
        assert filter_of(ours) == filter_of(tmp_path / f"native{length}.sst") is not None


def test_a_file_with_a_long_key_has_no_filter(tmp_path: Path) -> None:
    assert filter_of(written(tmp_path / "long.sst", {b"k" * 241: b"v", b"l": b"v"})) is None


def test_packed_rows_make_the_same_file(tmp_path: Path) -> None:
    records = RecordColumns()
    rows: dict[bytes, bytes | None] = {b"%05d" % i: b"v" * (i % 70) for i in range(5000)}
    for offset, (key, value) in enumerate(rows.items()):
        records.append(offset, 0, key, value)
    keys, values, _ = log_to_packed_rows(records, "plain", 0, 5000)
    del records
    writer = TableWriter(str(tmp_path / "packed.sst"))
    for start in range(0, 5000, 999):
        writer.add(keys[start : start + 999], values[start : start + 999])
    with pytest.raises(ValueError, match="ascending"):
        writer.add(keys[3:4], values[3:4])
    with pytest.raises(ValueError, match="2 keys but 1 values"):
        writer.add(keys[:2], values[:1])
    writer.finish()
    mixed = TableWriter(str(tmp_path / "mixed.sst"))
    mixed.add(list(keys[:2500]), values[:2500])
    mixed.add(keys[2500:], values[2500:])
    mixed.finish()
    scans = [
        TableScan([[TableFile(str(tmp_path / f"{name}.sst"))]], b"") for name in ("packed", "mixed")
    ]
    for scan in scans:
        read: tuple[list[bytes], list[bytes]] = ([], [])
        assert not scan.take(6000, *read)
        assert dict(zip(*read, strict=True)) == rows


@pytest.mark.parametrize(
    ("keys", "values", "error"),
    [
        ([b"b", b"a"], [b"1", b"2"], ValueError),
        ([b"a", b"a"], [b"1", b"2"], ValueError),
        ([b"ab", b"a"], [b"1", b"2"], ValueError),
        ([b"a"], [b"1", b"2"], ValueError),
        ([b"a"], [None], TypeError),
        ([None], [b"1"], TypeError),
        (["a"], [b"1"], TypeError),
        ([b"a"], ["1"], TypeError),
    ],
)
def test_bad_rows_are_refused(
    tmp_path: Path, keys: list[bytes], values: list[bytes], error: type[Exception]
) -> None:
    writer = TableWriter(str(tmp_path / "bad.sst"))
    with pytest.raises(error):
        writer.add(keys, values)
    writer.close()


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    path = written(tmp_path / "one.sst", {b"k": b"v"})
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        TableWriter(str(path))
    assert path.read_bytes() == before


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    rows = {b"%05d" % i: b"v" * 50 for i in range(2000)}
    path = written(tmp_path / "changed.sst", rows)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    db = Rdict(str(tmp_path / "db"), options())
    try:
        db.ingest_external_file([str(path)], IngestExternalFileOptions())
        with pytest.raises(Exception, match="checksum mismatch"):
            list(map(db.get, rows))
    finally:
        db.close()


def test_large_rows_are_written_at_once(database: RocksDBDatabase) -> None:
    database.write({"default": Rows([b"a", b"b", b"c"], [b"old", b"old", b"old"])})
    before = database.snapshot()
    scan = database.namespace("default").scan()
    assert database.write_large("default", Rows([b"a", b"b", b"d"], [b"new", None, b"new"]))
    rows = {b"a": b"new", b"c": b"old", b"d": b"new"}
    assert dict(scanned(database.namespace("default"))) == rows
    assert [key for keys, _ in scan for key in keys] == [b"a", b"b", b"c"]
    assert before.namespace("default").get(b"d") is None
    assert database.namespace("default").get(b"b") is None
    assert not list(database.path.glob(".kstore-load-*"))
    with pytest.raises(KeyError):
        database.write_large("missing", Rows([b"a"], [b"1"]))
    with pytest.raises(ValueError, match="ascending"):
        database.write_large("default", Rows([b"b", b"a"], [b"1", b"2"]))
    assert dict(scanned(database.namespace("default"))) == rows


@pytest.mark.parametrize("level", ["changelog", "process"])
def test_a_spill_writes_table_files(
    tmp_path: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LARGE_ROWS", 10)
    write_large, sizes = RocksDBDatabase.write_large, []

    def counted(self: RocksDBDatabase, namespace: str, rows: Rows) -> bool:
        sizes.append(len(rows.keys))
        return write_large(self, namespace, rows)

    monkeypatch.setattr(RocksDBDatabase, "write_large", counted)
    path = tmp_path / "0_0"
    spec = stores.timestamped_key_value_with_headers("s")
    with open_state(path, engine="rocksdb", durability=level, uncommitted_max_bytes=5_000) as state:
        store = state.open(spec)
        for i in range(1000):
            store.put(b"%d" % (i % 700), b"v%d" % i, timestamp=i, headers=[("h", b"%d" % i)])
            if i % 10 == 0:
                store.delete(b"%d" % (i // 2))
        rows = list(store.all())
        assert len(sizes) > 2
        assert min(sizes) >= 10
        state.commit()
    with open_state(path, engine="rocksdb") as state:
        assert list(state.open(spec).all()) == rows


def test_damage_in_a_spilled_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LARGE_ROWS", 10)
    path = tmp_path / "0_0"
    spec = stores.key_value("s")
    with open_state(
        path, engine="rocksdb", durability="changelog", uncommitted_max_bytes=50_000
    ) as state:
        store = state.open(spec)
        for i in range(1000):
            store.put(b"%05d" % i, b"v" * 100)
        state.commit()
    file = max((path / "rocksdb" / "s").glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(file.read_bytes())
    data[3000] ^= 1
    file.write_bytes(data)
    with open_state(path, engine="rocksdb") as state, pytest.raises(CorruptionError):
        for _ in state.open(spec).all():
            pass
