"""Read transactions of an environment, for lookups and scans of any thread.

LMDB cannot reuse the pages of an open transaction, so a transaction without users ends at once. It
never ends while another thread may use it: its last reference ends it, or the environment, which
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
"""The database of the rows with an empty key, by namespace: LMDB does not allow empty keys."""

_NO_KEY = b"\0"


class OpenScan(Protocol):
    """A scan that ends with its transaction."""

    def end(self, reason: Reason) -> None:
        """Raise ``reason`` from now on. The caller holds the lock."""


class ReadTransaction:
    """A read transaction that survives the end of LMDB's own, for example when the map grows.

    The newest one begins again before anything else is written. An older one moves to a copy of its
    data.

    Attributes
    ----------
    lock : RLock
        Held while a cursor is used, and while the transaction moves.
    generation : int
        The number of moves; cursors of earlier generations cannot be used.
    native : lmdb.Transaction[bytes]
    handles : dict
        The handles of its databases, by name.
    scans : dict
        The unfinished scans, by identity.
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
        """Begin with the last commit."""
        reading = native.begin()
        for handle in handles.values():
            # Loads the database's root: threads must only read the transaction later.
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
        """Return the value of the empty key in a namespace; the caller holds the lock."""
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
        """In a forked child: end without changing anything of the parent's."""
        self.lock = RLock()  # its holder is not in this process
        if self._discard is not None:
            self._discard.detach()
            self._discard = None
        self.end(reason)


def _discard(copy: lmdb.Environment, scratch: Scratch) -> None:
    copy.close()
    scratch.remove()
