"""Engines that keep their promises, but for those about being interrupted."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from kstore_core.engine import Database
from kstore_core.errors import EngineError, EngineLockedError
from kstore_core.system.interrupts import interruptible
from kstore_core.testing import WrappedDatabase, WrappedEngine
from kstore_memory import MemoryEngine

WIDE_S = 0.002
"""How long a bug lies open."""


class Interrupted(WrappedEngine):
    """The memory engine, wrapped, without a bug.

    Attributes
    ----------
    chosen : str
        The combination that comes upon the bug.
    operation : str
        The call that does.
    """

    chosen: ClassVar[str] = "headers-process-bare-staged"
    operation: ClassVar[str] = "commit"

    def __init__(self, options: Any = None) -> None:
        super().__init__(MemoryEngine(options))
        self.held: set[str] = set()
        self.made: set[str] = set()


def wait():
    """Wait for something, as an engine may, where an interrupt may come."""
    with interruptible():
        time.sleep(WIDE_S)


class _Busy(WrappedDatabase):
    is_busy = False

    def write(self, batch):
        if self.is_busy:
            raise EngineError("another write is under way")
        self.is_busy = True
        wait()
        self.inner.write(batch)
        self.is_busy = False


class StaysBusy(Interrupted):
    """A write notes that it is under way, and takes it back only where it comes to its end."""

    database_type: ClassVar[type[WrappedDatabase]] = _Busy


class _Once(WrappedDatabase):
    is_closed = False

    def close(self):
        if not self.is_closed:
            self.is_closed = True
            wait()
            self.inner.close()


class ClosesOnce(Interrupted):
    """A close that was interrupted is taken for one that was made."""

    operation: ClassVar[str] = "close"
    database_type: ClassVar[type[WrappedDatabase]] = _Once


class KeepsLocks(Interrupted):
    """An open takes a lock, and gives it back only by the handle that it comes to."""

    operation: ClassVar[str] = "open"

    def open(self, root, store, *, durability="process", read_only=False) -> Database:
        if store in self.held:
            raise EngineLockedError(f"{store} is open", pid=None)
        self.held.add(store)
        wait()
        database = super().open(root, store, durability=durability, read_only=read_only)
        database.close, close = lambda: (close(), self.held.discard(store)), database.close  # type: ignore[method-assign]
        return database


class HalfMade(Interrupted):
    """A namespace is made before it is known, and then cannot be made."""

    operation: ClassVar[str] = "make"

    def open(self, root, store, *, durability="process", read_only=False) -> Database:
        database = super().open(root, store, durability=durability, read_only=read_only)
        namespace = database.namespace

        def half_made(name):
            if name not in self.held:
                if name in self.made:
                    raise EngineError(f"cannot create namespace {name!r}: it exists")
                self.made.add(name)
                wait()
                self.held.add(name)
            return namespace(name)

        database.namespace = half_made  # type: ignore[method-assign]
        return database


PLANTED = [StaysBusy, ClosesOnce, KeepsLocks, HalfMade]
