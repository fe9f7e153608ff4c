"""The rows of key-value and versioned stores, as Arrow columns, chunk by chunk.

A scan gives rows as lists of bytes; a whole chunk of them becomes Arrow arrays at once, and what is
decoded is decoded by column. What nobody asks for stays encoded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.clock import segment_id
from kstore_core.codec import decode_column, explode_versions, split_column
from kstore_core.engine import Chunk
from kstore_core.formats import ValueFormat
from kstore_core.spark.columns.arrow import combined
from kstore_core.spark.read.selection import Selection
from kstore_core.tables import Bounds
from kstore_core.tables.versioned import LATEST_PREFIX
from kstore_core.typed.key_value import after_prefix

__all__ = ["binary", "gathered", "latest", "of_versions", "taken_apart", "versions"]

_ROWS = 8192
_BYTES = 16 * 1024 * 1024
_KEYS_AT_ONCE = 1024


def gathered(chunks: Iterable[Chunk]) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Keys and values of the chunks of a scan, of several together where they are small."""
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
    """A binary array of these.

    Raises
    ------
    pyarrow.ArrowCapacityError
        It would hold more than 2 GiB.
    """
    return pa.array(values, pa.binary())


def taken_apart(
    value_format: ValueFormat, rows: pa.Array, wanted: Collection[str]
) -> dict[str, pa.Array]:
    """What is in stored values: the value and, as far as the format keeps them, time and headers.

    Columns that are not ``wanted`` may be missing, or not be decoded.
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
    """The selected records of a key-value store: key, and what :func:`taken_apart` gives."""
    if selection.keys is not None:
        chunks = _looked_up(store.table, selection.keys)
    else:
        chunks = store.table.scan(_within(b"", selection.prefix))
    for keys, rows in gathered(chunks):
        yield pa.table({"key": keys, **taken_apart(store.spec.format, rows, wanted)})


def versions(store: Any, selection: Selection, wanted: Collection[str]) -> Iterator[pa.Table]:
    """The selected versions: key, value, timestamp, valid_to, and headers where they are wanted."""
    for keys, rows in gathered(_version_rows(store, selection)):
        table = pa.table(
            explode_versions(keys, rows), names=["key", "value", "timestamp", "valid_to"]
        )
        valid = _valid(selection, table)
        if valid is not None:
            table = table.filter(valid)
        if table.num_rows:
            yield of_versions(store.spec.format, table, wanted)


def of_versions(value_format: ValueFormat, table: pa.Table, wanted: Collection[str]) -> pa.Table:
    """Versions with their values taken apart; a null value is a tombstone and stays null."""
    if not value_format.headers or {"value", "headers"}.isdisjoint(wanted):
        return table
    decode = decode_column if "headers" in wanted else split_column
    values, _, headers = decode(
        combined(table["value"], "value"), layout="aggregation_with_headers"
    )
    return table.set_column(1, "value", values).append_column("headers", headers)


def _version_rows(store: Any, selection: Selection) -> Iterator[Chunk]:
    """The physical rows that can hold what is selected."""
    rows = store.table.rows
    first = _first_segment(store, selection)
    if selection.keys is None and selection.prefix is None:
        return iter(rows.scan(Bounds(first)))
    live = [number.to_bytes(8, "big") for number in store.table.segments]
    segments = [segment for segment in live if first is None or segment >= first]
    segments.append(LATEST_PREFIX)
    return (
        chunk
        for segment in segments
        for chunk in (
            rows.scan(_within(segment, selection.prefix))
            if selection.keys is None
            else _looked_up(rows, [segment + key for key in selection.keys])
        )
    )


def _within(segment: bytes, prefix: bytes | None) -> Bounds:
    """The rows of a segment whose keys begin with ``prefix``."""
    if prefix is None:
        return Bounds()
    return Bounds(segment + prefix, after_prefix(segment + prefix))


def _looked_up(rows: Any, keys: Iterable[bytes]) -> Iterator[Chunk]:
    """Those of ``keys`` that are there, with their rows."""
    remaining = iter(keys)
    while asked := list(islice(remaining, _KEYS_AT_ONCE)):
        found = [
            (key, row)
            for key, row in zip(asked, rows.get_many(asked), strict=True)
            if row is not None
        ]
        yield [key for key, _ in found], [row for _, row in found]


def _first_segment(store: Any, selection: Selection) -> bytes | None:
    """Where the rows that can hold what is selected begin: versions lie by valid-to."""
    if not selection.history:
        time, begin = selection.as_of, selection.as_of
        if time is None:
            return LATEST_PREFIX
    else:
        time, begin = selection.to_ts, selection.from_ts
    if time is not None and store.table.expired(time):
        return LATEST_PREFIX
    if begin is None or begin < 0:
        return None
    return segment_id(begin, store.spec.segment_interval_ms).to_bytes(8, "big")


def _valid(selection: Selection, table: pa.Table) -> pa.ChunkedArray | None:
    """Which versions are selected; None for all of them."""
    first, last = selection.as_of, selection.as_of
    if selection.history:
        first, last = selection.from_ts, selection.to_ts
    begun = None if last is None else pc.less_equal(table["timestamp"], last)
    if first is None:
        return begun
    still = pc.fill_null(pc.greater(table["valid_to"], first), True)
    return still if begun is None else pc.and_(begun, still)
