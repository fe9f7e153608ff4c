"""A fork: the child is told, hangs nowhere, frees nothing, and the parent goes on."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import ForkedHandleError
from kstore_rocksdb import RocksDBEngine
from kstore_rocksdb.database import RocksDBDatabase
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import every_use, numbered, put, python, reopened, scanned
from tests.plugins.support import output_of

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

TIMEOUT_S = 20


def unseen_fork() -> int:
    """A fork from C, of which Python's hooks hear nothing."""
    return int(ctypes.PyDLL(None).fork())


def in_child(work: Callable[[], None], fork: Callable[[], int] = os.fork) -> None:
    """Run ``work`` in a forked child; fails where it fails or hangs."""
    child = fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0, f"the child ended with {status}"
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hung")


@pytest.mark.parametrize("fork", [os.fork, unseen_fork])
def test_every_use_in_a_child_says_so(
    open_database: OpenDatabase, tmp_path: Path, fork: Callable[[], int]
) -> None:
    database = open_database()
    database.namespace("offsets")
    rows = numbered(5000)
    put(database, rows)
    uses = every_use(database, tmp_path)
    scan = database.namespace("default").scan()
    next(scan)

    def child() -> None:
        with pytest.raises(ForkedHandleError):
            database.namespaces()
        for use in uses:
            for _ in range(2):
                with pytest.raises(ForkedHandleError, match="spawn"):
                    use()
        database.close()
        database.close()

    in_child(child, fork)
    assert len(scanned(database.namespace("default"))) == 5000
    assert next(scan)
    put(database, {b"z": b"later"})
    uses.clear()
    database.close()
    assert len(reopened(tmp_path)) == 5001


def test_a_child_frees_nothing(open_database: OpenDatabase, tmp_path: Path) -> None:
    database = open_database()
    put(database, numbered(5000))
    holder: list[object] = [
        database,
        database.namespace("default").scan(),
        database.snapshot(),
        database.snapshot().namespace("default").scan(),
    ]
    kept_alive = list(holder)

    def child() -> None:
        nonlocal database
        del database
        holder.clear()
        kept_alive.clear()
        gc.collect()

    in_child(child)
    assert isinstance(kept_alive[0], RocksDBDatabase)
    assert len(scanned(kept_alive[0].namespace("default"))) == 5000


def test_a_child_that_ends_in_an_ordinary_way(tmp_path: Path) -> None:
    """Python tears its modules down there, and with them what they refer to."""
    process = python(
        "import os\n"
        "database = RocksDBEngine().open(root, 's')\n"
        "database.write({'default': Rows([b'a'], [b'1'])})\n"
        "reader = RocksDBEngine().open(root, 's', read_only=True)\n"
        "scan, snapshot = database.namespace('default').scan(), database.snapshot()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    sys.exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), reader._scratch.is_dir())\n"
        "print(list(scan), list(reader.namespace('default').scan()))\n",
        tmp_path,
    )
    rows = [([b"a"], [b"1"])]
    assert output_of(process) == f"7 True\n{rows} {rows}\n"
    assert reopened(tmp_path) == [(b"a", b"1")]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_child_opens_nothing_where_its_parent_did(
    open_database: OpenDatabase, tmp_path: Path, read_only: bool
) -> None:
    open_database().close()

    def child() -> None:
        with pytest.raises(
            ForkedHandleError,
            match="forked from a process that had opened RocksDB",
        ):
            RocksDBEngine().open(tmp_path, "s", read_only=read_only)
        with pytest.raises(ForkedHandleError):
            RocksDBEngine().open(tmp_path, "other", read_only=read_only)
        assert not (tmp_path / "rocksdb" / "other").exists()

    in_child(child)


def test_a_child_of_a_process_that_opened_nothing_is_free(tmp_path: Path) -> None:
    process = python(
        "import os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    database = RocksDBEngine().open(root, 's')\n"
        "    database.write({'default': Rows([b'a'], [b'1'])})\n"
        "    database.close()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "database = RocksDBEngine().open(root, 's')\n"
        "print(database.namespace('default').get(b'a'))\n"
        "database.close()\n",
        tmp_path,
    )
    assert output_of(process) == "b'1'\n"


def test_a_lock_that_another_thread_held_does_not_hang_the_child(
    database: RocksDBDatabase,
) -> None:
    put(database, {b"a": b"1"})
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with database._lock:
            taken.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()

    def child() -> None:
        with pytest.raises(ForkedHandleError):
            database.write({"default": Rows([b"b"], [b"2"])})
        database.close()

    try:
        in_child(child)
    finally:
        done.set()
        thread.join()
