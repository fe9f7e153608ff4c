"""An ordered table of bytes, the only interface that layers and shapes use.

All changes go through :meth:`Table.write`; :meth:`Table.put_one` is its case for one row, without
allocations. ``None`` as a value deletes. Ranges are half-open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from kstore_core.engine import Chunk
from kstore_core.keys import Bounds
from kstore_core.tables.points import PointTable
from kstore_core.tables.staging import StagedNamespace
from kstore_core.types import RecordContext

__all__ = ["OFFSETS", "Bounds", "Layer", "NamespaceTable", "StoredTable", "Table", "Write"]

OFFSETS = "offsets"
"""The namespace of offsets, position and the stored spec; Kafka's column family of that name."""


class Write(NamedTuple):
    """One row to write, with the context of its input record."""

    key: bytes
    value: bytes | None
    context: RecordContext | None = None


class Table(Protocol):
    """An ordered map of bytes."""

    @property
    def rows(self) -> StagedNamespace:
        """The namespace of the writes; its close ends scans."""

    @property
    def get(self) -> Callable[[bytes], bytes | None]:
        """The value of a key, or None."""

    @property
    def put_one(self) -> Callable[[bytes, bytes | None], None]:
        """``write`` of a single row without a context and without allocations."""

    @property
    def points(self) -> PointTable | None:
        """The compiled access to single rows, or None."""

    @property
    def segment_of(self) -> Callable[[bytes], int] | None:
        """The segment of a key; None if rows do not lie in segments."""

    @property
    def expire(self) -> Callable[[int], None] | None:
        """Remove all segments before the given one; None if rows do not lie in segments."""

    @property
    def key_overhead(self) -> int:
        """The bytes by which a stored key is longer than its key here."""

    def get_many(self, keys: list[bytes], /) -> list[bytes | None]:
        """Return the values of ``keys``, in their order."""

    def write(self, writes: Iterable[Write], /) -> None:
        """Write rows, in their order: all of them, or none if one is refused."""

    def delete_range(self, lo: bytes, hi: bytes | None, /) -> None:
        """Delete ``lo <= key < hi``; ``hi`` None reaches to the end."""

    def scan(self, bounds: Bounds, /) -> Iterator[Chunk]:
        """Chunks of rows in key order, as of this call."""

    def first(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row of a scan, or None if it is empty."""

    def load(self, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]], /) -> int:
        """Bulk load ascending rows without staging them, and return their number."""

    def approximate_count(self) -> int:
        """Return the approximate number of rows."""


class StoredTable(Table, Protocol):
    """The lowest table of a store, which has namespaces of its own."""

    @property
    def namespaces(self) -> tuple[StagedNamespace, ...]:
        """All namespaces; their staged rows belong in one batch."""


class NamespaceTable:
    """A table of the rows of one namespace. Staged rows hide stored rows."""

    segment_of = expire = None
    key_overhead = 0

    # Methods are bound here, so that a lookup calls the namespace without a frame of the table.

    def __init__(self, rows: StagedNamespace) -> None:
        self.rows = rows
        self.points = rows
        self.namespaces = (rows,)
        self.get = rows.get
        self.get_many = rows.get_many
        self.put_one = rows.put
        self.delete_range = rows.delete_range
        self.first = rows.first
        self.load = rows.load
        self.approximate_count = rows.approximate_count

    def write(self, writes: Iterable[Write]) -> None:
        self.rows.put_many({key: value for key, value, _ in writes})

    def scan(self, bounds: Bounds) -> Iterator[Chunk]:
        return self.rows.scan(bounds.lo, bounds.hi, reverse=bounds.reverse)


class Layer:
    """Base of a table over a table. A layer defines the methods that it changes.

    The other methods are those of the table below, bound once by ``__init__``, so that they cost
    nothing per call. A method that is a special case of a changed one calls the changed one:
    ``put_one`` and ``load`` call ``write``, ``get_many`` calls ``get``, ``first`` calls ``scan``. A
    layer for which that is too slow defines them as well.

    Parameters
    ----------
    below : Table
        The table under the layer.
    """

    rows: StagedNamespace
    get: Callable[[bytes], bytes | None]
    put_one: Callable[[bytes, bytes | None], None]
    get_many: Callable[[list[bytes]], list[bytes | None]]
    write: Callable[[Iterable[Write]], None]
    delete_range: Callable[[bytes, bytes | None], None]
    scan: Callable[[Bounds], Iterator[Chunk]]
    first: Callable[..., tuple[bytes, bytes] | None]
    load: Callable[[Iterable[tuple[Sequence[bytes], Sequence[bytes]]]], int]
    approximate_count: Callable[[], int]
    segment_of: Callable[[bytes], int] | None
    expire: Callable[[int], None] | None
    key_overhead: int

    def __init__(self, below: Table) -> None:
        self.below = below
        for name in Layer.__annotations__:
            if hasattr(type(self), name):
                continue
            general, special = _SPECIAL_CASES.get(name, (None, None))
            if general is not None and special is not None and hasattr(type(self), general):
                setattr(self, name, special.__get__(self))
            else:
                setattr(self, name, getattr(below, name))

    @property
    def points(self) -> PointTable | None:
        """The compiled access of the table below, unless this layer changes single rows."""
        below = self.below
        unchanged = self.get == below.get and self.put_one == below.put_one
        return below.points if unchanged else None


def _put_one(table: Table, key: bytes, value: bytes | None) -> None:
    table.write((Write(key, value),))


def _get_many(table: Table, keys: list[bytes]) -> list[bytes | None]:
    return list(map(table.get, keys))


def _first(
    table: Table, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
) -> tuple[bytes, bytes] | None:
    for keys, values in table.scan(Bounds(lo, hi, reverse)):
        return keys[0], values[0]
    return None


def _load(table: Table, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]) -> int:
    segment_of = table.segment_of
    last: tuple[int, bytes] | None = None
    count = 0
    for keys, values in chunks:
        for key in keys:
            place = (0 if segment_of is None else segment_of(key), key)
            if last is not None and place <= last:
                raise ValueError(f"keys are not ascending: {key!r} after {last[1]!r}")
            last = place
        table.write(map(Write, keys, values))
        count += len(keys)
    return count


_SPECIAL_CASES: dict[str, tuple[str, Any]] = {
    "put_one": ("write", _put_one),
    "load": ("write", _load),
    "get_many": ("get", _get_many),
    "first": ("scan", _first),
}
"""Methods that a layer need not define: the method that each one calls, and its function."""
