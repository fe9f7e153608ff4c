"""Scans. A scan returns chunks of rows in key order, as of one read transaction."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import ref

from kstore_core.engine import Chunk
from kstore_core.engine.ordered import take
from kstore_lmdb.errors import Reason, translating
from kstore_lmdb.transaction import ReadTransaction

__all__ = ["Scan"]

SMALLEST_CHUNK = 4
LARGER_CHUNK = 16
LARGEST_CHUNK = 256
_GROWTH = 4


class Scan:
    """An iterator of chunks over ``lo <= key < hi``.

    After its transaction has moved, a cursor cannot be used. Then the scan makes a new cursor,
    which continues after the last row. For this, each chunk advances one bound of the scan.

    Parameters
    ----------
    guard : translating
        Translates native errors.
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
        "_size",
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

    def __iter__(self) -> Scan:
        return self

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

    def first(self) -> tuple[bytes, bytes] | None:
        """Return the first row, or None. End the scan."""
        self._size = 1
        for keys, values in self:
            self.close()
            return keys[0], values[0]
        return None

    def close(self) -> None:
        """End the scan and free its cursor. A second close does nothing."""
        with self._transaction.lock:
            self._reason = None
            self._stop()

    def end(self, reason: Reason) -> None:
        """End the scan. Later uses raise ``reason``, unless it is finished. Needs the lock."""
        if self._reading:
            self._reason = reason
            self._stop()

    def _take(self) -> Chunk:
        """Return the next rows. The last rows end the scan."""
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
        """Move a new cursor to the first of the remaining rows."""
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
        self._transaction.scans.pop(id(self), None)
