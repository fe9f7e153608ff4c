"""A replacement for a closed database. It opens the real database at the next use.

While the real database is closed, the namespaces with staged rows refer to the replacement. Writes
to these namespaces and lookups in them work as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from kstore_core.engine import Chunk, Database, Namespace, Rows, Snapshot
from kstore_core.tables.staging import AbsentNamespace

__all__ = ["SleepingDatabase"]


class Sleeper(Protocol):
    """The owner of a database. The owner closes the database only while it holds the lock."""

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    def wake(self, *, make: bool = False) -> Database | None:
        """Open the database if it is closed, and return the database.

        If the database does not exist, create it if ``make`` is True; otherwise return None.
        """


class SleepingDatabase(Database):
    """A replacement for a closed database. Its methods open the real database.

    Attributes
    ----------
    names : list of str
        The names of the namespaces that the real database had when it was closed.
    """

    def __init__(self, sleeper: Sleeper, path: Path) -> None:
        self.path = path
        self.names: list[str] = []
        self._sleeper = sleeper

    def namespaces(self) -> list[str]:
        return self.names

    def namespace(self, name: str) -> Namespace:
        return _SleepingNamespace(name, self._sleeper)

    def write(self, batch: Mapping[str, Rows]) -> None:
        self._made().write(batch)

    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        return self._made().load(namespace, chunks)

    def sync(self) -> None:
        """Do nothing, because the close of the real database has made all writes durable."""

    def close(self) -> None:
        """Do nothing, because the real database is closed."""

    def drop_namespace(self, name: str) -> None:
        self._made().drop_namespace(name)

    def snapshot(self) -> Snapshot:
        return self._made().snapshot()

    def checkpoint(self, target: Path) -> None:
        self._made().checkpoint(target)

    def _made(self) -> Database:
        database = self._sleeper.wake(make=True)
        assert database is not None
        return database


class _SleepingNamespace(Namespace):
    def __init__(self, name: str, sleeper: Sleeper) -> None:
        self.name = name
        self._sleeper = sleeper

    def _awake(self) -> Namespace:
        database = self._sleeper.wake()
        if database is None or self.name not in database.namespaces():
            return AbsentNamespace(self.name)
        return database.namespace(self.name)

    def get(self, key: bytes) -> bytes | None:
        with self._sleeper.lock:
            return self._awake().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._awake().get_many(keys)

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Chunk]:
        return self._awake().scan(lo, hi, reverse=reverse)

    def first(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        return self._awake().first(lo, hi, reverse=reverse)

    def approximate_count(self) -> int:
        return self._awake().approximate_count()
