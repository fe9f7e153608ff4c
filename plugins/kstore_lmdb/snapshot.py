"""One moment of a whole database, for as long as somebody wants it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from kstore_core.engine import Snapshot
from kstore_lmdb import living
from kstore_lmdb.errors import closed
from kstore_lmdb.moment import EMPTY, Moment
from kstore_lmdb.namespace import LMDBNamespace

__all__ = ["LMDBSnapshot"]


class LMDBSnapshot(Snapshot):
    """The namespaces of a database as they were together."""

    def __init__(self, path: Path, guard: AbstractContextManager[Any], moment: Moment) -> None:
        self.path = path
        self.guard = guard
        self._moment: Moment | None = moment
        self._closed = closed(path)

    def moment(self) -> Moment:
        """The moment; raises once the snapshot is closed."""
        if self._moment is None:
            raise self._closed()
        return self._moment

    def namespace(self, name: str) -> LMDBNamespace:
        """The namespace as it was; raises KeyError where there was none."""
        living.notice_fork()
        moment = self.moment()
        moment.read()
        if name == EMPTY or name not in moment.handles:
            raise KeyError(name)
        return LMDBNamespace(name, self)

    def close(self) -> None:
        """Let go of the moment. Closing twice is fine."""
        self._moment = None
