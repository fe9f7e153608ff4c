"""The base class of kstore's changelogs. It queues the records of the next commit."""

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
    """The base class of the open logs `FileChangelog` and `KafkaChangelog`.

    Parameters
    ----------
    name : str
        The name of the log in error messages.
    read_only : bool
        If True, the log cannot be written to.
    linger_bytes : int
        The maximum size in bytes of the queued keys, values and headers. Above this size the log
        sends the queued records before the commit.
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
        """The size in bytes of the keys, values and headers that wait for a commit."""
        return self._pending.payload_bytes

    def append(
        self, key: bytes, value: bytes | None, timestamp: int, headers: _HeadersLike = None
    ) -> None:
        """Add a record to the queue of the next commit.

        If the queue then exceeds `linger_bytes`, the queued records are sent at once. The
        parameters are those of `Changelog.append`.

        Raises
        ------
        TypeError, FormatError
            The headers are not valid; see `encode_headers`. Or `key` is None (TypeError).
        StorageFullError, UnsupportedError, EngineError
            The queued records could not be sent; see `commit`. They stay in the queue.
        """
        self._check_writer()
        if key is None:
            raise TypeError("the key of a changelog record must be bytes, not None")
        with self._guard, uninterrupted():
            self._pending.append(self._next_offset(), timestamp, key, value, headers)
            if self._pending.payload_bytes > self._linger_bytes:
                self._send_pending()

    def extend(self, records: RecordColumns) -> None:
        """Add many records to the queue of the next commit. The records get new offsets."""
        self._check_writer()
        if records.null_keys:
            raise TypeError(
                f"{records.null_keys} records have no key, but each record of a changelog needs a "
                "key; give each record a key"
            )
        with self._guard, uninterrupted():
            self._pending.extend(records, self._next_offset())
            if self._pending.payload_bytes > self._linger_bytes:
                self._send_pending()

    def discard(self) -> None:
        """Discard the records that wait for a commit."""
        self._check_writer()
        with self._guard:
            self._pending = RecordColumns()

    def _next_offset(self) -> int:
        """Return the offset that the next added record gets."""
        return self._pending.next_offset

    @abstractmethod
    def _send_pending(self) -> object:
        """Send the queued records, and empty the queue."""

    def _check_reaches(self, offset: int, end: int) -> None:
        """Raise InconsistentStateError if an offset is after the log's end."""
        if offset > end:
            raise InconsistentStateError(
                f"the changelog {self._name} ends at offset {end}, but the store continues at "
                f"offset {offset}. Either the log belongs to another store, or the log has lost "
                "its last records. Restore the store anew, from a log that has all of its records"
            )

    def _check(self) -> None:
        if not self._open:
            raise StoreClosedError(f"the changelog {self._name} has been closed")

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedHandleError(
                f"the changelog {self._name} was opened in process {self._pid}, but is used in its "
                f"fork, process {os.getpid()}; open the changelog in the process that uses it"
            )

    def _check_writer(self) -> None:
        self._check()
        if self.read_only:
            raise UnsupportedError(
                f"the changelog {self._name} cannot be written to, because it was opened with "
                "read_only=True; open it without read_only"
            )
        self._check_process()
