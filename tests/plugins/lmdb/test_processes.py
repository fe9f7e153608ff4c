"""Other processes: one writer, any number of readers, and those that die at the worst moment."""

from __future__ import annotations

import errno
import gc
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from kstore_core.errors import (
    EngineError,
    EngineLockedError,
    ForkedHandleError,
    StorageFullError,
    StoreClosedError,
)
from kstore_core.testing.processes import in_fork
from kstore_lmdb import LMDBEngine
from kstore_lmdb.database import LMDBDatabase
from kstore_lmdb.environment import Environment
from kstore_lmdb.errors import translate
from tests.plugins.lmdb.conftest import OpenDatabase
from tests.plugins.lmdb.support import numbered, put, python, rows_of, scanned
from tests.plugins.support import output_of
from tests.plugins.tiny_disk import tiny_disk

__all__ = ["tiny_disk"]

HOLD = """
database = LMDBEngine().open(root, 's', read_only=sys.argv[2] == 'reader')
scan = database.namespace('default').scan()
next(scan, None)
print('open', flush=True)
time.sleep(100)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes."""
    with held(tmp_path, "writer") as process:
        yield process
        process.kill()


def held(root: Path, role: str) -> subprocess.Popen[str]:
    process = python(HOLD, root, role)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def test_a_second_writer_is_told_who_writes(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    with pytest.raises(EngineLockedError, match=f"process {holder.pid}.*read_only=True") as caught:
        LMDBEngine().open(tmp_path, "s")
    assert caught.value.pid == holder.pid
    assert rows_of(tmp_path) == []
    holder.kill()
    holder.wait()
    LMDBEngine().open(tmp_path, "s").close()


def test_a_second_writer_in_this_process(open_database: OpenDatabase, tmp_path: Path) -> None:
    first = open_database()
    with pytest.raises(EngineLockedError, match="this process") as caught:
        LMDBEngine().open(tmp_path, "s")
    assert caught.value.pid == os.getpid()
    put(first, {b"a": b"1"})
    first.close()
    open_database().close()


def test_the_pages_of_a_dead_reader_are_used_again(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    database = open_database()
    put(database, numbered(2000, 200))
    dead = held(tmp_path, "reader")
    dead.kill()
    dead.communicate()
    database.close()
    database = open_database()
    assert database._environment.native.reader_check() == 0
    sizes = []
    for _ in range(12):
        put(database, numbered(2000, 200))
        sizes.append((database.path / "data.mdb").stat().st_size)
    assert sizes[-1] == sizes[5]


WRITER = """
database = LMDBEngine().open(root, 's', durability=sys.argv[2])
offsets = database.namespace('offsets')
first = int(offsets.get(b'n') or -1) + 1
for n in range(first, 10**9):
    database.write({
        'default': Rows([b'%09d' % n], [b'x' * 200]),
        'offsets': Rows([b'n'], [b'%d' % n]),
    })
    print(n, flush=True)
"""


@pytest.mark.parametrize("level", ["process", "power", "changelog"])
def test_what_a_write_returned_from_survives_a_kill(
    open_database: OpenDatabase, tmp_path: Path, level: str
) -> None:
    for rounds in (1, 100, 50):
        with python(WRITER, tmp_path, level) as process:
            assert process.stdout is not None
            reported = [process.stdout.readline() for _ in range(rounds)]
            process.send_signal(signal.SIGKILL)
            reported += process.stdout.read().split("\n")[:-1]
        database = open_database(durability=level)
        keys = [key for key, _ in scanned(database.namespace("default"))]
        offset = int(database.namespace("offsets").get(b"n") or -1)
        assert keys == [b"%09d" % i for i in range(len(keys))]
        assert offset == len(keys) - 1 >= int(reported[-1])
        database.close()


def test_readers_beside_a_busy_writer_see_one_moment(tmp_path: Path) -> None:
    with python(WRITER.replace("print", "n or print"), tmp_path, "process") as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "0\n"
        seen: list[int] = []
        until = time.monotonic() + 60
        while len(seen) < 40 or len(set(seen)) < 5:
            assert time.monotonic() < until, "the writer writes nothing"
            reader = LMDBEngine().open(tmp_path, "s", read_only=True)
            number = int(reader.namespace("offsets").get(b"n") or -1)
            keys = [int(key) for key, _ in scanned(reader.namespace("default"))]
            assert keys == list(range(number + 1))
            reader.close()
            seen.append(number)
        writer.kill()
    assert seen == sorted(seen)


def test_a_killed_creation_leaves_nothing_in_the_way(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    code = (
        "from kstore_lmdb import files\n"
        "def killed(*_): os.kill(os.getpid(), 9)\n"
        "files.sync_directory = killed\n"
        "LMDBEngine().open(root, 's')\n"
    )
    process = python(code, tmp_path)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert LMDBEngine().stores(tmp_path) == []
    assert len(list((tmp_path / "lmdb").iterdir())) == 1
    open_database().close()
    assert [entry.name for entry in (tmp_path / "lmdb").iterdir()] == ["s"]


# Forks.


def test_every_use_in_a_child_says_so(open_database: OpenDatabase, tmp_path: Path) -> None:
    database = open_database()
    put(database, numbered(1000))
    space, snapshot = database.namespace("default"), database.snapshot()
    get, scan = space.fast_get, space.scan()
    next(scan)
    then = snapshot.namespace("default")

    def child() -> None:
        for use in (
            lambda: get(b"00000000"),
            lambda: space.get(b"00000000"),
            lambda: space.get_many([b"00000000"]),
            lambda: next(scan),
            lambda: then.get(b"00000000"),
            database.namespaces,
            lambda: put(database, {b"a": b"1"}),
            database.sync,
            lambda: database.checkpoint(tmp_path / "c"),
            database.snapshot,
        ):
            with pytest.raises(ForkedHandleError, match="spawn"):
                use()
        database.close()
        gc.collect()

    in_fork(child)
    # The child's end has not freed the places of this process in the lock file.
    put(database, numbered(1000, 30))
    put(database, numbered(1000, 40))
    assert len(then.get(b"00000000") or b"") == 20
    assert sum(len(keys) for keys, _ in scan) == 1000 - 4
    assert len(scanned(then)) == 1000


def test_a_child_opens_another_store_and_is_told_of_the_same(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    database = open_database()
    put(database, {b"a": b"1"})

    def child() -> None:
        other = LMDBEngine().open(tmp_path, "other")
        put(other, {b"b": b"2"})
        assert scanned(other.namespace("default")) == [(b"b", b"2")]
        other.close()
        with pytest.raises(EngineLockedError):
            LMDBEngine().open(tmp_path, "s")
        with pytest.raises(ForkedHandleError, match="spawn"):
            LMDBEngine().open(tmp_path, "s", read_only=True)

    in_fork(child)
    assert rows_of(tmp_path, "other") == [(b"b", b"2")]
    put(database, {b"a": b"3"})


def test_a_child_that_ends_in_an_ordinary_way(tmp_path: Path) -> None:
    process = python(
        "database = LMDBEngine().open(root, 's')\n"
        "database.write({'default': Rows([b'a'], [b'1'])})\n"
        "scan, snapshot = database.namespace('default').scan(), database.snapshot()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    sys.exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), list(scan))\n",
        tmp_path,
    )
    assert output_of(process) == "7 [([b'a'], [b'1'])]\n"


# Where nothing can be written.


def test_a_file_system_that_is_read_only(tiny_disk: Path) -> None:
    rows = numbered(1000)
    database = LMDBEngine().open(tiny_disk, "s")
    put(database, rows)
    database.close()
    if subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=False).returncode:
        pytest.skip("cannot remount")
    for store in ("s", "other"):
        with pytest.raises(EngineError):
            LMDBEngine().open(tiny_disk, store)
    readers = [LMDBEngine().open(tiny_disk, "s", read_only=True) for _ in range(2)]
    for reader in readers:
        assert scanned(reader.namespace("default")) == list(rows.items())
        reader.close()


def test_a_reader_that_cannot_register_keeps_writers_out(
    closed: LMDBDatabase, open_database: OpenDatabase, tmp_path: Path
) -> None:
    """As on a copy that has no lock file, which reading does not make."""
    (closed.path / "lock.mdb").unlink()
    reader = open_database(read_only=True)
    with pytest.raises(EngineLockedError, match="cannot register itself") as caught:
        open_database()
    assert caught.value.pid == os.getpid()
    assert scanned(reader.namespace("default")) == [(b"a", b"1")]
    assert [entry.name for entry in closed.path.iterdir()] == ["data.mdb"]
    reader.close()
    open_database().close()
    (closed.path / "lock.mdb").unlink()
    with held(tmp_path, "writer") as writer:
        (closed.path / "lock.mdb").unlink()
        with pytest.raises(EngineLockedError, match=r"may not write lock\.mdb") as caught:
            open_database(read_only=True)
        assert caught.value.pid == writer.pid
        writer.kill()


def test_modes_follow_the_mask(database: LMDBDatabase) -> None:
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(database.path.stat().st_mode) == 0o777 & ~mask
    assert stat.S_IMODE((database.path / "data.mdb").stat().st_mode) == 0o644 & ~mask


# Full disks.


@pytest.mark.parametrize("level", ["process", "power"])
def test_a_full_disk_loses_nothing_that_was_committed(tiny_disk: Path, level: str) -> None:
    engine = LMDBEngine()
    database = engine.open(tiny_disk, "s", durability=level)  # type: ignore[arg-type]
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    written: list[int] = []

    def fill() -> None:
        for number in range(100_000):
            put(database, {b"%09d" % number: os.urandom(50_000), b"n": b"%d" % number})
            written.append(number)

    with pytest.raises(StorageFullError, match="make room and commit again") as caught:
        fill()
    assert isinstance(caught.value.__cause__, lmdb.Error)
    space = database.namespace("default")
    committed = len(written)
    assert committed > 50
    assert space.get(b"n") == b"%d" % (committed - 1)
    with pytest.raises(StorageFullError):
        database.checkpoint(tiny_disk / "lmdb" / "copy")
    assert [entry.name for entry in (tiny_disk / "lmdb").iterdir()] == ["s"]
    ballast.unlink()
    put(database, {b"%09d" % committed: b"more", b"n": b"%d" % committed})
    database.close()
    database = engine.open(tiny_disk, "s")
    keys = [key for key, _ in scanned(database.namespace("default"))]
    assert keys == [*(b"%09d" % i for i in range(committed + 1)), b"n"]
    database.close()


def test_a_full_disk_leaves_no_half_of_a_store(tiny_disk: Path) -> None:
    (tiny_disk / "ballast").write_bytes(bytes(24 * 1024 * 1024 - 20_000))
    with pytest.raises(StorageFullError):
        LMDBEngine().open(tiny_disk, "s")
    assert [entry.name for entry in tiny_disk.iterdir()] == ["ballast"]


LIMITED = """
import resource
from kstore_core.errors import StorageFullError
database = LMDBEngine().open(root, 's')
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 22, 1 << 22))
written = 0
try:
    while True:
        database.write({'default': Rows([b'%09d' % written], [os.urandom(30_000)])})
        written += 1
except StorageFullError:
    rows = sum(len(keys) for keys, _ in database.namespace('default').scan())
    print(rows == written > 50)
database.close()
"""


def test_a_file_that_may_not_be_larger(tmp_path: Path) -> None:
    output, _ = python(LIMITED, tmp_path).communicate(timeout=60)
    assert output == "True\n"


@pytest.mark.parametrize("code", [errno.EFBIG, errno.EDQUOT, errno.ENOSPC])
def test_what_means_that_there_is_no_room(code: int, tmp_path: Path) -> None:
    for error in (
        lmdb.Error(f"mdb_txn_commit: {os.strerror(code)}"),
        OSError(code, os.strerror(code)),
    ):
        assert isinstance(translate(error, "write a batch", tmp_path), StorageFullError)


def test_a_short_write_means_it_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = lmdb.Error(f"mdb_txn_commit: {os.strerror(errno.EIO)}")
    assert type(translate(error, "write a batch", tmp_path)) is EngineError
    monkeypatch.setattr("kstore_lmdb.errors._cannot_grow", lambda _: True)
    assert isinstance(translate(error, "write a batch", tmp_path), StorageFullError)


# Handles of one process share an environment.


@pytest.mark.usefixtures("closed")
def test_a_writer_after_a_reader(open_database: OpenDatabase) -> None:
    readers = [open_database(read_only=True)]
    scan = readers[0].namespace("default").scan()
    writer = open_database(durability="power")
    assert writer._environment.native.flags()["sync"]
    put(writer, {b"a": b"2"})
    readers.append(open_database(read_only=True))
    writer.close()
    writer = open_database(durability="process")
    assert not writer._environment.native.flags()["sync"]
    put(writer, {b"a": b"3"})
    assert list(scan) == [([b"a"], [b"1"])]
    assert [reader.namespace("default").get(b"a") for reader in readers] == [b"1", b"2"]
    readers[0].close()
    with pytest.raises(StoreClosedError):
        readers[0].namespace("default")
    assert scanned(readers[1].namespace("default")) == [(b"a", b"2")]
    assert writer.namespace("default").get(b"a") == b"3"


@pytest.mark.usefixtures("closed")
def test_a_reader_stays_where_another_process_went_on(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    reader = open_database(read_only=True)
    code = (
        "database = LMDBEngine().open(root, 's')\n"
        "database.namespace('new')\n"
        "for _ in range(20):\n"
        "    database.write({'default': Rows([b'a'], [b'2' * 9000])})\n"
        "database.close()\n"
    )
    output_of(python(code, tmp_path))
    later = open_database(read_only=True)
    assert sorted(later.namespaces()) == ["default", "new"]
    writer = open_database()
    put(writer, {b"a": b"3"})
    assert reader.namespaces() == ["default"]
    assert scanned(reader.namespace("default")) == [(b"a", b"1")]
    assert scanned(later.namespace("default")) == [(b"a", b"2" * 9000)]
    assert scanned(writer.namespace("default")) == [(b"a", b"3")]


@pytest.mark.usefixtures("closed")
def test_a_writer_that_cannot_open_leaves_readers_as_they_are(
    open_database: OpenDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = open_database(read_only=True)
    scan = reader.namespace("default").scan()
    really = Environment._open

    def refuse_to_write(self: Environment) -> lmdb.Environment:
        if self._mode.writable:
            raise lmdb.Error("no")
        return really(self)

    monkeypatch.setattr(Environment, "_open", refuse_to_write)
    with pytest.raises(EngineError, match="cannot open it: no"):
        open_database()
    monkeypatch.undo()
    assert list(scan) == [([b"a"], [b"1"])]
    assert reader.namespace("default").get(b"a") == b"1"
    put(open_database(), {b"a": b"2"})
    assert reader.namespace("default").get(b"a") == b"1"


def test_a_writers_options_hold_beside_an_earlier_reader(tmp_path: Path) -> None:
    LMDBEngine().open(tmp_path, "s").close()
    reader = LMDBEngine({"max_namespaces": 4}).open(tmp_path, "s", read_only=True)
    writer = LMDBEngine({"max_namespaces": 64}).open(tmp_path, "s")
    for number in range(20):
        writer.namespace(f"n{number}")
    writer.close()
    reader.close()
