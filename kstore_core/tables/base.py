"""The interface of a table, which is an ordered map of bytes.

:meth:`Table.write` writes any number of rows. :meth:`Table.put_one` writes a single row and is
faster, because it allocates nothing. A value of ``None`` deletes the row. A range includes its
lower end and excludes its upper end.
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
"""The namespace with a store's offsets, position and spec.

On RocksDB it is the column family to which Kafka Streams writes its offsets.
"""


class Write(NamedTuple):
    """One row to write, with the topic, offset, time and headers of its input record.

    Attributes
    ----------
    key : bytes
    value : bytes or None
        The value, or None to delete the row.
    context : RecordContext, optional
        The topic, partition, offset, time and headers of the input record.
    """

    key: bytes
    value: bytes | None
    context: RecordContext | None = None


class Table(Protocol):
    """An ordered map of bytes."""

    @property
    def rows(self) -> StagedNamespace:
        """The namespace that stages the writes. After its close, scans of the table fail."""

    @property
    def get(self) -> Callable[[bytes], bytes | None]:
        """A function that returns the value of a key, or None if the key is missing."""

    @property
    def put_one(self) -> Callable[[bytes, bytes | None], None]:
        """A function that writes one row without the context of an input record."""

    @property
    def points(self) -> PointTable | None:
        """An object through which compiled code reads and writes single rows; None if absent."""

    @property
    def segment_of(self) -> Callable[[bytes], int] | None:
        """A function that returns the segment id of a key; None if the table has no segments."""

    @property
    def expire(self) -> Callable[[int], None] | None:
        """A function that removes the segments before a segment id; None without segments."""

    @property
    def key_overhead(self) -> int:
        """The number of bytes that the storage adds to each key of the table."""

    def get_many(self, keys: list[bytes], /) -> list[bytes | None]:
        """Return the values of ``keys`` in the order of ``keys``."""

    def write(self, writes: Iterable[Write], /) -> None:
        """Write rows in the given order. If a row is refused, no row is written."""

    def delete_range(self, lo: bytes, hi: bytes | None, /) -> None:
        """Delete the rows with ``lo <= key < hi``, or with ``lo <= key`` if ``hi`` is None."""

    def scan(self, bounds: Bounds, /) -> Iterator[Chunk]:
        """Return an iterator of chunks of rows in key order.

        Later writes do not change the result.
        """

    def first(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row that a scan would yield, or None if there is no row."""

    def load(self, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]], /) -> int:
        """Load rows in ascending order without staging them, and return their number."""

    def approximate_count(self) -> int:
        """Return the approximate number of rows."""


class StoredTable(Table, Protocol):
    """A table that stores rows in namespaces and not in a table below it."""

    @property
    def namespaces(self) -> tuple[StagedNamespace, ...]:
        """All namespaces of the table. A commit must write their staged rows in one batch."""


class NamespaceTable:
    """A table of the rows of one namespace. A staged row hides the stored row with its key."""

    segment_of = expire = None
    key_overhead = 0

    # The namespace's methods become attributes of the table, so a lookup needs only one call.

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
    """The base class of a table that wraps another table.

    A subclass defines only the methods that it changes. All other methods of its objects are the
    methods of the table below, so their calls take no extra time.

    There are exceptions. If a subclass defines ``write``, its ``put_one`` and ``load`` call this
    ``write``. If a subclass defines ``get``, its ``get_many`` calls this ``get``. If a subclass
    defines ``scan``, its ``first`` calls this ``scan``. To make ``put_one``, ``load``, ``get_many``
    or ``first`` faster, a subclass may also define the method itself.

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
        """The ``points`` of the table below; None if this layer changes ``get`` or ``put_one``."""
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
                raise ValueError(f"keys are not ascending: {key!r} follows {last[1]!r}")
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
"""For each method that can call another method: that other method, and the function to bind."""
