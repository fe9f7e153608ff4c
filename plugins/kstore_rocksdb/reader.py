"""What live namespaces and those of a snapshot have in common: lookups and scans that can end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kstore_core.engine import Namespace
from kstore_core.errors import KStoreError
from kstore_rocksdb import living
from kstore_rocksdb.errors import Reason, translate
from kstore_rocksdb.scan import OpenScans, Scan

__all__ = ["Call", "Reader", "guarded"]

_MISSING = "key not found"

Call = Callable[[Any], Any]
Replace = Callable[[Call], None]


def guarded(call: Call, on_error: Callable[[Exception], Any]) -> tuple[Call, Replace]:
    """``call`` at the cost of one Python frame, and the means to put another in its place.

    Whoever bound the result long ago meets the replacement too: a lookup after close, or in a
    forked child, has no check to pay for and none to escape.
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


def _lookup_failed(doing: str, path: Path, error: Exception) -> None:
    """Raise what a failed lookup means; a snapshot that lacks the key is no failure."""
    if isinstance(error, KStoreError):
        raise error
    if str(error) != _MISSING:
        raise translate(error, doing, path) from error


class Reader(Namespace):
    """A namespace whose lookups and scans end when its database does."""

    def __init__(self, name: str, path: Path, look_up: Call) -> None:
        self.name = name
        self._path = path
        self.scans: OpenScans = {}
        self._ended: Reason | None = None
        self._lookup_failed = partial(_lookup_failed, f"read from {name!r}", path)
        get, self._replace_get = guarded(look_up, self._lookup_failed)
        self.get = get  # type: ignore[method-assign, assignment]

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or None. Each instance has its own, bound to the native call."""
        raise NotImplementedError

    @abstractmethod
    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Scan:
        """Chunks of the rows with ``lo <= key < hi``, as of this call."""

    def first(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """The first row of a scan, or None where it is empty."""
        return self.scan(lo, hi, reverse=reverse).first()

    def check(self) -> None:
        """Raise where this namespace may not be used any more."""
        living.notice_fork()
        if self._ended is not None:
            raise self._ended()

    def end(self, reason: Reason, *, leaked: bool = False) -> None:
        """End all scans; everything from now on raises ``reason``."""
        self._ended = reason
        for scan in list(self.scans.values()):
            alive = scan()
            if alive is not None:
                alive.end(reason, leaked=leaked)
        self._replace_get(self._refuse)

    def _refuse(self, *_: object) -> Any:
        assert self._ended is not None
        raise self._ended()

    def scan_failed(self, error: Exception) -> Exception:
        """The error that a native one means."""
        return translate(error, f"scan {self.name!r}", self._path)
