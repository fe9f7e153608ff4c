"""Reading without a trace, beside a writer, and from where nothing can be written."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import EngineError, UnsupportedError
from kstore_rocksdb import RocksDBEngine
from kstore_rocksdb.files import readonly
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import numbered, put, python, scanned
from tests.plugins.tiny_disk import tiny_disk

__all__ = ["tiny_disk"]


def state_of(directory: Path) -> dict[str, tuple[object, ...]]:
    """Names, sizes, times and contents. LOCK is not read: closing it would free a lock on it."""
    return {
        str(file.relative_to(directory)): (
            file.stat().st_size,
            file.stat().st_mtime_ns,
            file.stat().st_ctime_ns,
            file.stat().st_nlink,
            file.is_file()
            and file.name != "LOCK"
            and hashlib.sha256(file.read_bytes()).hexdigest(),
        )
        for file in (directory, *directory.rglob("*"))
    }


def test_reading_leaves_the_directory_as_it_was(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    database = open_database()
    database.namespace("offsets")
    rows = numbered(5000)
    put(database, rows)
    put(database, {b"n": b"1"}, "offsets")
    database.close()
    before = state_of(tmp_path)
    reader = open_database(read_only=True)
    assert scanned(reader.namespace("default")) == list(rows.items())
    assert scanned(reader.namespace("default"), reverse=True) == list(rows.items())[::-1]
    assert reader.namespace("offsets").get(b"n") == b"1"
    assert sorted(reader.namespaces()) == ["default", "offsets"]
    with reader.snapshot() as snapshot:
        assert len(scanned(snapshot.namespace("default"))) == 5000
    assert reader.namespace("default").approximate_count() == 5000
    reader.sync()
    assert state_of(tmp_path) == before
    scratch = reader._scratch
    assert scratch is not None
    assert scratch.is_dir()
    reader.close()
    assert state_of(tmp_path) == before
    assert not scratch.exists()


def test_a_missing_database_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RocksDBEngine().open(tmp_path, "s", read_only=True)
    (tmp_path / "rocksdb" / "s").mkdir(parents=True)
    with pytest.raises(FileNotFoundError):
        RocksDBEngine().open(tmp_path, "s", read_only=True)
    assert list((tmp_path / "rocksdb" / "s").iterdir()) == []


@pytest.mark.parametrize(
    "use",
    [
        lambda database: database.write({"default": Rows([b"a"], [b"1"])}),
        lambda database: database.load("default", [([b"a"], [b"1"])]),
        lambda database: database.drop_namespace("offsets"),
        lambda database: database.drop_namespace("default"),
    ],
)
def test_a_reader_refuses_to_write(
    open_database: OpenDatabase, use: Callable[[object], None]
) -> None:
    database = open_database()
    database.namespace("offsets")
    database.close()
    reader = open_database(read_only=True)
    with pytest.raises(UnsupportedError, match="read_only"):
        use(reader)


def test_a_missing_namespace_is_not_made(open_database: OpenDatabase) -> None:
    """The binding would make one up, and keep it to itself."""
    open_database().close()
    with pytest.raises(KeyError):
        open_database(read_only=True).namespace("offsets")


def test_a_reader_beside_a_writer_of_the_same_process(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    writer = open_database()
    rows = numbered(1000)
    put(writer, rows)
    readers = [open_database(read_only=True) for _ in range(2)]
    put(writer, dict.fromkeys(rows))
    put(writer, {b"z": b"later"})
    for reader in readers:
        assert scanned(reader.namespace("default")) == list(rows.items())
    readers[0].close()
    # the writer still holds its lock: nothing opened and closed the lock file
    other = python("RocksDBEngine().open(root, 's')", tmp_path)
    other.communicate(timeout=60)
    assert other.returncode != 0
    put(writer, {b"zz": b"later"})
    assert scanned(open_database(read_only=True).namespace("default")) == [
        (b"z", b"later"),
        (b"zz", b"later"),
    ]


def test_a_reader_outlives_the_files_that_it_read(open_database: OpenDatabase) -> None:
    """Table files are links: the reader holds all of them open from the start."""
    database = open_database(max_open_files=16)
    for start in range(0, 3000, 100):
        put(database, numbered(100, start=start))
        database._flush()
    database.close()
    reader = open_database(read_only=True, max_open_files=16)
    for table in database.path.glob("*.sst"):
        table.unlink()
    assert len(scanned(reader.namespace("default"))) == 3000


BUSY_WRITER = """
database = RocksDBEngine({'write_buffer_bytes': 65536}).open(root, 's', durability=sys.argv[2])
for name in ('offsets', 'other'):
    database.namespace(name)
print('open', flush=True)
for n in range(10**9):
    number = b'%d' % n
    database.write({
        'default': Rows([b'%09d' % n], [b'x' * 300]),
        'other': Rows([b'n'], [number], [(b'', None)]),
        'offsets': Rows([b'n'], [number]),
    })
    time.sleep(0.0001)  # or a disk in memory has it flush every other millisecond
    if n % 1000 == 999:
        database.write({'default': Rows(deleted_ranges=[(b'', b'%09d' % (n - 500))])})
"""


@pytest.mark.parametrize("level", ["process", "changelog"])
def test_a_reader_beside_a_busy_writer_sees_one_moment(tmp_path: Path, level: str) -> None:
    """Every flush and compaction moves files from under it."""
    writer = python(BUSY_WRITER, tmp_path, level)
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        seen = []
        try:
            while len(seen) < 40 or len(set(seen)) < 4:
                reader = RocksDBEngine().open(tmp_path, "s", read_only=True)
                keys = [int(key) for key, _ in scanned(reader.namespace("default"))]
                number = int(reader.namespace("offsets").get(b"n") or -1)
                assert int(reader.namespace("other").get(b"n") or -1) == number
                assert keys == list(range(keys[0], number + 1)) if keys else number == -1
                seen.append(number)
                reader.close()
        finally:
            writer.kill()
    assert seen == sorted(seen)


def test_a_directory_that_never_rests_is_given_up(
    open_database: OpenDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    open_database().close()
    lengths = iter(range(10**6))
    monkeypatch.setattr(readonly, "current_manifest", lambda _: ("MANIFEST", next(lengths)))
    monkeypatch.setattr(readonly, "_PAUSE_S", 0)
    monkeypatch.setattr(readonly, "_PATIENCE_S", 0)
    scratches = tmp_path / "scratches"
    scratches.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratches))
    with pytest.raises(EngineError, match="Try again"):
        open_database(read_only=True)
    assert list(scratches.iterdir()) == []


def test_a_file_system_that_is_read_only(tiny_disk: Path) -> None:
    rows = numbered(1000)
    database = RocksDBEngine().open(tiny_disk, "s")
    put(database, rows)
    database.close()
    remount = subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=False)
    if remount.returncode:
        pytest.skip("cannot remount")
    with pytest.raises(EngineError):
        RocksDBEngine().open(tiny_disk, "s")
    with pytest.raises(EngineError):
        RocksDBEngine().open(tiny_disk, "other")
    reader = RocksDBEngine().open(tiny_disk, "s", read_only=True)
    assert scanned(reader.namespace("default")) == list(rows.items())
    reader.close()


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_no_room_for_a_scratch_directory(
    open_database: OpenDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    open_database().close()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no such directory"))
    with pytest.raises(EngineError):
        open_database(read_only=True)
