"""The base class of the namespaces of a database and of a snapshot."""

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
        """Return an iterator of chunks of the rows with ``lo <= key < hi``."""

    def first(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row that a scan would yield, or None if there is no row."""
        return self.scan(lo, hi, reverse=reverse).first()

    def check(self) -> None:
        """Raise an error if this namespace has ended."""
        DATABASES.notice_fork()
        if self._ended is not None:
            raise self._ended()

    def end(self, reason: Reason, *, leaked: bool = False) -> None:
        """End the namespace and its scans. Later uses raise the error that ``reason`` returns."""
        self._ended = reason
        for scan in list(self.scans.values()):
            alive = scan()
            if alive is not None:
                alive.end(reason, leaked=leaked)

    def _refuse(self, *_: object) -> Any:
        assert self._ended is not None
        raise self._ended()

    def scan_failed(self, error: Exception) -> Exception:
        """Return the kstore error for a native error of a scan."""
        return translate(error, f"scan {self.name!r}", self._path)
