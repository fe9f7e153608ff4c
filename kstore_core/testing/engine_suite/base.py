"""What the parts of the engine suite share: databases that end up closed, rows in and out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kstore_core.engine import Database, Durability, Namespace, Rows
from kstore_core.testing.suite import Suite, refuses

__all__ = [
    "STORE",
    "EnginePart",
    "Pairs",
    "numbered",
    "path_under",
    "put",
    "read",
    "refuses",
    "within",
]

STORE = "orders"
"""The store of most tests. Messages must name it."""

Pairs = list[tuple[bytes, bytes]]


class EnginePart(Suite):
    """Base of every part of the engine suite."""

    def open(
        self,
        store: str = STORE,
        *,
        durability: Durability = "process",
        read_only: bool = False,
        root: Path | None = None,
    ) -> Database:
        """A database that is closed at the end of the test."""
        database = self.engine.open(
            root or self.root, store, durability=durability, read_only=read_only
        )
        self._opened.callback(database.close)
        return database

    def reopen(self, database: Database, *, read_only: bool = False) -> Database:
        """Close ``database`` and open it again, by another engine object where rows persist."""
        database.close()
        if self.able.persistent:
            self.engine = self.new_engine()
        return self.open(read_only=read_only)

    def filled(self, rows: Mapping[bytes, bytes], **arguments: Any) -> Database:
        """A database whose default namespace holds ``rows``."""
        database = self.open(**arguments)
        put(database, rows)
        return database


def put(database: Database, rows: Mapping[bytes, bytes | None], namespace: str = "default") -> None:
    """Write rows in one batch; the namespace is made where it is missing."""
    database.namespace(namespace)
    keys = sorted(rows)
    database.write({namespace: Rows(keys, [rows[key] for key in keys])})


def read(chunks: Iterable[Any] | Namespace) -> Pairs:
    """Every row of a scan, or of a namespace; each chunk is held to what the SPI promises of it."""
    rows: Pairs = []
    for chunk in chunks.scan() if isinstance(chunks, Namespace) else chunks:
        keys, values = chunk
        assert type(keys) is list, f"a chunk is a pair of lists, not of {type(keys).__name__}"
        assert type(values) is list, f"a chunk is a pair of lists, not of {type(values).__name__}"
        assert keys, "a chunk is never empty; a scan without further rows ends"
        assert len(keys) == len(values), "the keys and the values of a chunk are parallel"
        assert {*map(type, keys), *map(type, values)} == {bytes}, "keys and values are bytes"
        rows += zip(keys, values, strict=True)
    return rows


def numbered(count: int, value: bytes = b"v", start: int = 0) -> dict[bytes, bytes]:
    """Rows with ascending keys."""
    return {b"%08d" % number: value for number in range(start, start + count)}


def path_under(root: Path, database: Database, home: Path) -> Path:
    """Where the engine looks under ``root`` for the store that ``database`` is under ``home``."""
    return root / database.path.absolute().relative_to(home.absolute())


def within(
    rows: Mapping[bytes, bytes], lo: bytes | None, hi: bytes | None, *, reverse: bool = False
) -> Pairs:
    """What a scan of ``rows`` has to give: ``lo <= key < hi`` in unsigned order, or backwards."""
    return [
        (key, rows[key])
        for key in sorted(rows, reverse=reverse)
        if (lo is None or lo <= key) and (hi is None or key < hi)
    ]
