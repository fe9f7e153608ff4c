"""Read transactions of an LMDB environment, which any thread may use for lookups and scans.

LMDB cannot reuse the pages that an open read transaction may read. So a transaction must end when
it is no longer used. A transaction ends when its last reference is removed. A database can also end
a transaction, but waits until no thread uses the transaction.
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
"""The named database for rows with the empty key, which LMDB does not allow.

The database has one row for each namespace with an empty key. The key of this row is the name of
the namespace.
"""

_NO_KEY = b"\0"


class OpenScan(Protocol):
    """A scan that ends when its transaction ends."""

    def end(self, reason: Reason) -> None:
        """End the scan, so that later uses raise the error that ``reason`` returns.

        The caller must hold the lock of the transaction.
        """


class ReadTransaction:
    """A read transaction that continues when LMDB ends the native transaction.

    LMDB ends all transactions when the map grows or the environment is reopened. A read transaction
    that shows the last commit then begins again, before a write can change the data. A read
    transaction that shows an older commit continues in a temporary copy of its data.

    Attributes
    ----------
    lock : RLock
        The lock that a thread must hold while it uses a cursor or restarts the transaction.
    generation : int
        A number that grows at each restart. Cursors from before a restart cannot be used.
    native : lmdb.Transaction[bytes] or None
        The transaction of LMDB; None after the end.
    handles : dict
        The handles of the named databases that the transaction can read, by name.
    scans : dict
        Weak references to the unfinished scans, by the ``id`` of the scan.
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
        """Begin a transaction of LMDB that shows the last commit in ``native``."""
        reading = native.begin()
        for handle in handles.values():
            # This lookup loads the root page of the database. Later lookups of several threads then
            # only read the transaction, and never change it.
            reading.get(_NO_KEY, None, handle)
        self.handles = dict(handles)
        self.native: lmdb.Transaction[bytes] | None = reading
        self.generation += 1

    def read(self) -> lmdb.Transaction[bytes]:
        """Return the transaction of LMDB. Raise an error if this read transaction has ended."""
        if self.native is None:
            assert self.ended is not None
            raise self.ended()
        return self.native

    def empty_row(self, name: str) -> bytes | None:
        """Return the value of the empty key in the namespace ``name``, or None.

        The caller must hold the lock.
        """
        handle = self.handles.get(EMPTY)
        return None if handle is None else self.read().get(name.encode(), None, handle)

    def copy_aside(self, native: lmdb.Environment) -> None:
        """Copy the data of this transaction to a temporary directory, and continue in the copy."""
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
        """End the transaction and its scans. Later uses raise the error that ``reason`` returns."""
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
        """End the transaction in a forked process, without an effect on the parent process."""
        self.lock = RLock()  # the parent process may hold the old lock
        if self._discard is not None:
            self._discard.detach()
            self._discard = None
        self.end(reason)


def _discard(copy: lmdb.Environment, scratch: Scratch) -> None:
    copy.close()
    scratch.remove()
