"""The databases that are open in this process: closed when it ends, let go of after a fork.

RocksDB does not survive a fork: a child has the handles but none of the background threads, so
flushing and closing hang for ever and writes are lost without a word. After a fork the child
therefore frees no native object, not even when Python collects the object's owner.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from contextlib import ExitStack
from typing import Protocol
from weakref import WeakSet

from kstore_core.errors import ForkedHandleError
from kstore_rocksdb import locks

__all__ = ["add", "begin", "leak", "notice_fork"]


class Living(Protocol):
    """What is told about the end of the process and about a fork."""

    def close(self) -> None:
        """Called when the process ends."""

    def abandon(self) -> None:
        """Called in a child process: end without touching anything native."""


_living: WeakSet[Living] = WeakSet()
_home = os.getpid()
_used = False
_inherited = False

_increment = ctypes.pythonapi.Py_IncRef
_increment.argtypes = [ctypes.py_object]
_increment.restype = None


def leak(native: object) -> None:
    """Keep ``native`` from ever being freed."""
    _increment(native)


def begin() -> None:
    """To be called before a native database is opened.

    Raises
    ------
    ForkedHandleError
        A process that this one was forked from has opened one: RocksDB's threads are missing.
    """
    global _used
    notice_fork()
    if _inherited:
        raise ForkedHandleError(
            f"process {os.getpid()} was forked from one that had opened RocksDB, and RocksDB would "
            "hang here. Start processes with 'spawn' or 'forkserver' "
            "(multiprocessing.set_start_method), or fork before the first store is opened"
        )
    _used = True


def add(database: Living) -> None:
    """Remember an open database; forgotten when it is freed."""
    _living.add(database)


def notice_fork() -> None:
    """Find out about a fork that Python was not told of; it takes a system call."""
    if os.getpid() != _home:
        _after_fork()


def _after_fork() -> None:
    global _home, _inherited
    _home = os.getpid()
    _inherited = _inherited or _used
    if _inherited:
        _leave_without_destructors()
    locks.forget()
    for database in list(_living):
        database.abandon()
    _living.clear()


def _leave_without_destructors() -> None:
    """Have ``exit`` call ``_exit`` first: RocksDB's destructors join threads that are not here.

    Needed even where all databases were closed before the fork: the child would end by SIGSEGV.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "on_exit"):  # glibc
        library.on_exit(library._exit, None)


def _close_all() -> None:
    notice_fork()
    with ExitStack() as stack:  # one that fails does not keep the others from closing
        for database in list(_living):
            stack.callback(database.close)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_all)
