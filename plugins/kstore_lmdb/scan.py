"""Scans. A scan yields chunks of rows in key order, as one read transaction shows them."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import ref

from kstore_core.engine import Chunk
from kstore_core.engine.handles import ChunkScan
from kstore_core.engine.ordered import take
from kstore_lmdb.errors import Reason, translating
from kstore_lmdb.transaction import ReadTransaction

__all__ = ["Scan"]

SMALLEST_CHUNK = 4
LARGER_CHUNK = 16
LARGEST_CHUNK = 256
_GROWTH = 4


class Scan(ChunkScan):
    """An iterator of chunks of the rows with ``lo <= key < hi``.

    When a read transaction is restarted, its cursors become unusable. The scan then creates a new
    cursor, which continues after the last row that the scan has yielded. Therefore the scan sets
    ``lo``, or in a reverse scan ``hi``, to the bound of the remaining rows after each chunk.

    Parameters
    ----------
    name : str
        The name of the namespace.
    transaction : ReadTransaction
        The read transaction in which the rows are read.
    lo, hi : bytes or None
        The range of keys, from ``lo`` (inclusive) to ``hi`` (exclusive); no limit if None.
    reverse : bool
        If True, yield the rows in descending order.
    guard : translating
        The context manager that translates native errors.
    """

    __slots__ = (
        "__weakref__",
        "_at_empty",
        "_generation",
        "_guard",
        "_hi",
        "_lo",
        "_name",
        "_reading",
        "_reason",
        "_reverse",
        "_rows",
        "_transaction",
    )

    def __init__(
        self,
        name: str,
        transaction: ReadTransaction,
        lo: bytes | None,
        hi: bytes | None,
        reverse: bool,
        guard: translating,
    ) -> None:
        self._name = name
        self._transaction = transaction
        self._lo = lo or b""
        self._hi = hi
        self._reverse = reverse
        self._guard = guard
        self._at_empty = not lo
        self._generation = 0
        self._rows: Iterator[tuple[bytes, bytes]] | None = None
        self._reading = hi is None or self._lo < hi
        self._reason: Reason | None = None
        self._size = SMALLEST_CHUNK
        if self._reading:
            transaction.scans[id(self)] = ref(self)

    def __next__(self) -> Chunk:
        transaction = self._transaction
        with transaction.lock:
            if not self._reading:
                if self._reason is not None:
                    raise self._reason()
                raise StopIteration
            try:
                with self._guard:
                    keys, values = self._take()
            except BaseException:
                self._stop()
                raise
        if not keys:
            raise StopIteration
        return keys, values

    def close(self) -> None:
        """End the scan and free its cursor. A second close does nothing."""
        with self._transaction.lock:
            self._reason = None
            self._stop()

    def end(self, reason: Reason) -> None:
        """End the scan, unless it is finished. Later uses raise the error that ``reason`` returns.

        The caller must hold the lock of the transaction.
        """
        if self._reading:
            self._reason = reason
            self._stop()

    def _take(self) -> Chunk:
        """Return the next chunk. Stop the scan if no rows remain."""
        if self._generation != self._transaction.generation:
            self._position()
        assert self._rows is not None
        keys, values, more = take(self._rows, self._size, None if self._reverse else self._hi)
        over = not more
        if keys and self._reverse:
            count = len(keys)
            while count and keys[count - 1] < self._lo:
                count -= 1
            if count < len(keys):
                over = True
                del keys[count:], values[count:]
        if self._at_empty and (over or not self._reverse):
            self._at_empty = False
            value = self._transaction.empty_row(self._name)
            if value is not None:
                at = len(keys) if self._reverse else 0
                keys.insert(at, b"")
                values.insert(at, value)
        if over:
            self._stop()
        elif self._reverse:
            self._hi = keys[-1]
        else:
            self._lo = keys[-1] + b"\0"
        if self._size < LARGEST_CHUNK:
            self._size *= _GROWTH
        return keys, values

    def _position(self) -> None:
        """Create a cursor at the first remaining row."""
        transaction = self._transaction
        cursor = transaction.read().cursor(transaction.handles[self._name])
        if self._reverse:
            if self._hi is not None and cursor.set_range(self._hi):
                found = cursor.prev()
            else:
                found = cursor.last()
            self._rows = cursor.iterprev() if found else iter(())
        else:
            self._rows = cursor.iternext() if cursor.set_range(self._lo) else iter(())
        self._generation = transaction.generation

    def _stop(self) -> None:
        self._reading = False
        self._rows = None
        self._transaction.scans.pop(id(self), None)

    def __del__(self) -> None:
        transaction = getattr(self, "_transaction", None)
        if transaction is not None:  # an interrupt may come before __init__
            transaction.scans.pop(id(self), None)
