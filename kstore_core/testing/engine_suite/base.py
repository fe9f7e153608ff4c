"""The base class of the engine suite, which opens databases and closes them after each test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kstore_core.engine import Database, Durability, Namespace, Rows, Snapshot
from kstore_core.testing.suite import Suite, refuses

__all__ = ["STORE", "EnginePart", "Pairs", "numbered", "path_under", "put", "read", "refuses",
           "within"]  # fmt: skip

STORE = "orders"
"""The name of the store in most tests. Error messages must contain this name."""

Pairs = list[tuple[bytes, bytes]]


class EnginePart(Suite):
    """The base class of all test classes of the engine suite."""

    def open(
        self,
        store: str = STORE,
        *,
        durability: Durability = "process",
        read_only: bool = False,
        root: Path | None = None,
    ) -> Database:
        """Open a database that is closed at the end of the test."""
        database = self.engine.open(
            root or self.root, store, durability=durability, read_only=read_only
        )
        self._opened.callback(database.close)
        return database

    def reopen(self, database: Database, *, read_only: bool = False) -> Database:
        """Close and reopen ``database``, with a new engine object if the engine is persistent."""
        database.close()
        if self.able.persistent:
            self.engine = self.new_engine()
        return self.open(read_only=read_only)

    def filled(self, rows: Mapping[bytes, bytes], **arguments: Any) -> Database:
        """Open a database, and write ``rows`` to its default namespace."""
        database = self.open(**arguments)
        put(database, rows)
        return database


def put(database: Database, rows: Mapping[bytes, bytes | None], namespace: str = "default") -> None:
    """Write rows in one batch. Create the namespace if it is missing."""
    database.namespace(namespace)
    keys = sorted(rows)
    database.write({namespace: Rows(keys, [rows[key] for key in keys])})


def read(source: Iterable[Any] | Namespace | Database | Snapshot) -> Pairs:
    """Return all rows of a scan or a namespace, and check each chunk.

    If the argument is a database or a snapshot, read its namespace ``default``.
    """
    if isinstance(source, Database | Snapshot):
        source = source.namespace("default")
    rows: Pairs = []
    for chunk in source.scan() if isinstance(source, Namespace) else source:
        keys, values = chunk
        assert type(keys) is list, f"a chunk is a pair of lists, not of {type(keys).__name__}"
        assert type(values) is list, f"a chunk is a pair of lists, not of {type(values).__name__}"
        assert keys, "a chunk is never empty; a scan without further rows ends"
        assert len(keys) == len(values), "the keys and the values of a chunk are parallel"
        assert {*map(type, keys), *map(type, values)} == {bytes}, "keys and values are bytes"
        rows += zip(keys, values, strict=True)
    return rows


def numbered(count: int, value: bytes = b"v", start: int = 0) -> dict[bytes, bytes]:
    """Return ``count`` rows, whose keys are ascending numbers of eight digits."""
    return {b"%08d" % number: value for number in range(start, start + count)}


def path_under(root: Path, database: Database, home: Path) -> Path:
    """Return the path that a database of the state directory ``home`` would have in ``root``."""
    return root / database.path.absolute().relative_to(home.absolute())


def within(
    rows: Mapping[bytes, bytes], lo: bytes | None, hi: bytes | None, *, reverse: bool = False
) -> Pairs:
    """Return the rows with ``lo <= key < hi``, sorted as a scan must return them."""
    return [
        (key, rows[key])
        for key in sorted(rows, reverse=reverse)
        if (lo is None or lo <= key) and (hi is None or key < hi)
    ]
