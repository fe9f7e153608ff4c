"""Scans. A scan reads chunks of rows from a native iterator, and checks its status at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from traceback import clear_frames
from typing import Any, Protocol
from weakref import ref

from rocksdict import RdictIter, ReadOptions

from kstore_core.engine import Chunk
from kstore_core.engine.handles import leak
from kstore_rocksdb.errors import Reason

__all__ = [
    "GROWTH",
    "HASTY",
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

SMALLEST_CHUNK = 16
LARGEST_CHUNK = 1024
GROWTH = 4

HASTY = ReadOptions()
"""Options of iterators without an upper bound, which fail at a long run of deleted rows."""
HASTY.set_max_skippable_internal_keys(256)

OpenScans = dict[int, "ref[Scan]"]
"""The unfinished scans of one namespace, by identity."""


class Owner(Protocol):
    """The namespace of a scan. It has references to its open scans."""

    scans: OpenScans

    def scan_failed(self, error: Exception) -> Exception:
        """Return the kstore error for an error of the binding."""


class Scan(ABC):
    """An iterator of chunks over ``lo <= key < hi``, as of its creation.

    Every short range read creates a scan. So a subclass sets all attributes in its own
    ``__init__``, which is faster.
    """

    __slots__ = (
        "__weakref__",
        "_hi",
        "_lo",
        "_owner",
        "_reading",
        "_reason",
        "_reverse",
        "_size",
    )
    _owner: Owner
    _lo: bytes
    _hi: bytes | None
    _reverse: bool
    _size: int
    _reading: bool
    _reason: Callable[[], Exception] | None

    @abstractmethod
    def _take(self, size: int, keys: list[bytes], values: list[bytes]) -> bool:
        """Append up to ``size`` rows. Return False at the end. Raise native errors."""

    @abstractmethod
    def _free(self, *, leaked: bool) -> None:
        """Drop the native objects. With ``leaked``, do not free their memory."""

    def __iter__(self) -> Scan:
        return self

    def __next__(self) -> Chunk:
        if not self._reading:
            self._refuse()
            raise StopIteration
        keys: list[bytes] = []
        values: list[bytes] = []
        size = self._size
        try:
            more = self._take(size, keys, values)
        except Exception as error:  # noqa: BLE001
            failure = self._owner.scan_failed(error)
            failure.__cause__ = error
            self._reason = self._reason or (lambda: failure)
            more = False
        except BaseException as interrupt:
            self.close()
            clear_frames(
                interrupt.__traceback__
            )  # else a reference to the exception would keep the iterator
            raise
        if more:
            if size < LARGEST_CHUNK:
                self._size = size * GROWTH
            return keys, values
        self._stop()
        if not keys:
            self._refuse()
            raise StopIteration
        return keys, values

    def first(self) -> tuple[bytes, bytes] | None:
        """Return the next row, or None. End the scan."""
        self._size = 1
        for keys, values in self:
            self.close()
            return keys[0], values[0]
        return None

    def close(self) -> None:
        """End the scan and free its native objects. A second close does nothing."""
        self._reason = None
        self._stop()

    def end(self, reason: Reason, *, leaked: bool = False) -> None:
        """End the scan, and free the native objects. Later uses raise ``reason``.

        With ``leaked``, which is for a forked child, the native objects are never freed.
        """
        self._reason = reason
        self._stop(leaked=leaked)

    def _refuse(self) -> None:
        if self._reason is not None:
            raise self._reason()

    def _stop(self, *, leaked: bool = False) -> None:
        self._reading = False
        self._free(
            leaked=leaked
        )  # first: after an interrupt in between, the scan is still registered
        self._owner.scans.pop(id(self), None)

    def __del__(self) -> None:
        self._owner.scans.pop(id(self), None)


class FamilyScan(Scan):
    """A scan that has a separate iterator.

    The scan avoids four faults of the binding. ``next`` on an iterator without a position kills the
    process, so ``next`` is called only after ``key`` returned a key. An iterator uses the memory of
    the upper bound and of the options, so the scan keeps references to both. A lower bound sets the
    upper bound instead, so a reverse scan compares keys. An iterator ends at a damaged block
    without an error, so ``status`` is checked at the end.
    """

    __slots__ = ("_native", "_options")

    def __init__(
        self,
        owner: Owner,
        native: RdictIter | None,
        options: ReadOptions | None,
        lo: bytes | None,
        reverse: bool,
        size: int = SMALLEST_CHUNK,
    ) -> None:
        """Continue at the position of ``native``, whose options are ``options``.

        If ``native`` is None, no rows are left.
        """
        self._owner = owner
        self._native = native
        self._options = options
        self._reason = None
        self._size = size
        self._reverse = reverse
        self._hi = None
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
        return take_forward(native, size, keys, values)

    def _free(self, *, leaked: bool) -> None:
        if leaked:
            leak(self._native)
            leak(self)
        self._native = None  # not the options: another thread may be inside the iterator


def positioned(
    iterate: Callable[..., Any], lo: bytes | None, hi: bytes | None, reverse: bool
) -> tuple[RdictIter | None, ReadOptions | None]:
    """Return an iterator at the first row of a scan, and its options. None for an empty range."""
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
    """Move to the last key below ``hi``, or to the last key of all."""
    if hi is None:
        native.seek_to_last()
        return
    native.seek_for_prev(hi)
    if native.key() == hi:
        native.prev()


def take_forward(native: RdictIter, size: int, keys: list[bytes], values: list[bytes]) -> bool:
    """Append up to ``size`` rows. Return False at the end, or raise the error of ``status``.

    The methods are called by name, because the interpreter is faster with names than with bound
    methods in variables.
    """
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
    """Append rows as :func:`take_forward` does, but only rows before ``hi``."""
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
    """Append rows as :func:`take_forward` does, but in descending order, down to ``lo``."""
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
