"""The databases that are open in this process: closed when it ends, let go of after a fork.

An environment belongs to the process that opened it: a child that ended it, or one of its
transactions, would free the place of its parent's readers in the lock file that both have mapped.
So after a fork nothing native is ended in the child, not even when Python collects its owner.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol
from weakref import WeakSet

__all__ = ["add", "forget_with", "leak", "notice_fork"]


class Living(Protocol):
    """What is told about the end of the process and about a fork."""

    def close(self) -> None:
        """Called when the process ends."""

    def abandon(self) -> None:
        """Called in a child process: end without touching anything native."""


_living: WeakSet[Living] = WeakSet()
_forget: list[Callable[[], None]] = []
_home = os.getpid()

_increment = ctypes.pythonapi.Py_IncRef
_increment.argtypes = [ctypes.py_object]
_increment.restype = None


def leak(native: object) -> None:
    """Keep ``native`` from ever being freed."""
    _increment(native)


def add(database: Living) -> None:
    """Remember an open database; forgotten when it is freed."""
    _living.add(database)


def forget_with(forget: Callable[[], None]) -> Callable[[], None]:
    """Have a forked child call ``forget`` before its databases are abandoned."""
    _forget.append(forget)
    return forget


def notice_fork() -> None:
    """Find out about a fork that Python was not told of; it takes a system call."""
    if os.getpid() != _home:
        _after_fork()


def _after_fork() -> None:
    global _home
    _home = os.getpid()
    for forget in _forget:
        forget()
    for database in list(_living):
        database.abandon()
    _living.clear()


def _close_all() -> None:
    notice_fork()
    with ExitStack() as stack:  # one that fails does not keep the others from closing
        for database in list(_living):
            stack.callback(database.close)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_all)
