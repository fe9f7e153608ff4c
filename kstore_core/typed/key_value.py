"""The key-value store, which stores one value for each key."""

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

    Ranges include both ends and have the order of the serialised keys. If an end is None, the range
    has no limit at this end. A time must be an int (ms) or a datetime with a time zone.

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
        self._item = values.item
        self._table_of = values.table
        self._bound = (values, table, context.touch)
        self._bind(*self._bound)
        self.parts = StoreParts(repr(self), spec, context, table, values)

    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """Return the values of ``keys`` in the order of ``keys``; None for a missing key."""
        given = list(keys)
        raws = self.table.get_many([self._raw_key(key) for key in given])
        read = self._encoder.read
        return [
            None if raw is None else read(raw, key) for key, raw in zip(given, raws, strict=True)
        ]

    def put_if_absent(
        self, key: K, value: Any, *, timestamp: Time | None = None, headers: Any = None
    ) -> V | None:
        """Put the value if ``key`` has no value. Return the previous value, or None."""
        old = self.get(key)
        if old is None:
            self.put(key, value, timestamp=timestamp, headers=headers)
        return old

    def put_all(self, pairs: Iterable[tuple[K, Any]] | Mapping[K, Any]) -> None:
        """Put many pairs of a key and a value. If a pair is refused, no pair is written."""
        record = self._current_record.of_a_write()
        # Read all pairs first, because their iterator may use ``state.record`` itself.
        given = list(pairs.items() if isinstance(pairs, Mapping) else pairs)
        row = self._encoder.row
        writes = [Write(*row(key, value, None, None)) for key, value in given]
        self.table.write(writes)
        if writes and record is not None:
            self._touch(record)

    def put_many(self, keys: Any, values: Any, timestamps: Any = None, headers: Any = None) -> None:
        """Put many rows. The result is the same as after one put for each row, in order.

        Parameters
        ----------
        keys, values : Arrow arrays, or sequences
            A null value deletes the key. Arrow arrays of types that built-in serdes accept are
            encoded without a Python object for each value.
        timestamps : Arrow array of int64 (ms) or of timestamps, or sequence, optional
            By default the timestamp of the current input record.
        headers : Arrow array of list<struct<key: string, value: binary>>, or sequence, optional
            By default the headers of the current input record, or no headers without a record.

        Raises
        ------
        ValueError, TypeError
            The columns differ in length, or a key or timestamp is missing, or a value has a type
            that the serde or the format does not accept. Nothing was put.
        UncommittedLimitError, StorageFullError
            See :meth:`put`. Rows are staged in chunks of 16,384. The rows of the chunks before the
            error stay staged.
        """
        record = self._current_record.of_a_write()
        chunks = encoded(self._encoder, keys, values, timestamps, headers)
        for _, raw_keys, raws in chunks:
            if type(self.table) is NamespaceTable:  # without an object for each row
                self.table.rows.put_columns(raw_keys, raws)
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
            See :meth:`put_many`.
        """
        found = columns_of(table, columns_of_format(self.spec), (), self.name)
        self.put_many(found["key"], found["value"], found.get("timestamp"), found.get("headers"))

    def delete(self, key: K) -> V | None:
        """Delete ``key``. Return the deleted value, or None if the key had no value."""
        record = self._current_record.of_a_write()
        old = self.get(key)
        self.table.put_one(self._raw_key(key), None)
        if record is not None:
            self._touch(record)
        return old

    def range(self, lo: K | None, hi: K | None, *, reverse: bool = False) -> Scan[K, V]:
        """Return a scan of the items with ``lo <= key <= hi``.

        The scan is empty if ``lo`` is after ``hi``.
        """
        first = None if lo is None else self._raw_key(lo)
        last = None if hi is None else self._raw_key(hi)
        return self._scan(Bounds(first, None if last is None else last + b"\0", reverse))

    def all(self, *, reverse: bool = False) -> Scan[K, V]:
        """Return a scan of all items."""
        return self._scan(Bounds(reverse=reverse))

    def prefix_scan(self, prefix: Any, *, reverse: bool = False) -> Scan[K, V]:
        """Return a scan of the items whose serialised key begins with ``prefix``.

        Parameters
        ----------
        prefix : bytes or key
            The bytes of the prefix, or an object that the serde of the keys serialises.
        """
        first = bytes(prefix) if isinstance(prefix, (bytes, bytearray)) else self._raw_key(prefix)
        return self._scan(Bounds(first, after_prefix(first), reverse))

    def approximate_num_entries(self) -> int:
        """Return the engine's estimate of the number of keys plus the number of staged values."""
        return self.table.approximate_count()

    def _change(self, row: bytes, raw: bytes) -> tuple[K, V]:
        found: tuple[K, V] = self._item(row, raw)
        return found

    def _scan(self, bounds: Bounds) -> Scan[K, V]:
        return Scan(
            self.table.rows, self.table.scan(bounds), self._item, self._table_of, packed=True
        )


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the first byte string that is greater than all byte strings with this prefix.

    Return None if there is no such byte string.
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


TimestampedKeyValueStore: TypeAlias = KeyValueStore[K, ValueAndTimestamp[V]]
"""A key-value store of values with their time (KIP-258)."""

TimestampedKeyValueStoreWithHeaders: TypeAlias = KeyValueStore[K, ValueTimestampHeaders[V]]
"""A key-value store of values with their time and headers (KIP-1271)."""
