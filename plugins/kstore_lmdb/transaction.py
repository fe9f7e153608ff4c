"""Read transactions of an environment, for lookups and scans of any thread.

LMDB keeps the pages of every open transaction, so one without users ends at once. It never ends
while another thread may be inside it: the last reference ends it, or the environment does, which
waits for those threads.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from threading import RLock
from typing import Any, Protocol

import lmdb

from kstore_core.system.scratch import Scratch
from kstore_lmdb.errors import Reason

__all__ = ["EMPTY", "ReadTransaction"]

EMPTY = ".empty"
"""The database where the rows of the empty key are, by namespace: LMDB's own keys have a byte."""

_NO_KEY = b"\0"


class OpenScan(Protocol):
    """A scan that ends with its transaction."""

    def end(self, reason: Reason) -> None:
        """Raise ``reason`` from now on. The caller holds the lock."""


class ReadTransaction:
    """A read transaction that survives what ends LMDB's own, above all the growth of the map.

    The newest one is begun again before anything else is written. An older one moves to a copy of
    its data.

    Attributes
    ----------
    lock : RLock
        Held by whoever uses a cursor, and while the transaction moves.
    generation : int
        How often it moved; cursors of earlier generations are dead.
    native : lmdb.Transaction[bytes]
    handles : dict
        The databases that existed, by name.
    scans : dict
        The scans that are not at their end, by identity.
    """

    def __init__(self, native: lmdb.Environment, handles: Mapping[str, Any]) -> None:
        self.lock = RLock()
        self.generation = 0
        self.scans: dict[int, weakref.ref[OpenScan]] = {}
        self.ended: Reason | None = None
        self.copy: lmdb.Environment | None = None
        self._discard: weakref.finalize[Any, Any] | None = None
        self.begin(native, handles)

    def begin(self, native: lmdb.Environment, handles: Mapping[str, Any]) -> None:
        """Begin with the data that is committed now."""
        reading = native.begin()
        for handle in handles.values():
            # Loads the database's root, so that threads find nothing left to write in here.
            reading.get(_NO_KEY, None, handle)
        self.handles = dict(handles)
        self.native: lmdb.Transaction[bytes] | None = reading
        self.generation += 1

    def read(self) -> lmdb.Transaction[bytes]:
        """LMDB's transaction; raises once this one has ended."""
        if self.native is None:
            assert self.ended is not None
            raise self.ended()
        return self.native

    def empty_row(self, name: str) -> bytes | None:
        """The value of the empty key in a namespace; the caller holds the lock."""
        handle = self.handles.get(EMPTY)
        return None if handle is None else self.read().get(name.encode(), None, handle)

    def copy_aside(self, native: lmdb.Environment) -> None:
        """Move to a copy of the environment as of this transaction, in a temporary directory."""
        scratch = Scratch()
        place = str(scratch.path)
        try:
            native.copy(place, compact=True, txn=self.native)
            self.copy = lmdb.Environment(
                place, readonly=True, lock=False, max_dbs=len(self.handles)
            )
            handles = {
                name: self.copy.open_db(name.encode(), create=False) for name in self.handles
            }
        except BaseException:
            scratch.remove()
            raise
        self._discard = weakref.finalize(self, _discard, self.copy, scratch)
        self.begin(self.copy, handles)

    def end(self, reason: Reason) -> None:
        """Release the pages; every later use raises ``reason``."""
        with self.lock:
            self.ended = reason
            for scan in list(self.scans.values()):
                alive = scan()
                if alive is not None:
                    alive.end(reason)
            self.native = None
            if self._discard is not None:
                self._discard()

    def abandon(self, reason: Reason) -> None:
        """After a fork: end without a trace in what belongs to the parent."""
        self.lock = RLock()  # whoever held it is not in this process
        if self._discard is not None:
            self._discard.detach()
            self._discard = None
        self.end(reason)


def _discard(copy: lmdb.Environment, scratch: Scratch) -> None:
    copy.close()
    scratch.remove()
