"""Forks a process that has a database open, and runs checks in the child."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from kstore_core.errors import ForkedHandleError
from kstore_rocksdb import RocksDBEngine
from tests.plugins.rocksdb.support import every_use, numbered, put, reopened, scanned

_TIMEOUT_S = 20


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
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0, f"the child ended with {status}"
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hung")


def check_every_use_in_a_child(root: Path, fork: Callable[[], int]) -> None:
    """Each use of a database says in a child that it is one, and the parent goes on."""
    database = RocksDBEngine().open(root, "s")
    database.namespace("offsets")
    put(database, numbered(5000))
    uses = every_use(database, root)
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
    assert len(reopened(root)) == 5001
