"""The key-value store: one value per key, in any format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from kstore_core.query.parts import StoreParts
from kstore_core.spec import StoreSpec
from kstore_core.tables import Bounds, NamespaceTable, Table, Write
from kstore_core.tables.scan import Scan
from kstore_core.typed.bulk import columns_of, columns_of_format, encoded
from kstore_core.typed.points import Points
from kstore_core.typed.store import Store, StoreContext
from kstore_core.typed.values import values_of
from kstore_core.types import Time, ValueAndTimestamp, ValueTimestampHeaders

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "KeyValueStore",
    "TimestampedKeyValueStore",
    "TimestampedKeyValueStoreWithHeaders",
]

K = TypeVar("K")
V = TypeVar("V")


class KeyValueStore(Points[K, V], Store[K], Generic[K, V]):
    """A key-value store. ``V`` is the type of the value, or of the record that contains the value.

    Ranges are inclusive at both ends. They are in the order of the serialised keys. If an end is
    None, the range is open at this end. Times are ints (ms) or aware datetimes.

    Attributes
    ----------
    table : Table
        The table of serialised keys and values.
    """

    def __init__(self, spec: StoreSpec, table: Table, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.table = table
        values = self._encoder = values_of(spec, context.current_record)
        self._raw_key = values.raw_key
        self._row = values.row
        self._read = values.read
        self._item = values.item
        self._table_of = values.table
        self._bind(values, table, context.touch)
        self.parts = StoreParts(repr(self), spec, context, table, values)

    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """Return the values of ``keys`` in their order, and None for each key without a value."""
        given = list(keys)
        raws = self.table.get_many([self._raw_key(key) for key in given])
        read = self._read
        return [
            None if raw is None else read(raw, key) for key, raw in zip(given, raws, strict=True)
        ]

    def put_if_absent(
        self, key: K, value: Any, *, timestamp: Time | None = None, headers: Any = None
    ) -> V | None:
        """Put the value if ``key`` has none. Return the existing value, or None."""
        old = self.get(key)
        if old is None and value is not None:
            self.put(key, value, timestamp=timestamp, headers=headers)
        return old

    def put_all(self, pairs: Iterable[tuple[K, Any]] | Mapping[K, Any]) -> None:
        """Put many pairs. If a pair is refused, no pair is written."""
        record = self._current_record.of_a_write()
        # Read all pairs first: their iterator may enter records of its own.
        given = list(pairs.items() if isinstance(pairs, Mapping) else pairs)
        writes = [Write(*self._row(key, value, None, None)) for key, value in given]
        self.table.write(writes)
        if writes and record is not None:
            self._touch(record)

    def put_many(self, keys: Any, values: Any, timestamps: Any = None, headers: Any = None) -> None:
        """Put many rows at once. The result is the same as that of one put per row, in their order.

        Parameters
        ----------
        keys, values : Arrow arrays, or sequences
            A null value deletes. Arrow arrays of types that built-in serdes take are encoded
            without an object for each row.
        timestamps : Arrow array of int64 (ms) or of timestamps, or sequence, optional
            By default the input record's.
        headers : Arrow array of list<struct<key: string, value: binary>>, or sequence, optional
            By default the input record's, or none.

        Raises
        ------
        ValueError, TypeError
            The columns differ in length, a key or timestamp is missing, or a value has a type that
            the serde or the format does not take. Nothing was put.
        UncommittedLimitError, StorageFullError
            As for :meth:`put`. Rows are staged in chunks of 16,384. The chunks before the error
            are staged.
        """
        record = self._current_record.of_a_write()
        chunks = encoded(self._encoder, keys, values, timestamps, headers)
        for _, raw_keys, raws in chunks:
            if type(self.table) is NamespaceTable:  # without an object for each row
                self.table.rows.put_many(dict(zip(raw_keys, raws, strict=True)))
            else:
                self.table.write(map(Write, raw_keys, raws))
        if record is not None and len(keys):
            self._touch(record)

    def put_arrow(self, table: pa.Table | pa.RecordBatch) -> None:
        """Put the rows of a table with the columns of :meth:`Scan.to_arrow`.

        Parameters
        ----------
        table : pyarrow.Table or pyarrow.RecordBatch
            The columns ``key`` and ``value``, and ``timestamp`` and ``headers`` if the format has
            them.

        Raises
        ------
        SpecError
            A column is missing or unknown. Nothing was put.
        ValueError, TypeError, UncommittedLimitError, StorageFullError
            As for :meth:`put_many`.
        """
        found = columns_of(table, columns_of_format(self.spec), (), self.name)
        self.put_many(found["key"], found["value"], found.get("timestamp"), found.get("headers"))

    def delete(self, key: K) -> V | None:
        """Delete ``key``. Return its value, or None if it had no value."""
        record = self._current_record.of_a_write()
        old = self.get(key)
        self.table.put_one(self._raw_key(key), None)
        if record is not None:
            self._touch(record)
        return old

    def range(self, lo: K | None, hi: K | None, *, reverse: bool = False) -> Scan[K, V]:
        """Return the items with ``lo <= key <= hi``. There are none if ``lo`` is after ``hi``."""
        first = None if lo is None else self._raw_key(lo)
        last = None if hi is None else self._raw_key(hi)
        return self._scan(Bounds(first, None if last is None else last + b"\0", reverse))

    def all(self, *, reverse: bool = False) -> Scan[K, V]:
        """Return all items."""
        return self._scan(Bounds(reverse=reverse))

    def prefix_scan(self, prefix: Any, *, reverse: bool = False) -> Scan[K, V]:
        """Return the items whose serialised key begins with ``prefix``.

        Parameters
        ----------
        prefix : bytes or key
            A key is serialised.
        """
        first = bytes(prefix) if isinstance(prefix, (bytes, bytearray)) else self._raw_key(prefix)
        return self._scan(Bounds(first, after_prefix(first), reverse))

    def approximate_num_entries(self) -> int:
        """Return the approximate number of keys: the engine's estimate plus the staged rows."""
        return self.table.approximate_count()

    def _change(self, row: bytes, raw: bytes) -> tuple[K, V]:
        found: tuple[K, V] = self._item(row, raw)
        return found

    def _scan(self, bounds: Bounds) -> Scan[K, V]:
        return Scan(self.table.rows, self.table.scan(bounds), self._item, self._table_of)


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the first byte string after all byte strings that begin with ``prefix``.

    Return None if there is no such byte string.
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


TimestampedKeyValueStore: TypeAlias = KeyValueStore[K, ValueAndTimestamp[V]]
"""A key-value store of values with their time (KIP-258)."""

TimestampedKeyValueStoreWithHeaders: TypeAlias = KeyValueStore[K, ValueTimestampHeaders[V]]
"""A key-value store of values with their time and headers (KIP-1271)."""
