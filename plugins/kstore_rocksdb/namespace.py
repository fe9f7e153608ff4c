"""Live namespaces: column families."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from traceback import clear_frames
from typing import Any

from rocksdict import ColumnFamily, Rdict, RdictIter

from kstore_core.engine import Chunk
from kstore_core.engine.handles import leak
from kstore_rocksdb.errors import Reason, reraise, translating
from kstore_rocksdb.reader import Reader
from kstore_rocksdb.scan import (
    GROWTH,
    HASTY,
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
"""The number of starts that skip the idle iterator after one for which it was of no use."""

Call = Callable[[Any], Any]
Replace = Callable[[Call], None]


def guarded(call: Call, on_error: Callable[[Exception], Any]) -> tuple[Call, Replace]:
    """Return a function that looks up by ``call``, and a function that replaces ``call``.

    A replacement also affects callers that already have the lookup function. So a lookup raises
    after a close or in a forked child, although no lookup spends time on a check.
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
    """A live column family.

    Attributes
    ----------
    native : Rdict
        The binding's handle of the family, for everything except batches.
    handle : ColumnFamily
        The binding's handle for batches.

    Both handles raise after :meth:`end`, because a batch for a dropped family breaks the database.
    """

    def __init__(self, name: str, path: Path, native: Rdict, handle: ColumnFamily) -> None:
        super().__init__(name, path)
        self._iterate: Callable[..., Any] = native.iter
        self._idle: list[RdictIter] = []
        self._own_iterators = 0
        self._native: Rdict | None = native
        self._handle: ColumnFamily | None = handle
        failed = partial(reraise, action=f"read from {name!r}", path=path)
        self._get_list, self._replace_get_list = guarded(native.get, failed)
        get, self._replace_get = guarded(native.get, failed)
        self.get = get  # type: ignore[method-assign, assignment]

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None. Each instance has its own function for this."""
        raise NotImplementedError

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys``, in their order."""
        values: list[bytes | None] = self._get_list(keys if type(keys) is list else list(keys))
        return values

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> FamilyScan:
        """Chunks of the rows with ``lo <= key < hi``, as of this call."""
        if self._ended is not None:
            raise self._ended()
        native = None
        try:
            native, options = positioned(self._iterate, lo, hi, reverse)
            return FamilyScan(self, native, options, lo, reverse)
        except Exception as error:
            raise self.scan_failed(error) from error
        except BaseException as interrupt:
            native = None
            clear_frames(
                interrupt.__traceback__
            )  # else a reference to the exception would keep the LOCK
            raise

    def start(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[Chunk | None, Iterator[Chunk] | None]:
        """Return the first chunk of a scan, and a scan of the rest, or None."""
        if self._ended is not None:
            raise self._ended()
        if self._own_iterators:
            self._own_iterators -= 1
        elif lo is not None and hi is not None and not reverse:
            begun = self._start_at_once(lo, hi)
            if begun is not None:
                return begun
            self._own_iterators = _OWN_ITERATORS
        keys: list[bytes] = []
        values: list[bytes] = []
        native = None
        try:
            native, options = positioned(self._iterate, lo, hi, reverse)
            if native is None:
                more = False
            elif reverse:
                more = take_backward(native, SMALLEST_CHUNK, keys, values, lo or b"")
            else:
                more = take_forward(native, SMALLEST_CHUNK, keys, values)
            if more:
                size = SMALLEST_CHUNK * GROWTH
                return (keys, values), FamilyScan(self, native, options, lo, reverse, size)
            return (keys, values) if keys else None, None
        except Exception:  # noqa: BLE001
            # A scan fails at the same place, after the rows before it, and translates the error.
            return super().start(lo, hi, reverse=reverse)
        except BaseException as interrupt:
            native = None
            clear_frames(interrupt.__traceback__)
            raise

    def _start_at_once(self, lo: bytes, hi: bytes) -> tuple[Chunk | None, None] | None:
        """Return the rows of a scan that ends within its first chunk. None if the scan is longer.

        The scan reuses an idle iterator of an earlier call, because the creation of an iterator is
        half the cost of such a scan. A write replaces the list of idle iterators, so an iterator
        from before the write is never used.
        """
        idle = self._idle
        keys: list[bytes] = []
        values: list[bytes] = []
        native: RdictIter | None = None
        try:
            native = idle.pop() if idle else self._iterate(HASTY)
            native.seek(lo)
            if take_below(native, SMALLEST_CHUNK, keys, values, hi):
                return None
            if not idle:
                idle.append(native)
            return (keys, values) if keys else None, None
        except Exception:  # noqa: BLE001
            return None  # a new iterator fails too, or skips the deleted rows
        except BaseException as interrupt:
            native, idle = None, []
            clear_frames(interrupt.__traceback__)
            raise

    def renew(self) -> None:
        """Drop idle iterators, so that new reads see the last write."""
        self._idle = []

    @property
    def fast_get(self) -> Call:
        """The binding's own lookup."""
        return self.native.get

    @property
    def native(self) -> Rdict:
        """The binding's handle; raises once the namespace has ended."""
        return self._refuse() if self._native is None else self._native

    @property
    def handle(self) -> ColumnFamily:
        """The handle for batches; raises once the namespace has ended."""
        return self._refuse() if self._handle is None else self._handle

    def approximate_count(self) -> int:
        """Return RocksDB's estimate. It counts each write and each delete of a row."""
        self.check()
        with translating(f"count {self.name!r}", self._path):
            count = self.native.property_int_value("rocksdb.estimate-num-keys")
        return min(count or 0, _LARGEST_COUNT)

    def snapshot(self) -> SnapshotNamespace:
        """Return a snapshot of this family."""
        native = self.native
        with translating(f"take a snapshot of {self.name!r}", self._path):
            return SnapshotNamespace(
                self.name, self._path, native.snapshot(), native.iter(), self.approximate_count()
            )

    def end(self, reason: Reason, *, leaked: bool = False) -> None:
        """End scans and lookups, and drop the handles without closing them."""
        if leaked:
            for native in (self._native, self._handle, *self._idle):
                leak(native)
        super().end(reason, leaked=leaked)
        self._replace_get(self._refuse)
        self._replace_get_list(self._refuse)
        self._iterate = self._refuse
        self._idle = []
        self._native = None
        self._handle = None
