"""The namespaces of an open RocksDB database. Each namespace is a column family."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from traceback import clear_frames
from typing import Any
from weakref import WeakMethod

from rocksdict import ColumnFamily, Rdict, RdictIter

from kstore_core.engine import Chunk
from kstore_core.engine.handles import leak
from kstore_rocksdb.errors import Reason, reraise, translating
from kstore_rocksdb.files.runs import has_rows_in_memory, open_runs
from kstore_rocksdb.files.short_ranges import ShortRanges
from kstore_rocksdb.files.table_reader import TableScan, UnreadableTableError
from kstore_rocksdb.reader import Reader
from kstore_rocksdb.scan import (
    HASTY,
    SECOND_CHUNK,
    SMALLEST_CHUNK,
    FamilyScan,
    positioned,
    take_backward,
    take_below,
    take_forward,
)
from kstore_rocksdb.snapshot import SnapshotNamespace

__all__ = ["FamilyNamespace"]

_LARGEST_COUNT = 2**63 - 1
_OWN_ITERATORS = 16
"""The number of short scans that create an iterator after a reused, idle iterator has failed."""

Call = Callable[[Any], Any]
Replace = Callable[[Call], None]


def guarded(call: Call, on_error: Callable[[Exception], Any]) -> tuple[Call, Replace]:
    """Return a lookup function that calls ``call``, and a function that replaces ``call``.

    If ``call`` raises, the lookup returns ``on_error(error)``. Callers may keep the lookup
    function, because the second function replaces ``call`` inside the lookup function. So the
    lookup saves the time of a check for a close or a fork.
    """

    def lookup(argument: Any) -> Any:
        try:
            return call(argument)
        except Exception as error:  # noqa: BLE001
            return on_error(error)

    def replace(other: Call) -> None:
        nonlocal call
        call = other

    return lookup, replace


class FamilyNamespace(Reader):
    """A column family of an open database.

    Attributes
    ----------
    native : Rdict
        The handle of the library ``rocksdict`` for everything except batches.
    handle : ColumnFamily
        The handle of the library ``rocksdict`` for batches.
    changes : int
        A number that grows by 1 before and by 1 after each write, so it is odd during a write.

    After :meth:`end`, the properties ``native`` and ``handle`` raise an error, because a batch for
    a dropped column family damages the database.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        native: Rdict,
        handle: ColumnFamily,
        tables: Path | None,
        begin_flush: WeakMethod[Callable[[], None]],
    ) -> None:
        """Create the namespace ``name`` of the database in ``path``.

        ``tables`` is the directory of the table files, or None if they must not be mapped into
        memory. ``begin_flush`` refers to the database's method that begins a flush. The reference
        is weak, so that Python can free an unused database.
        """
        super().__init__(name, path)
        self._begin_flush = begin_flush
        self.changes = 0
        self._tables = tables
        self._iterate: Callable[..., Any] = native.iter
        self._idle: list[RdictIter] = []
        self._own_iterators = 0
        self._ranges = None if tables is None else ShortRanges(native, tables)
        self._native: Rdict | None = native
        self._handle: ColumnFamily | None = handle
        failed = partial(reraise, action=f"read from {name!r}", path=path)
        self._get_list, self._replace_get_list = guarded(native.get, failed)
        get, self._replace_get = guarded(native.get, failed)
        self.get = get  # type: ignore[method-assign, assignment]

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None if the key is missing.

        ``__init__`` sets a faster function with this name on each instance.
        """
        raise NotImplementedError

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the order of ``keys``; None for a missing key."""
        values: list[bytes | None] = self._get_list(keys if type(keys) is list else list(keys))
        return values

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> FamilyScan:
        """Return an iterator of chunks of the rows with ``lo <= key < hi``, as of this call."""
        if self._ended is not None:
            raise self._ended()
        native = None
        try:
            changes = self.changes
            native, options = positioned(self._iterate, lo, hi, reverse)
            return FamilyScan(self, native, options, lo, hi, reverse, changes)
        except Exception as error:
            raise self.scan_failed(error) from error
        except BaseException as interrupt:
            native = None
            # A stored exception would otherwise keep the native handles, which lock the database.
            clear_frames(interrupt.__traceback__)
            raise

    def start(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[Chunk | None, Iterator[Chunk] | None]:
        """Return the first chunk of a scan, and an iterator of the remaining chunks.

        The chunk is None if the scan is empty. The iterator is None if no rows remain.
        """
        if self._ended is not None:
            raise self._ended()
        if lo is not None and hi is not None and not reverse:
            begun = self._start_short(lo, hi)
            if begun is not None:
                return begun
        keys: list[bytes] = []
        values: list[bytes] = []
        native = None
        try:
            changes = self.changes
            native, options = positioned(self._iterate, lo, hi, reverse)
            if native is None:
                more = False
            elif reverse:
                more = take_backward(native, SMALLEST_CHUNK, keys, values, lo or b"")
            else:
                more = take_forward(native, SMALLEST_CHUNK, keys, values)
            if more:
                return (keys, values), FamilyScan(
                    self, native, options, lo, hi, reverse, changes, SECOND_CHUNK
                )
            return (keys, values) if keys else None, None
        except Exception:  # noqa: BLE001
            # A scan yields the rows before the fault, and then raises the translated error.
            return super().start(lo, hi, reverse=reverse)
        except BaseException as interrupt:
            native = None
            clear_frames(interrupt.__traceback__)
            raise

    def _start_short(
        self, lo: bytes, hi: bytes
    ) -> tuple[Chunk | None, Iterator[Chunk] | None] | None:
        """Return the start of a scan from the table files, or from an idle iterator.

        Return None if neither is possible.
        """
        ranges = self._ranges
        if ranges is not None and ranges.opened is not None:
            keys: list[bytes] = []
            values: list[bytes] = []
            changes = self.changes
            more = ranges.read(lo, hi, changes, keys, values)
            if more is False:
                return (keys, values) if keys else None, None
            if more:
                whole = self._with_rest(keys, values, hi, changes)
                if whole is not None:
                    return whole
        if self._own_iterators:
            self._own_iterators -= 1
            return None
        begun = self._start_by_idle(lo, hi)
        if begun is None:
            self._own_iterators = _OWN_ITERATORS
        elif ranges is not None:
            ranges.count(0 if begun[0] is None else len(begun[0][0]), self)
        return begun

    def _start_by_idle(
        self, lo: bytes, hi: bytes
    ) -> tuple[Chunk | None, Iterator[Chunk] | None] | None:
        """Return the start of a scan, read by an idle iterator, or None if the iterator fails.

        The method reuses the iterator of an earlier call, because the creation of an iterator takes
        half the time of a short scan. The method never uses an iterator from before the last write,
        because each write replaces the list of idle iterators before the write is counted as done.
        A new iterator with an upper bound reads the remaining rows.
        """
        changes = self.changes
        idle = self._idle
        keys: list[bytes] = []
        values: list[bytes] = []
        native: RdictIter | None = None
        try:
            native = idle.pop() if idle else self._iterate(HASTY)
            native.seek(lo)
            more = take_below(native, SMALLEST_CHUNK, keys, values, hi)
            if not idle:
                idle.append(native)
            if not more:
                return (keys, values) if keys else None, None
        except Exception:  # noqa: BLE001
            return None  # a new iterator then raises the error, or succeeds after many deleted rows
        except BaseException as interrupt:
            native, idle = None, []
            clear_frames(interrupt.__traceback__)
            raise
        return self._with_rest(keys, values, hi, changes)

    def _with_rest(
        self, keys: list[bytes], values: list[bytes], hi: bytes, changes: int
    ) -> tuple[Chunk, Iterator[Chunk]] | None:
        """Return a chunk, and a scan with a new iterator that returns the rows after the chunk.

        Return None if the iterator may see rows that were written after the chunk was read. The
        chunk was read when :attr:`changes` had the value ``changes``.
        """
        lo = keys[-1] + b"\0"
        rest: RdictIter | None = None
        try:
            rest, options = positioned(self._iterate, lo, hi, reverse=False)
            if changes % 2 or self.changes != changes:
                return None
            return (keys, values), FamilyScan(
                self, rest, options, lo, hi, reverse=False, changes=changes, size=SECOND_CHUNK
            )
        except Exception:  # noqa: BLE001
            return None
        except BaseException as interrupt:
            rest = None
            clear_frames(interrupt.__traceback__)
            raise

    def has_unflushed_rows(self, rows_read: int) -> bool:
        """Return True if some rows are not in table files yet. The call may begin a flush.

        Parameters
        ----------
        rows_read : int
            The number of rows that the calling scan has read so far.
        """
        native, begin_flush = self._native, self._begin_flush()
        if native is None or begin_flush is None or self._tables is None:
            return False
        return has_rows_in_memory(native, rows_read, begin_flush)

    def scan_tables(self, lo: bytes, hi: bytes | None, changes: int) -> TableScan | None:
        """Return a scan of the table files, or None if a scan of them is not possible.

        Parameters
        ----------
        lo : bytes
            The first key, inclusive.
        hi : bytes or None
            The end of the keys, exclusive; no limit if None.
        changes : int
            The value of :attr:`changes` when the caller's scan began. The result is None if rows
            were written since then.
        """
        native = self._native
        if native is None or self._tables is None or changes % 2:
            return None
        runs = open_runs(native, self._tables)
        if runs is None or self.changes != changes:
            return None
        try:
            return TableScan(runs, lo, hi)
        except UnreadableTableError:
            return None

    def renew(self) -> None:
        """Remove the idle iterators, so that new scans return the rows of the last write."""
        self._idle = []
        if self._ranges is not None:
            self._ranges.close()

    @property
    def fast_get(self) -> Call:
        """The lookup function of the library ``rocksdict``."""
        return self.native.get

    @property
    def native(self) -> Rdict:
        """The handle for everything except batches. It raises an error after :meth:`end`."""
        return self._refuse() if self._native is None else self._native

    @property
    def handle(self) -> ColumnFamily:
        """The handle for batches. It raises an error after :meth:`end`."""
        return self._refuse() if self._handle is None else self._handle

    def approximate_count(self) -> int:
        """Return RocksDB's estimate of the number of rows.

        The estimate may be too high, because RocksDB counts each write of a key.
        """
        self.check()
        with translating(f"count {self.name!r}", self._path):
            count = self.native.property_int_value("rocksdb.estimate-num-keys")
        return min(count or 0, _LARGEST_COUNT)

    def snapshot(self) -> SnapshotNamespace:
        """Return a snapshot of this column family."""
        native = self.native
        with translating(f"take a snapshot of {self.name!r}", self._path):
            return SnapshotNamespace(
                self.name, self._path, native.snapshot(), native.iter(), self.approximate_count()
            )

    def end(self, reason: Reason, *, leaked: bool = False) -> None:
        """End all scans and lookups, and release the handles without closing them.

        If ``leaked``, which is for a forked process, the native objects are never freed.
        """
        if leaked:
            for native in (self._native, self._handle, *self._idle):
                leak(native)
        super().end(reason, leaked=leaked)
        self._replace_get(self._refuse)
        self._replace_get_list(self._refuse)
        self._iterate = self._refuse
        self._idle = []
        self._ranges = None
        self._native = None
        self._handle = None
