"""A moment of an environment: one read transaction, for lookups and scans of any thread.

LMDB keeps the pages of every moment that is open, so a moment that nobody wants is let go of at
once. It is never ended while another thread may be inside it: the last reference ends it, or the
environment does, which waits for those threads.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any

import lmdb

from kstore_core.system.scratch import Scratch
from kstore_lmdb.errors import Reason

if TYPE_CHECKING:
    from kstore_lmdb.scan import Scan

__all__ = ["EMPTY", "Moment"]

EMPTY = ".empty"
"""The database where the rows of the empty key are, by namespace: LMDB's own keys have a byte."""

_NO_KEY = b"\0"


class Moment:
    """What was committed when it was made.

    It survives what ends transactions, the growth of the map above all: the newest moment is begun
    again before anything else is written, an older one moves to a copy of itself.

    Attributes
    ----------
    lock : RLock
        Held by whoever uses a cursor, and while the moment moves.
    generation : int
        How often it moved; cursors of earlier generations are dead.
    transaction : lmdb.Transaction[bytes]
    handles : dict
        The databases that existed, by name.
    scans : dict
        The scans that are not at their end, by identity.
    """

    def __init__(self, native: lmdb.Environment, handles: Mapping[str, Any]) -> None:
        self.lock = RLock()
        self.generation = 0
        self.scans: dict[int, weakref.ref[Scan]] = {}
        self.ended: Reason | None = None
        self.copy: lmdb.Environment | None = None
        self._discard: weakref.finalize[Any, Any] | None = None
        self.begin(native, handles)

    def begin(self, native: lmdb.Environment, handles: Mapping[str, Any]) -> None:
        """Be what is committed now."""
        transaction = native.begin()
        for handle in handles.values():
            # Loads the database's root, so that threads find nothing left to write in here.
            transaction.get(_NO_KEY, None, handle)
        self.handles = dict(handles)
        self.transaction: lmdb.Transaction[bytes] | None = transaction
        self.generation += 1

    def read(self) -> lmdb.Transaction[bytes]:
        """The transaction; raises where the moment has ended."""
        if self.transaction is None:
            assert self.ended is not None
            raise self.ended()
        return self.transaction

    def empty_row(self, name: str) -> bytes | None:
        """The value of the empty key in a namespace; the caller holds the lock."""
        handle = self.handles.get(EMPTY)
        return None if handle is None else self.read().get(name.encode(), None, handle)

    def copy_aside(self, native: lmdb.Environment) -> None:
        """Move to a copy of the environment as of this moment, in a temporary directory."""
        scratch = Scratch()
        place = str(scratch.path)
        try:
            native.copy(place, compact=True, txn=self.transaction)
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
        """Let go of the pages; from now on everything raises ``reason``."""
        with self.lock:
            self.ended = reason
            for scan in list(self.scans.values()):
                alive = scan()
                if alive is not None:
                    alive.end(reason)
            self.transaction = None
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
