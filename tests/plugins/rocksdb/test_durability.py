"""What survives: SIGKILL at every level, a full disk, and in which order things are flushed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import EngineError, StorageFullError
from kstore_rocksdb import RocksDBEngine
from kstore_rocksdb.database import RocksDBDatabase
from kstore_rocksdb.options import write_options
from kstore_rocksdb.stalls import is_stall
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import numbered, put, python, reopened, scanned
from tests.plugins.support import kill_when_done
from tests.plugins.tiny_disk import tiny_disk

__all__ = ["tiny_disk"]

WRITER = """
level, size = sys.argv[2], int(sys.argv[3])
database = RocksDBEngine({'write_buffer_bytes': 1 << 20}).open(root, 's', durability=level)
data, offsets = database.namespace('default'), database.namespace('offsets')
first = int(offsets.get(b'n') or -1) + 1
for n in range(first, 10**9):
    database.write({
        'default': Rows([b'%09d' % n], [b'x' * size]),
        'offsets': Rows([b'n'], [b'%d' % n]),
    })
    print(n, flush=True)
"""


def killed_after(rounds: int, *arguments: object) -> int:
    """Kill a writer some time after it reported ``rounds`` writes; what it reported last."""
    process = python(WRITER, *arguments)
    with process:
        assert process.stdout is not None
        reported = [process.stdout.readline() for _ in range(rounds)]
        process.send_signal(signal.SIGKILL)
        reported += process.stdout.read().split("\n")[:-1]
    return int(reported[-1])


@pytest.mark.parametrize("level", ["process", "power"])
def test_what_a_write_returned_from_survives_a_kill(
    open_database: OpenDatabase, tmp_path: Path, level: str
) -> None:
    for rounds in (1, 100, 50):
        last = killed_after(rounds, tmp_path, level, 200)
        database = open_database(durability=level)
        keys = [key for key, _ in scanned(database.namespace("default"))]
        offset = int(database.namespace("offsets").get(b"n") or -1)
        assert keys == [b"%09d" % i for i in range(len(keys))]
        assert offset >= last
        assert offset == len(keys) - 1
        database.close()


def test_without_a_log_data_and_offsets_are_lost_together(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    survived = 0
    for rounds in (10, 400, 700):
        last = killed_after(rounds, tmp_path, "changelog", 20_000)
        database = open_database(durability="changelog")
        keys = [key for key, _ in scanned(database.namespace("default"))]
        offset = int(database.namespace("offsets").get(b"n") or -1)
        assert keys == [b"%09d" % i for i in range(len(keys))]
        assert offset == len(keys) - 1
        assert offset <= last + 1
        assert offset >= survived - 1
        survived = len(keys)
        database.close()
    assert survived > 0, "nothing was ever flushed"


def test_without_a_log_a_clean_close_loses_nothing(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    database = open_database(durability="changelog")
    database.namespace("offsets")
    put(database, numbered(1000))
    put(database, {b"n": b"999"}, "offsets")
    assert all(file.stat().st_size == 0 for file in database.path.glob("*.log"))
    database.close()
    database = open_database()
    assert len(scanned(database.namespace("default"))) == 1000
    assert database.namespace("offsets").get(b"n") == b"999"


def test_sync_without_a_log_flushes_every_namespace(
    open_database: OpenDatabase, tmp_path: Path
) -> None:
    process = python(
        "database = RocksDBEngine().open(root, 's', durability='changelog')\n"
        "for name in ('offsets', 'default', 'other'):\n"
        "    database.namespace(name)\n"
        "    database.write({name: Rows([b'a'], [b'1'])})\n"
        "database.sync()\n"
        "database.write({'other': Rows([b'b'], [b'lost'])})\n"
        "print('done', flush=True)\ntime.sleep(60)",
        tmp_path,
    )
    kill_when_done(process)
    database = open_database()
    for name in ("offsets", "default", "other"):
        assert scanned(database.namespace(name)) == [(b"a", b"1")]


def test_offsets_are_flushed_last(open_database: OpenDatabase) -> None:
    database = open_database()
    for name in ("a", "offsets", "z"):
        database.namespace(name)
    assert [namespace.name for namespace in database._flush_order()][-1] == "offsets"
    assert len(database._flush_order()) == 4


@pytest.mark.parametrize(
    ("level", "wal", "sync"),
    [("process", True, False), ("power", True, True), ("changelog", False, False)],
)
def test_levels_are_write_options(level: str, wal: bool, sync: bool) -> None:
    options = write_options(level)  # type: ignore[arg-type]
    assert bool(options.disable_wal) is not wal
    assert options.sync is sync
    assert options.memtable_insert_hint_per_batch is True
    assert options.no_slowdown is True


@pytest.mark.parametrize("level", ["process", "power", "changelog"])
def test_sync_at_every_level(open_database: OpenDatabase, tmp_path: Path, level: str) -> None:
    database = open_database(durability=level)
    put(database, {b"a": b"1"})
    database.sync()
    database.close()
    assert reopened(tmp_path) == [(b"a", b"1")]


def fill(database: RocksDBDatabase, committed: list[int]) -> None:
    for i in range(100_000):
        database.write({"default": Rows([b"%09d" % i], [os.urandom(10_000)])})
        committed.append(i)


@pytest.mark.parametrize("level", ["process", "power", "changelog"])
def test_a_full_disk_loses_nothing_that_was_committed(tiny_disk: Path, level: str) -> None:
    engine = RocksDBEngine({"write_buffer_bytes": 1 << 20})
    database = engine.open(tiny_disk, "s", durability=level)  # type: ignore[arg-type]
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(bytes(17 << 20))
    committed: list[int] = []
    with pytest.raises(StorageFullError, match="make room"):
        fill(database, committed)
    with suppress(EngineError):  # a full disk again, or what it left behind
        database.close()
    ballast.unlink()
    database = engine.open(tiny_disk, "s", durability=level)  # type: ignore[arg-type]
    keys = [key for key, _ in scanned(database.namespace("default"))]
    assert keys == [b"%09d" % i for i in range(len(keys))]
    if level != "changelog":
        assert len(keys) >= len(committed)
    database.write({"default": Rows([b"after"], [b"1"])})
    database.close()
    database = engine.open(tiny_disk, "s")
    assert database.namespace("default").get(b"after") == b"1"
    database.close()


def test_a_load_on_a_full_disk_changes_nothing(tiny_disk: Path) -> None:
    database = RocksDBEngine().open(tiny_disk, "s")
    put(database, {b"a": b"1"})
    keys = [b"%09d" % i for i in range(60_000)]
    with pytest.raises(StorageFullError):
        database.load("default", [(keys, [os.urandom(1000) for _ in keys])])
    assert scanned(database.namespace("default")) == [(b"a", b"1")]
    assert not list(database.path.glob(".kstore-load-*"))
    put(database, {b"b": b"2"})
    database.close()
    assert len(reopened(tiny_disk)) == 2


def test_a_checkpoint_on_a_full_disk_leaves_nothing(tiny_disk: Path, tmp_path: Path) -> None:
    database = RocksDBEngine().open(tmp_path, "s")
    put(database, numbered(30_000, 1000))
    with pytest.raises(StorageFullError):
        database.checkpoint(tiny_disk / "copy")
    assert list(tiny_disk.iterdir()) == []
    database.close()


def test_a_stalled_write_does_not_stop_the_process(open_database: OpenDatabase) -> None:
    """RocksDB would wait with Python's global lock held."""
    database = open_database(write_buffer_bytes=64 * 1024, max_write_buffers=2)
    waits = []
    usual = database._stalls.wait
    database._stalls.wait = lambda attempt: waits.append(attempt) or usual(attempt)  # type: ignore[method-assign, func-returns-value]
    value = os.urandom(1000)
    for start in range(0, 30_000, 100):
        keys = [b"%08d" % i for i in range(start, start + 100)]
        database.write({"default": Rows(keys, [value] * 100)})
    assert waits, "there was no stall"
    assert len(scanned(database.namespace("default"))) == 30_000


def test_a_write_is_given_up_when_flushing_fails(
    database: RocksDBDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"is-write-stopped": 1, "background-errors": 1}
    monkeypatch.setattr(database._stalls, "_property", properties.__getitem__)
    with pytest.raises(EngineError, match="LOG contains the reason") as caught:
        database._stalls.wait(0)
    assert not isinstance(caught.value, StorageFullError)
    monkeypatch.setattr(database._stalls, "_room_bytes", 2**62)
    with pytest.raises(StorageFullError, match="make room"):
        database._stalls.wait(0)


def test_a_stall_is_recognised_and_nothing_else() -> None:
    assert is_stall(Exception("Result incomplete: Write stall"))
    assert not is_stall(Exception("Result incomplete: of another kind"))
