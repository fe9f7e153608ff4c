"""One moment of a whole database, for as long as somebody wants it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from weakref import WeakSet

from kstore_core.engine import Snapshot
from kstore_lmdb import living
from kstore_lmdb.errors import Reason, closed
from kstore_lmdb.moment import EMPTY, Moment
from kstore_lmdb.namespace import LMDBNamespace, Source
from kstore_lmdb.scan import Scan

__all__ = ["LMDBSnapshot"]


class SnapshotNamespace(LMDBNamespace):
    """A namespace as it was. Its scans end with the snapshot, others of the moment go on."""

    def __init__(self, name: str, source: Source) -> None:
        super().__init__(name, source)
        self._scans: WeakSet[Scan] = WeakSet()

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Scan:
        """Chunks of the rows with ``lo <= key < hi``, as of the snapshot."""
        scan = super().scan(lo, hi, reverse=reverse)
        self._scans.add(scan)
        return scan

    def end(self, reason: Reason) -> None:
        """End all scans; everything from now on raises ``reason``. The caller holds the lock."""
        super().end(reason)
        for scan in self._scans:
            scan.end(reason)


class LMDBSnapshot(Snapshot):
    """The namespaces of a database as they were together."""

    def __init__(self, path: Path, guard: AbstractContextManager[Any], moment: Moment) -> None:
        self.path = path
        self.guard = guard
        self._moment: Moment | None = moment
        self._namespaces: dict[str, SnapshotNamespace] = {}

    def moment(self) -> Moment:
        """The moment; raises once the snapshot is closed."""
        if self._moment is None:
            reason = closed(self.path)
            raise reason()
        return self._moment

    def namespace(self, name: str) -> SnapshotNamespace:
        """The namespace as it was; raises KeyError where there was none."""
        living.notice_fork()
        moment = self.moment()
        moment.read()
        if name == EMPTY or name not in moment.handles:
            raise KeyError(name)
        return self._namespaces.setdefault(name, SnapshotNamespace(name, self))

    def close(self) -> None:
        """Let go of the moment. Closing twice is fine."""
        moment, self._moment = self._moment, None
        if moment is not None:
            with moment.lock:
                for namespace in self._namespaces.values():
                    namespace.end(closed(self.path))
            self._namespaces = {}
