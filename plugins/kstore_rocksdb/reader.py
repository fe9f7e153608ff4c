"""The base of live namespaces and of namespaces of a snapshot. They end with their database."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

from kstore_core.engine import Namespace
from kstore_rocksdb.errors import Reason, translate
from kstore_rocksdb.forks import DATABASES
from kstore_rocksdb.scan import OpenScans, Scan

__all__ = ["Reader"]


class Reader(Namespace):
    """A namespace that ends, together with its scans, when its database is closed."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path
        self.scans: OpenScans = {}
        self._ended: Reason | None = None

    @abstractmethod
    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Scan:
        """Chunks of the rows with ``lo <= key < hi``, as of this call."""

    def first(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row of a scan, or None if it is empty."""
        return self.scan(lo, hi, reverse=reverse).first()

    def check(self) -> None:
        """Raise if this namespace has ended."""
        DATABASES.notice_fork()
        if self._ended is not None:
            raise self._ended()

    def end(self, reason: Reason, *, leaked: bool = False) -> None:
        """End all scans; every later use raises ``reason``."""
        self._ended = reason
        for scan in list(self.scans.values()):
            alive = scan()
            if alive is not None:
                alive.end(reason, leaked=leaked)

    def _refuse(self, *_: object) -> Any:
        assert self._ended is not None
        raise self._ended()

    def scan_failed(self, error: Exception) -> Exception:
        """Return the kstore error for an error of the binding."""
        return translate(error, f"scan {self.name!r}", self._path)
