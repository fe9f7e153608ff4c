"""Scans of a namespace. A scan yields chunks of rows in key order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from traceback import clear_frames
from typing import Any, Protocol
from weakref import ref

from rocksdict import RdictIter, ReadOptions

from kstore_core.engine import Chunk
from kstore_core.engine.handles import ChunkScan, leak
from kstore_core.engine.packed import PackedBytes
from kstore_rocksdb.errors import Reason
from kstore_rocksdb.files.table_reader import TableScan, UnreadableTableError

__all__ = [
    "HASTY",
    "SECOND_CHUNK",
    "SMALLEST_CHUNK",
    "FamilyScan",
    "OpenScans",
    "Owner",
    "Scan",
    "positioned",
    "seek_before",
    "take_backward",
    "take_below",
    "take_forward",
]

SMALLEST_CHUNK = 32
LARGEST_CHUNK = 1024
GROWTH = 4
SECOND_CHUNK = SMALLEST_CHUNK * GROWTH
_ATTEMPT_CHUNKS = 16
"""The number of chunks of the largest size between two attempts to continue in table files."""

HASTY = ReadOptions()
"""The options of idle iterators. Such an iterator fails at more than 256 successive deletes."""
HASTY.set_max_skippable_internal_keys(256)

PackedRows = tuple[PackedBytes, PackedBytes]

OpenScans = dict[int, "ref[Scan]"]
"""Weak references to the unfinished scans of a namespace, by the ``id`` of the scan."""


class Owner(Protocol):
    """The part of a namespace that its scans use."""

    scans: OpenScans

    def check(self) -> None:
        """Raise an error if the namespace has ended."""

    def scan_failed(self, error: Exception) -> Exception:
        """Return the kstore error for a native error of a scan."""


class TablesOwner(Owner, Protocol):
    """The part of a namespace that scans use if they may continue in table files."""

    changes: int

    def has_unflushed_rows(self, rows_read: int) -> bool:
        """Return True if some rows are not in table files yet. The call may begin a flush."""

    def scan_tables(self, lo: bytes, hi: bytes | None, changes: int) -> TableScan | None:
        """Return a scan of the table files, or None if a scan of them is not possible."""


class Scan(ChunkScan, ABC):
    """An iterator of chunks of the rows with ``lo <= key < hi``, as of its creation.

    A subclass sets all attributes itself. A call of ``super().__init__`` would take time in every
    short scan.
    """

    __slots__ = (
        "__weakref__",
        "_hi",
        "_lo",
        "_owner",
        "_reading",
        "_reason",
        "_reverse",
    )
    _owner: Owner
    _lo: bytes
    _hi: bytes | None
    _reverse: bool
    _reading: bool
    _reason: Callable[[], Exception] | None

    @abstractmethod
    def _take(self, size: int, keys: list[bytes], values: list[bytes]) -> bool:
        """Append up to ``size`` rows to ``keys`` and ``values``. Return False if no rows remain.

        The method may raise native errors.
        """

    @abstractmethod
    def _free(self, *, leaked: bool) -> None:
        """Release the native objects. If ``leaked``, Python must never free the objects."""

    def __next__(self) -> Chunk:
        if not self._reading:
            self._refuse()
            raise StopIteration
        keys: list[bytes] = []
        values: list[bytes] = []
        size = self._size
        try:
            more = self._take(size, keys, values)
        except BaseException as error:  # noqa: BLE001
            self._failed(error)
            more = False
        if more:
            if size < LARGEST_CHUNK:
                self._size = min(size * GROWTH, LARGEST_CHUNK)
            return keys, values
        self._stop()
        if not keys:
            self._refuse()
            raise StopIteration
        return keys, values

    def _failed(self, error: BaseException) -> None:
        """Store the error of a read, which the scan then raises. Raise an interrupt at once."""
        if not isinstance(error, Exception):
            self.close()
            # A stored exception would otherwise keep the native iterator.
            clear_frames(error.__traceback__)
            raise error
        failure = self._owner.scan_failed(error)
        failure.__cause__ = error
        self._reason = self._reason or (lambda: failure)

    def close(self) -> None:
        """End the scan and free its native objects. A second close does nothing."""
        self._reason = None
        self._stop()

    def end(self, reason: Reason, *, leaked: bool = False) -> None:
        """End the scan. Later uses raise the error that ``reason`` returns.

        If ``leaked``, which is for a forked process, the native objects are never freed.
        """
        self._reason = reason
        self._stop(leaked=leaked)

    def _refuse(self) -> None:
        if self._reason is not None:
            raise self._reason()

    def _stop(self, *, leaked: bool = False) -> None:
        self._reading = False
        # Free first: if an interrupt comes in between, the owner can still end this scan.
        self._free(leaked=leaked)
        self._owner.scans.pop(id(self), None)

    def __del__(self) -> None:
        owner = getattr(self, "_owner", None)
        if owner is not None:  # an interrupt may come before __init__
            owner.scans.pop(id(self), None)


class FamilyScan(Scan):
    """A scan of a column family with an iterator of the library ``rocksdict``.

    The scan avoids four faults of the library:

    * ``next`` on an iterator without a position kills the process. So the scan calls ``next`` only
      after ``key`` has returned a key.
    * An iterator uses the memory of its upper bound and of its options, but does not keep these
      Python objects alive. So the scan keeps a reference to both.
    * The library sets a lower bound as the upper bound. So a reverse scan compares the keys itself.
    * An iterator ends at a damaged block without an error. So the scan checks ``status`` at the
      end.

    A long scan continues in the table files, where a row takes a third of the time. This is
    possible only if all rows of the namespace are in table files. The iterator stays open, so that
    the scan can use it again if it cannot read a table file.
    """

    __slots__ = ("_changes", "_chunks", "_native", "_options", "_tables")
    _owner: TablesOwner

    def __init__(
        self,
        owner: TablesOwner,
        native: RdictIter | None,
        options: ReadOptions | None,
        lo: bytes | None,
        hi: bytes | None,
        reverse: bool,
        changes: int,
        size: int = SMALLEST_CHUNK,
    ) -> None:
        """Create a scan that begins at the position of the iterator ``native``.

        ``native`` is None if the scan is empty. ``options`` are the options of the iterator.
        ``changes`` is the value of ``owner.changes`` before the iterator was created.
        """
        self._owner = owner
        self._changes = -1 if reverse else changes
        self._chunks = 0
        self._tables: TableScan | None = None
        self._native = native
        self._options = options
        self._reason = None
        self._size = size
        self._reverse = reverse
        self._hi = hi
        self._lo = lo or b""
        self._reading = native is not None
        if self._reading:
            owner.scans[id(self)] = ref(self)

    def _take(self, size: int, keys: list[bytes], values: list[bytes]) -> bool:
        native = self._native
        if native is None:  # another thread has ended the scan
            return False
        if self._reverse:
            return take_backward(native, size, keys, values, self._lo)
        if size == LARGEST_CHUNK and self._changes >= 0:
            self._go_to_tables(native)
        if self._tables is not None:
            return self._take_tables(self._tables, native, size, keys, values)
        return take_forward(native, size, keys, values)

    @property
    def packed(self) -> Callable[[int, int], PackedRows | None] | None:
        return None if self._tables is None else self._packed

    def _packed(self, size: int, most_bytes: int) -> PackedRows | None:
        """Return rows for :attr:`ChunkScan.packed`, or None to let the iterator read them."""
        try:
            found = self._take_packed(size, most_bytes)
        except BaseException as error:  # noqa: BLE001
            self._failed(error)
            self._stop()  # Then the next call of ``next`` raises the error.
            return None
        if found is not None and not found[0]:
            self._stop()  # Then the next call of ``next`` ends the scan.
            return None
        return found

    def _take_packed(self, size: int, most_bytes: int) -> PackedRows | None:
        tables, native = self._tables, self._native
        if tables is None or native is None:  # another thread has ended the scan
            return None
        try:
            keys, values = tables.packed(size, most_bytes)
        except UnreadableTableError:  # the iterator reads the rows again, or raises the error
            self._tables = None
            native.seek(self._lo)
            return None
        if keys:
            self._lo = keys[-1] + b"\0"
        return keys, values

    def _go_to_tables(self, native: RdictIter) -> None:
        """Continue in the table files, if nothing was written since the scan began.

        Only every 16th call tries this, because an attempt may begin a flush.
        """
        chunks = self._chunks
        self._chunks = chunks + 1
        if chunks % _ATTEMPT_CHUNKS:
            return
        if self._owner.changes == self._changes and self._owner.has_unflushed_rows(
            chunks * LARGEST_CHUNK
        ):
            return
        changes, self._changes = self._changes, -1
        lo = native.key()
        if lo is not None:
            self._lo = lo
            self._tables = self._owner.scan_tables(lo, self._hi, changes)

    def _take_tables(
        self,
        tables: TableScan,
        native: RdictIter,
        size: int,
        keys: list[bytes],
        values: list[bytes],
    ) -> bool:
        try:
            more = tables.take(size, keys, values)
        except UnreadableTableError:  # the iterator raises the error if a file is damaged
            self._tables = None
        if keys:
            self._lo = keys[-1] + b"\0"
        if self._tables is None:
            native.seek(self._lo)
            return take_forward(native, size - len(keys), keys, values)
        return more

    def _free(self, *, leaked: bool) -> None:
        self._tables = None
        if leaked:
            leak(self._native)
            leak(self)
        self._native = None  # keep the options, because another thread may still use the iterator


def positioned(
    iterate: Callable[..., Any], lo: bytes | None, hi: bytes | None, reverse: bool
) -> tuple[RdictIter | None, ReadOptions | None]:
    """Return an iterator at the first row of a scan, and the options of the iterator.

    Both are None if the range of keys is empty. The options are None if they are the defaults.
    """
    native: RdictIter
    options = None
    if hi is not None and hi <= (lo or b""):
        return None, None
    if reverse:
        native = iterate()
        seek_before(native, hi)
    else:
        if hi is None:
            native = iterate()
        else:
            options = ReadOptions()
            options.set_iterate_upper_bound(hi)
            native = iterate(options)
        native.seek(lo or b"")
    return native, options


def seek_before(native: RdictIter, hi: bytes | None) -> None:
    """Move an iterator to the last key below ``hi``, or to the last key if ``hi`` is None."""
    if hi is None:
        native.seek_to_last()
        return
    native.seek_for_prev(hi)
    if native.key() == hi:
        native.prev()


def take_forward(native: RdictIter, size: int, keys: list[bytes], values: list[bytes]) -> bool:
    """Append up to ``size`` rows of an iterator to ``keys`` and ``values``.

    Return False if no rows remain. Raise a native error if the iterator ended because of a fault.
    """
    # Calls of ``native.next`` are faster than calls of a variable with the bound method.
    for _ in range(size):
        key = native.key()
        if key is None:
            native.status()
            return False
        keys.append(key)
        values.append(native.value())
        native.next()
    return True


def take_below(
    native: RdictIter, size: int, keys: list[bytes], values: list[bytes], hi: bytes
) -> bool:
    """Append up to ``size`` rows with keys below ``hi``. See :func:`take_forward`."""
    for _ in range(size):
        key = native.key()
        if key is None:
            native.status()
            return False
        if key >= hi:
            return False
        keys.append(key)
        values.append(native.value())
        native.next()
    return True


def take_backward(
    native: RdictIter, size: int, keys: list[bytes], values: list[bytes], lo: bytes
) -> bool:
    """Append up to ``size`` rows in descending order, down to the key ``lo`` (inclusive)."""
    for _ in range(size):
        key = native.key()
        if key is None:
            native.status()
            return False
        if key < lo:
            return False
        keys.append(key)
        values.append(native.value())
        native.prev()
    return True
