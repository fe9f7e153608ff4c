"""A fork: the child is told, hangs nowhere, frees nothing, and the parent goes on."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import ForkedHandleError
from kstore_rocksdb import RocksDBEngine
from kstore_rocksdb.database import RocksDBDatabase
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.forking import check_every_use_in_a_child, in_child
from tests.plugins.rocksdb.support import numbered, put, python, reopened, scanned
from tests.plugins.support import output_of

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def test_every_use_in_a_child_says_so(tmp_path: Path) -> None:
    check_every_use_in_a_child(tmp_path, os.fork)


def test_every_use_in_a_child_of_an_unseen_fork_says_so(tmp_path: Path) -> None:
    """In a process with one thread of Python.

    Such a fork leaves the interpreter's lock as it was: where another thread was about to take it,
    the child waits for that thread, which it does not have.
    """
    process = python(
        "from tests.plugins.rocksdb.forking import check_every_use_in_a_child, unseen_fork\n"
        "check_every_use_in_a_child(root, unseen_fork)\n",
        tmp_path,
    )
    assert output_of(process) == ""


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
