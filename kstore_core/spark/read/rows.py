"""The conversion of the rows of key-value and versioned stores to Arrow columns.

Each chunk of a scan is converted as a whole. Only columns that the caller wants are decoded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.codec import decode_column, explode_versions, split_column
from kstore_core.engine import Chunk
from kstore_core.formats import ValueFormat
from kstore_core.spark.columns.arrow import combined
from kstore_core.spark.read.selection import Selection
from kstore_core.tables import Bounds
from kstore_core.tables.version_rows import FOREVER, rows_for, rows_since
from kstore_core.typed.key_value import after_prefix

__all__ = ["binary", "decoded", "gathered", "latest", "of_versions", "versions"]

_ROWS = 8192
_BYTES = 16 * 1024 * 1024
_KEYS_AT_ONCE = 1024


def gathered(chunks: Iterable[Chunk]) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Convert the chunks of a scan to pairs of Arrow arrays, the keys and their rows.

    Small chunks are merged.
    """
    keys: list[bytes] = []
    rows: list[bytes] = []
    size = 0
    for more_keys, more_rows in chunks:
        keys += more_keys
        rows += more_rows
        size += sum(map(len, more_rows))
        if len(keys) >= _ROWS or size >= _BYTES:
            yield binary(keys), binary(rows)
            keys, rows, size = [], [], 0
    if keys:
        yield binary(keys), binary(rows)


def binary(values: list[bytes] | list[bytes | None]) -> pa.Array:
    """Return an Arrow array of type binary."""
    return pa.array(values, pa.binary())


def decoded(
    value_format: ValueFormat, rows: pa.Array, wanted: Collection[str]
) -> dict[str, pa.Array]:
    """Decode stored values to the columns ``value``, ``timestamp`` and ``headers``.

    The result has no column ``timestamp`` if the format stores no times, and no column ``headers``
    if the format stores no headers. A column that is not in ``wanted`` may
    be missing, or may still be encoded.
    """
    if {"value", "timestamp", "headers"}.isdisjoint(wanted):
        return {}
    found: dict[str, pa.Array] = {"value": rows}
    if value_format.headers:
        decode = decode_column if "headers" in wanted else split_column
        if value_format.timestamped:
            found["value"], found["timestamp"], found["headers"] = decode(rows)
        else:
            found["value"], _, found["headers"] = decode(rows, layout="aggregation_with_headers")
    elif value_format.timestamped:
        found["value"], found["timestamp"], _ = decode_column(rows, layout="value_and_timestamp")
    return found


def latest(store: Any, selection: Selection, wanted: Collection[str]) -> Iterator[pa.Table]:
    """Yield the selected records of a key-value store, with ``key`` and the `decoded` columns."""
    if selection.keys is not None:
        chunks = _looked_up(store.table, selection.keys)
    else:
        chunks = store.table.scan(_within(selection.prefix))
    for keys, rows in gathered(chunks):
        yield pa.table({"key": keys, **decoded(store.spec.format, rows, wanted)})


def versions(store: Any, selection: Selection, wanted: Collection[str]) -> Iterator[pa.Table]:
    """Yield the selected versions of a versioned store.

    The columns are ``key``, ``value``, ``timestamp``, ``valid_to``, and ``headers`` if wanted.
    """
    for keys, rows in _version_rows(store, selection):
        table = pa.table(
            explode_versions(keys, rows), names=["key", "value", "timestamp", "valid_to"]
        )
        valid = _valid(selection, table)
        if valid is not None:
            table = table.filter(valid)
        if table.num_rows:
            yield of_versions(store.spec.format, table, wanted)


def of_versions(value_format: ValueFormat, table: pa.Table, wanted: Collection[str]) -> pa.Table:
    """Decode the values of versions. The value of a tombstone stays null."""
    if not value_format.headers or {"value", "headers"}.isdisjoint(wanted):
        return table
    decode = decode_column if "headers" in wanted else split_column
    values, _, headers = decode(
        combined(table["value"], "value"), layout="aggregation_with_headers"
    )
    return table.set_column(1, "value", values).append_column("headers", headers)


def _version_rows(store: Any, selection: Selection) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the keys and rows of the engine that may contain selected versions."""
    earliest = _earliest(store, selection)
    if selection.keys is None:
        yield from gathered(rows_since(store.table, earliest, _within(selection.prefix)))
        return
    for keys in _some_at_once(selection.keys):
        yield from rows_for(store.table, binary(keys), np.full(len(keys), earliest))


def _within(prefix: bytes | None) -> Bounds:
    """Return the bounds of the keys that begin with ``prefix``, or of all keys without a prefix."""
    return Bounds() if prefix is None else Bounds(prefix, after_prefix(prefix))


def _some_at_once(keys: Iterable[bytes]) -> Iterator[list[bytes]]:
    remaining = iter(keys)
    while some := list(islice(remaining, _KEYS_AT_ONCE)):
        yield some


def _looked_up(table: Any, keys: Iterable[bytes]) -> Iterator[Chunk]:
    """Look up keys, and yield the keys that have a row, with these rows."""
    for some in _some_at_once(keys):
        found = [
            (key, row)
            for key, row in zip(some, table.get_many(some), strict=True)
            if row is not None
        ]
        yield [key for key, _ in found], [row for _, row in found]


def _earliest(store: Any, selection: Selection) -> int:
    """Return the oldest time in ms for which versions must be read.

    The result is `FOREVER` if only the latest version of each key is needed. This applies if no
    time is selected, or if all selected times are before the history of the store.
    """
    first, last = selection.as_of, selection.as_of
    if selection.history:
        first, last = selection.from_ts, selection.to_ts
    elif first is None:
        return FOREVER
    if last is not None and store.table.expired(last):
        return FOREVER
    return -(2**63) if first is None else first


def _valid(selection: Selection, table: pa.Table) -> pa.ChunkedArray | None:
    """Return a mask that is true for the selected versions, or None if all versions are."""
    first, last = selection.as_of, selection.as_of
    if selection.history:
        first, last = selection.from_ts, selection.to_ts
    begun = None if last is None else pc.less_equal(table["timestamp"], last)
    if first is None:
        return begun
    still = pc.fill_null(pc.greater(table["valid_to"], first), True)
    return still if begun is None else pc.and_(begun, still)
