"""Damaged files: an error that says so, never a short answer."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kstore_core.engine import Chunk
from kstore_core.errors import CorruptionError
from kstore_rocksdb.database import RocksDBDatabase
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import Pairs, flat, numbered, put, python, scanned
from tests.plugins.support import kill_when_done

ROWS = 20_000


@pytest.fixture
def table_file(open_database: OpenDatabase) -> Path:
    """The one table file of a closed database."""
    database = open_database()
    put(database, numbered(ROWS, 50))
    database.close()
    (table,) = database.path.glob("*.sst")
    return table


def flip(path: Path, at: float) -> None:
    """Change one bit, ``at`` a part of the file's length."""
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 1
    path.write_bytes(data)


def read_into(seen: Pairs, scan: Iterable[Chunk]) -> None:
    for chunk in scan:
        seen += flat([chunk])


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("at", [0.0001, 0.1, 0.5, 0.9])
def test_a_damaged_block_ends_a_scan_with_an_error(
    open_database: OpenDatabase, table_file: Path, at: float, read_only: bool
) -> None:
    """The binding's own iteration just ends there."""
    flip(table_file, at)
    database = open_database(read_only=read_only)
    live, moment = database.namespace("default"), database.snapshot().namespace("default")
    for namespace in (live, moment):
        for reverse in (False, True):
            scan = namespace.scan(reverse=reverse)
            seen: Pairs = []
            with pytest.raises(
                CorruptionError, match=r"checksum mismatch.*kstore inspect"
            ) as caught:
                read_into(seen, scan)
            assert caught.value.__cause__ is not None
            assert len(seen) < ROWS
            expected = [b"%08d" % i for i in range(ROWS)][:: -1 if reverse else 1]
            assert [key for key, _ in seen] == expected[: len(seen)]
            whole = 1 - at if reverse else at  # of the file, which ends with filter and index
            assert len(seen) / ROWS == pytest.approx(whole, abs=0.04)
            for _ in range(2):
                with pytest.raises(CorruptionError):
                    next(scan)


def test_a_scan_that_does_not_reach_the_damage_is_whole(
    open_database: OpenDatabase, table_file: Path
) -> None:
    flip(table_file, 0.5)
    database = open_database()
    middle = b"%08d" % (ROWS // 3)
    for namespace in (
        database.namespace("default"),
        database.snapshot().namespace("default"),
    ):
        assert len(scanned(namespace, hi=middle)) == ROWS // 3
        assert len(scanned(namespace, hi=middle, reverse=True)) == ROWS // 3
        assert namespace.first() is not None


def test_lookups_in_a_damaged_block_fail(open_database: OpenDatabase, table_file: Path) -> None:
    flip(table_file, 0.5)
    database = open_database()
    for namespace in (
        database.namespace("default"),
        database.snapshot().namespace("default"),
    ):
        keys = [b"%08d" % i for i in range(ROWS)]
        failed = 0
        for key in keys[::10]:
            try:
                assert namespace.get(key) is not None
            except CorruptionError:
                failed += 1
        assert 0 < failed < 100
        with pytest.raises(CorruptionError):
            namespace.get_many(keys)


def test_a_failed_scan_does_not_hold_the_lock(
    open_database: OpenDatabase, table_file: Path
) -> None:
    flip(table_file, 0.5)
    database = open_database()
    kept = []
    for namespace in (
        database.namespace("default"),
        database.snapshot().namespace("default"),
    ):
        with pytest.raises(CorruptionError) as caught:
            scanned(namespace)
        kept.append(caught)
    database.close()
    open_database().close()


def cut_table(path: Path) -> None:
    (table,) = path.glob("*.sst")
    table.write_bytes(table.read_bytes()[:-100])


def remove_table(path: Path) -> None:
    next(path.glob("*.sst")).unlink()


def name_another_manifest(path: Path) -> None:
    (path / "CURRENT").write_text("MANIFEST-999999\n")


def spoil_current(path: Path) -> None:
    (path / "CURRENT").write_text("rubbish")


def flip_manifest(path: Path) -> None:
    flip(path / (path / "CURRENT").read_text().strip(), 0.1)


def empty_manifest(path: Path) -> None:
    (path / (path / "CURRENT").read_text().strip()).write_bytes(b"")


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    "damage",
    [
        cut_table,
        remove_table,
        name_another_manifest,
        spoil_current,
        flip_manifest,
        empty_manifest,
    ],
    ids=lambda damage: damage.__name__,
)
def test_a_damaged_database_does_not_open(
    open_database: OpenDatabase,
    table_file: Path,
    tmp_path: Path,
    damage: Callable[[Path], None],
    read_only: bool,
) -> None:
    path = table_file.parent
    shutil.copytree(path, tmp_path / "kept")
    damage(path)
    for _ in range(2):
        with pytest.raises(CorruptionError, match="kstore inspect"):
            open_database(read_only=read_only)
    for file in (tmp_path / "kept").iterdir():
        if file.suffix == ".sst" or file.name.startswith(("CURRENT", "MANIFEST")):
            shutil.copy(file, path)
    assert len(scanned(open_database().namespace("default"))) == ROWS


def log_of_a_killed_process(tmp_path: Path) -> Path:
    """Two thousand batches of one row in the write-ahead log of a process that was killed."""
    process = python(
        "database = RocksDBEngine().open(root, 's')\n"
        "for i in range(2000):\n"
        "    database.write({'default': Rows([b'%08d' % i], [b'x' * 100])})\n"
        "print('done', flush=True)\ntime.sleep(60)",
        tmp_path,
    )
    kill_when_done(process)
    (log,) = (file for file in (tmp_path / "rocksdb" / "s").glob("*.log") if file.stat().st_size)
    return log


@pytest.mark.parametrize("read_only", [False, True])
def test_damage_within_the_log_is_found(
    open_database: OpenDatabase, tmp_path: Path, read_only: bool
) -> None:
    """By default RocksDB drops the rest of the log without a word."""
    flip(log_of_a_killed_process(tmp_path), 0.5)
    with pytest.raises(CorruptionError):
        open_database(read_only=read_only)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("cut", [1, 50, 1000, 100_000])
def test_a_torn_log_gives_a_prefix(
    open_database: OpenDatabase, tmp_path: Path, cut: int, read_only: bool
) -> None:
    log = log_of_a_killed_process(tmp_path)
    log.write_bytes(log.read_bytes()[:-cut])
    keys = [key for key, _ in scanned(open_database(read_only=read_only).namespace("default"))]
    assert keys == [b"%08d" % i for i in range(len(keys))]
    assert 2000 - cut // 100 - 2 <= len(keys) < 2000


def test_an_error_is_explained_once(open_database: OpenDatabase, table_file: Path) -> None:
    flip(table_file, 0.0001)
    database: RocksDBDatabase = open_database()
    with pytest.raises(CorruptionError) as caught:
        database.namespace("default").get(b"%08d" % 0)
    text = str(caught.value)
    assert str(database.path) in text
    assert "cannot read from 'default'" in text
    assert text.endswith(f"kstore inspect {database.path.parent.parent}")
