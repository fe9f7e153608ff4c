"""Scans: chunks of rows from a native iterator that is asked for its status before it may end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import repeat
from typing import Any
from weakref import ref

from rocksdict import RdictIter, ReadOptions

from kstore_core.engine import Chunk
from kstore_rocksdb.errors import Reason
from kstore_rocksdb.living import leak

__all__ = ["FamilyScan", "OpenScans", "Scan", "seek_before", "take_backward", "take_forward"]

_SMALLEST = 16
_LARGEST = 1024
_GROWTH = 4

OpenScans = dict[int, "ref[Scan]"]
"""The scans of one namespace that are not at their end, by identity."""


class Scan(ABC):
    """An iterator of chunks over ``lo <= key < hi``, as of its making.

    Parameters
    ----------
    open_scans : OpenScans
        Where the scan stands while it may still be read.
    fail
        The error that a native one means. A method of the namespace, which thereby lives as long
        as its scans, so that the database finds them when it ends.
    """

    __slots__ = (
        "__weakref__",
        "_ended",
        "_fail",
        "_failure",
        "_hi",
        "_lo",
        "_open",
        "_reading",
        "_reverse",
        "_size",
    )

    def __init__(
        self,
        lo: bytes | None,
        hi: bytes | None,
        reverse: bool,
        open_scans: OpenScans,
        fail: Callable[[Exception], Exception],
    ) -> None:
        self._open = open_scans
        self._fail = fail
        self._ended: Reason | None = None
        self._failure: Exception | None = None
        self._size = _SMALLEST
        self._reverse = reverse
        self._lo = lo or b""
        self._hi = hi
        self._reading = hi is None or self._lo < hi
        if self._reading:
            open_scans[id(self)] = ref(self)

    @abstractmethod
    def _take(self, size: int, keys: list[bytes], values: list[bytes]) -> bool:
        """Append up to ``size`` rows; False where there are no more. Raises native errors."""

    @abstractmethod
    def _free(self, *, leaked: bool) -> None:
        """Let go of what is native; ``leaked``: without freeing it."""

    def __iter__(self) -> Scan:
        return self

    def __next__(self) -> Chunk:
        if not self._reading:
            self._refuse()
            raise StopIteration
        keys: list[bytes] = []
        values: list[bytes] = []
        try:
            more = self._take(self._size, keys, values)
        except Exception as error:  # noqa: BLE001
            self._failure = self._fail(error)
            self._failure.__cause__ = error
            more = False
        except BaseException:
            self.close()
            raise
        if more:
            self._size = min(self._size * _GROWTH, _LARGEST)
            return keys, values
        self._stop()
        if not keys:
            self._refuse()
            raise StopIteration
        return keys, values

    def first(self) -> tuple[bytes, bytes] | None:
        """The row where the scan stands, or None; ends the scan."""
        self._size = 1
        for keys, values in self:
            self.close()
            return keys[0], values[0]
        return None

    def close(self) -> None:
        """End the scan and free what it holds. Closing twice is fine."""
        self._failure = None
        self._stop()

    def end(self, reason: Reason, *, leaked: bool = False) -> None:
        """Free what is native; from now on the scan raises ``reason``.

        ``leaked``: keep it from ever being freed instead, after a fork.
        """
        self._ended = reason
        self._stop(leaked=leaked)

    def _refuse(self) -> None:
        if self._ended is not None:
            raise self._ended()
        if self._failure is not None:
            raise self._failure

    def _stop(self, *, leaked: bool = False) -> None:
        if self._reading:
            self._reading = False
            self._open.pop(id(self), None)
            self._free(leaked=leaked)

    def __del__(self) -> None:
        self._stop()


class FamilyScan(Scan):
    """A scan with an iterator of its own.

    Four faults of the binding shape it. ``next`` on an iterator without a position kills the
    process: it is called only after ``key`` gave a key. The iterator goes on using the memory of
    the upper bound and of the options: they live as long as the scan. The lower bound is in fact a
    second upper bound: a reverse scan compares keys. An iterator that meets a damaged block merely
    becomes invalid: ``status`` is asked before an end is believed.
    """

    __slots__ = ("_native", "_options")

    def __init__(
        self,
        iterate: Callable[..., Any],
        lo: bytes | None,
        hi: bytes | None,
        reverse: bool,
        open_scans: OpenScans,
        fail: Callable[[Exception], Exception],
    ) -> None:
        self._native: RdictIter | None = None
        self._options: ReadOptions | None = None
        super().__init__(lo, hi, reverse, open_scans, fail)
        if not self._reading:
            return
        try:
            if reverse:
                self._native = iterate()
                seek_before(self._native, hi)
            else:
                if hi is not None:
                    self._options = ReadOptions()
                    self._options.set_iterate_upper_bound(hi)
                self._native = iterate(self._options)
                self._native.seek(self._lo)
        except Exception as error:
            self._stop()
            raise fail(error) from error

    def _take(self, size: int, keys: list[bytes], values: list[bytes]) -> bool:
        native = self._native
        assert native is not None
        if self._reverse:
            return take_backward(native, size, keys, values, self._lo)
        return take_forward(native, size, keys, values)

    def _free(self, *, leaked: bool) -> None:
        if leaked:
            leak(self._native)
            leak(self)
        self._native = None  # not the options: another thread may be inside the iterator


def seek_before(native: RdictIter, hi: bytes | None) -> None:
    """Stand on the last key below ``hi``, or on the last of all."""
    if hi is None:
        native.seek_to_last()
        return
    native.seek_for_prev(hi)
    if native.key() == hi:
        native.prev()


def take_forward(
    native: RdictIter, size: int, keys: list[bytes], values: list[bytes], hi: bytes | None = None
) -> bool:
    """Append up to ``size`` rows; False at the end, which is one only where ``status`` is good.

    ``hi``: where to end, for an iterator without an upper bound of its own.
    """
    key_of, value_of, step = native.key, native.value, native.next
    add_key, add_value = keys.append, values.append
    for _ in repeat(None, size):
        key = key_of()
        if key is None:
            native.status()
            return False
        if hi is not None and key >= hi:
            return False
        add_key(key)
        add_value(value_of())
        step()
    return True


def take_backward(
    native: RdictIter, size: int, keys: list[bytes], values: list[bytes], lo: bytes
) -> bool:
    """The same the other way, down to ``lo``."""
    key_of, value_of, step = native.key, native.value, native.prev
    add_key, add_value = keys.append, values.append
    for _ in repeat(None, size):
        key = key_of()
        if key is None:
            native.status()
            return False
        if key < lo:
            return False
        add_key(key)
        add_value(value_of())
        step()
    return True
