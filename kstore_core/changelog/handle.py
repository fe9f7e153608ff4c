"""The base of all changelogs: the records that wait for a commit, in their order."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from typing import TYPE_CHECKING

from kstore_core.codec import RecordColumns
from kstore_core.errors import (
    ForkedHandleError,
    InconsistentStateError,
    StoreClosedError,
    UnsupportedError,
)
from kstore_core.system.handle import Handle
from kstore_core.system.interrupts import uninterrupted

if TYPE_CHECKING:
    from kstore_core.codec.headers.headers import _HeadersLike

__all__ = ["LogHandle"]


class LogHandle(Handle):
    """An open log: the base of `FileChangelog` and `KafkaChangelog`.

    Parameters
    ----------
    name : str
        The name of the log in messages.
    read_only : bool
        Send nothing.
    linger_bytes : int
        The limit for keys, values and headers that wait for a commit; more are sent earlier.
    """

    _instead = "the arguments that it was opened with"

    def __init__(self, name: str, *, read_only: bool, linger_bytes: int) -> None:
        self._name = name
        self.read_only = read_only
        self._linger_bytes = linger_bytes
        self._guard = threading.Lock()
        self._pending = RecordColumns()

    def __repr__(self) -> str:
        state = "open" if self._open else "closed"
        return f"<{type(self).__name__} {self._name!r}, {state}>"

    @property
    def pending_bytes(self) -> int:
        """The size of the keys, values and headers that wait for a commit."""
        return self._pending.payload_bytes

    def append(
        self, key: bytes, value: bytes | None, timestamp: int, headers: _HeadersLike = None
    ) -> None:
        """Add a record; it is sent with the next commit, or when more than `linger_bytes` wait.

        Parameters
        ----------
        key : bytes
        value : bytes or None
            None is a tombstone.
        timestamp : int
            Milliseconds since the epoch; -1 when unknown.
        headers : Headers, iterable of (str, bytes-like or None), or None, optional

        Raises
        ------
        TypeError, FormatError
            As `encode_headers` raises them; TypeError also if `key` is None.
        StorageFullError, UnsupportedError, EngineError
            See `commit`. Nothing is lost: the records still wait.
        """
        self._check_writer()
        if key is None:
            raise TypeError("the key of a changelog record must be bytes, not None")
        with self._guard, uninterrupted():
            self._pending.append(self._next_offset(), timestamp, key, value, headers)
            if self._pending.payload_bytes > self._linger_bytes:
                self._send_pending()

    def extend(self, records: RecordColumns) -> None:
        """Add many records; their offsets are replaced by the log's. See `append`."""
        self._check_writer()
        if records.null_keys:
            raise TypeError(
                f"{records.null_keys} records have no key; each record of a changelog needs one"
            )
        with self._guard, uninterrupted():
            self._pending.extend(records, self._next_offset())
            if self._pending.payload_bytes > self._linger_bytes:
                self._send_pending()

    def discard(self) -> None:
        """Discard the records that wait."""
        self._check_writer()
        with self._guard:
            self._pending = RecordColumns()

    def _next_offset(self) -> int:
        """Return the offset for the next record that is added."""
        return self._pending.next_offset

    @abstractmethod
    def _send_pending(self) -> object:
        """Send the records that wait, and empty their queue."""

    def _check_reaches(self, offset: int, end: int) -> None:
        """Refuse to read from an offset after the log's end."""
        if offset > end:
            raise InconsistentStateError(
                f"{self._name} ends at offset {end}, but is to be read from {offset}: it is the "
                "log of another store, or has lost its end. Restore the store anew, from a log "
                "that has all of its records"
            )

    def _check(self) -> None:
        if not self._open:
            raise StoreClosedError(f"the changelog {self._name} has been closed")

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedHandleError(
                f"{self._name} was opened by process {self._pid} and is used in {os.getpid()}, a "
                "fork of it; open the changelog in the process that uses it"
            )

    def _check_writer(self) -> None:
        self._check()
        if self.read_only:
            raise UnsupportedError(f"{self._name} was opened with read_only=True")
        self._check_process()
