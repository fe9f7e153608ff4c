"""Opening: what it finds, what it refuses, and what a refusal leaves behind."""

from __future__ import annotations

import fcntl
import os
import pickle
import sys
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from kstore_core.engine import DURABILITY_LEVELS, handles
from kstore_core.errors import CorruptionError, EngineError, EngineLockedError, SpecError
from kstore_rocksdb import RocksDBEngine, locks
from kstore_rocksdb.database import RocksDBDatabase
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import put, python, reopened, scanned
from tests.plugins.support import output_of


def test_a_database_lies_where_kafka_streams_has_it(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    database = open_database("orders")
    assert database.path == tmp_path / "rocksdb" / "orders"
    assert (database.path / "CURRENT").is_file()
    assert database.namespaces() == ["default"]
    assert "orders" in repr(database)
    assert "process" in repr(database)


def test_stores_are_directories_with_a_current_file(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    engine = RocksDBEngine()
    assert engine.stores(tmp_path) == []
    open_database("b")
    open_database("a").close()
    (tmp_path / "rocksdb" / "empty").mkdir()
    (tmp_path / "rocksdb" / "file").write_text("x")
    assert engine.stores(tmp_path) == ["a", "b"]


def test_every_family_on_disk_is_opened(open_database: OpenDatabase) -> None:
    """RocksDB refuses to open a database with a family left out."""
    database = open_database()
    for name in ("offsets", "keyValueWithTimestamp", "of another version"):
        database.namespace(name)
        put(database, {b"k": name.encode()}, name)
    names = database.namespaces()
    database.close()
    database = open_database()
    assert sorted(database.namespaces()) == sorted(names)
    for name in names[1:]:
        assert database.namespace(name).get(b"k") == name.encode()


@pytest.mark.parametrize("store", ["", ".", "..", "a/b", "../x", "a\0b"])
def test_a_store_is_one_directory(tmp_path: Path, store: str) -> None:
    with pytest.raises(SpecError):
        RocksDBEngine().open(tmp_path, store)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="power"):
        RocksDBEngine().open(tmp_path, "s", durability="fsync")  # type: ignore[arg-type]
    assert RocksDBEngine.capabilities.durability == DURABILITY_LEVELS


def test_engines_travel_to_other_processes() -> None:
    engine = pickle.loads(pickle.dumps(RocksDBEngine({"bloom_bits": 12})))
    assert engine.options.bloom_bits == 12


def test_a_database_does_not_travel(open_database: OpenDatabase) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(open_database())


def test_a_failed_open_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "state" / "0_0"

    def half(*_: object) -> None:
        (root / "rocksdb" / "s" / "LOG").write_text("begun")
        raise Exception("Invalid argument: of some kind")

    with monkeypatch.context() as patched:
        patched.setattr("kstore_rocksdb.opening.Rdict", half)
        with pytest.raises(EngineError, match="of some kind"):
            RocksDBEngine().open(root, "s")
    assert list(tmp_path.iterdir()) == []
    assert reopened(root) == []


def test_a_failed_open_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "rocksdb" / "s"
    path.parent.mkdir(parents=True)
    path.write_text("a file, not a directory")
    with pytest.raises(EngineError):
        RocksDBEngine().open(tmp_path, "s")
    assert path.read_text() == "a file, not a directory"
    path.unlink()
    assert reopened(tmp_path) == []


def test_a_lost_current_file_does_not_make_the_rows_go(
    closed: RocksDBDatabase, open_database: OpenDatabase, tmp_path: Path
) -> None:
    """RocksDB would make an empty database there and remove the table files."""
    current = closed.path / "CURRENT"
    current.rename(tmp_path / "kept")
    before = sorted(file.name for file in closed.path.iterdir())
    with pytest.raises(CorruptionError, match="lost its CURRENT"):
        open_database()
    assert sorted(file.name for file in closed.path.iterdir()) == before
    (tmp_path / "kept").rename(current)
    assert reopened(tmp_path) == [(b"a", b"1")]


def test_an_open_that_was_killed_before_it_had_a_current_file_is_begun_anew(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rocksdb" / "s"
    path.mkdir(parents=True)
    (path / "MANIFEST-000001").write_bytes(b"")
    (path / "LOCK").touch()
    (path / "000004.log").touch()
    (path / "000004.log").unlink()
    assert reopened(tmp_path) == []


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch exploded",)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("config", ["", "{", '{"raw_mode":false,"prefix_extractors":{}}'])
def test_values_are_never_unpickled(
    open_database: OpenDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: str,
    read_only: bool,
) -> None:
    """The binding unpickles where the directory's own configuration says so."""
    monkeypatch.chdir(tmp_path)
    database = open_database()
    hostile = {b"\x05" + b"a": b"\x06" + pickle.dumps(Bomb()), b"b": pickle.dumps(Bomb())}
    put(database, hostile)
    database.close()
    (database.path / "rocksdict-config.json").write_text(config)
    database = open_database(read_only=read_only)
    assert dict(scanned(database.namespace("default"))) == hostile
    assert database.namespace("default").get_many(list(hostile)) == list(hostile.values())
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_database_of_pickles_is_refused(
    open_database: OpenDatabase, tmp_path: Path, read_only: bool
) -> None:
    path = tmp_path / "rocksdb" / "s"
    foreign = Rdict(str(path))
    foreign["bomb"] = Bomb()
    foreign.close()
    with pytest.raises(EngineError, match="comparator"):
        open_database(read_only=read_only)


def test_one_handle_a_path_in_one_process(open_database: OpenDatabase, tmp_path: Path) -> None:
    database = open_database()
    put(database, {b"a": b"1"})
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    for root in (tmp_path, link):
        with pytest.raises(EngineLockedError, match="this process") as caught:
            open_database(root=root)
        assert caught.value.pid == os.getpid()
    put(database, {b"b": b"2"})
    database.close()
    assert len(reopened(tmp_path)) == 2


@pytest.mark.parametrize("kernel_tells", [True, False])
def test_one_process_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel_tells: bool
) -> None:
    if not kernel_tells:
        monkeypatch.setattr(handles, "KERNEL_LOCKS", tmp_path / "no such file")
        monkeypatch.delattr(fcntl, "F_OFD_GETLK", raising=False)
    elif not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells who holds a lock")
    holder = python(
        "database = RocksDBEngine().open(root, 's')\nprint('open', flush=True)\ntime.sleep(60)",
        tmp_path,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        logs = sorted(file.name for file in (tmp_path / "rocksdb" / "s").glob("LOG*"))
        with pytest.raises(EngineLockedError, match="read_only=True") as caught:
            RocksDBEngine().open(tmp_path, "s")
        assert caught.value.pid == (holder.pid if kernel_tells else None)
        if kernel_tells:  # refused before RocksDB could turn the holder's log over
            assert logs == sorted(f.name for f in (tmp_path / "rocksdb" / "s").glob("LOG*"))
        holder.kill()
    assert reopened(tmp_path) == []


@pytest.mark.parametrize("kernel_tells", ["of files", "of all", "of all after a try", "nothing"])
def test_a_handle_of_the_library_in_this_process_keeps_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel_tells: str
) -> None:
    """A process loses its lock when it closes any descriptor of the file."""
    if kernel_tells == "of all after a try":
        monkeypatch.setattr(fcntl, "F_OFD_GETLK", 9999)
    elif kernel_tells != "of files":
        monkeypatch.delattr(fcntl, "F_OFD_GETLK", raising=False)
    if kernel_tells == "nothing":
        monkeypatch.setattr(handles, "KERNEL_LOCKS", tmp_path / "no such file")
    RocksDBEngine().open(tmp_path, "s").close()
    foreign = Rdict(str(tmp_path / "rocksdb" / "s"), Options(raw_mode=True))
    try:
        for _ in range(5):
            with pytest.raises(EngineLockedError, match="this process") as caught:
                RocksDBEngine().open(tmp_path, "s")
            assert caught.value.pid == os.getpid()
            assert len(locks._kept) <= 1
        other = python(
            "try:\n"
            "    RocksDBEngine().open(root, 's')\n"
            "except Exception as error:\n"
            "    print(error.pid)",
            tmp_path,
        )
        assert output_of(other).strip() == str(os.getpid())
    finally:
        foreign.close()
    assert reopened(tmp_path) == []
    if kernel_tells == "of files":
        assert not locks._kept


def test_a_lock_file_that_cannot_be_read_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = Rdict(str(tmp_path), Options(raw_mode=True))

    def forbidden(*_: object) -> int:
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", forbidden)
        held = locks._holder(tmp_path / "LOCK")
    assert held == (True, os.getpid()) or not sys.platform.startswith("linux")
    foreign.close()


def test_a_database_that_was_never_closed_warns_and_closes(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    database = RocksDBEngine().open(tmp_path, "s")
    put(database, {b"a": b"1"})
    namespace = database.namespace("default")
    scan = namespace.scan()
    holder = [database]
    del database
    with pytest.warns(ResourceWarning, match="never closed"):
        holder.clear()
    with pytest.raises(EngineError):
        namespace.get(b"a")
    with pytest.raises(EngineError):
        next(scan)
    assert reopened(tmp_path) == [(b"a", b"1")]


def test_databases_are_closed_when_the_process_ends(tmp_path: Path) -> None:
    process = python(
        "database = RocksDBEngine().open(root, 's', durability='changelog')\n"
        "database.write({'default': Rows([b'a'], [b'1'])})\n"
        "reader = RocksDBEngine().open(root, 's', read_only=True)\n"
        "print(reader._scratch)\n",
        tmp_path,
    )
    assert not Path(output_of(process).strip()).exists()
    assert reopened(tmp_path) == [(b"a", b"1")]
