"""The conversion of the rows of window and session stores to Arrow columns.

The times in a row's key have fixed positions (docs/formats.md, Keys), so slices of the column of
row keys extract the user's keys and the times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.engine import Chunk
from kstore_core.keys import MAX_TIME, Fetch, RowKeys, rows_of
from kstore_core.spark.read.rows import decoded, gathered
from kstore_core.spark.read.selection import Selection
from kstore_core.spec import StoreSpec
from kstore_core.typed.key_value import after_prefix

__all__ = ["key_columns", "segment_rows", "windows"]

_KEYS_FIRST, _BY_TIME = -1, 0
_Place = tuple[int, int]
_END = 2**31 - 1  # This is greater than any key's length. A slice without end overflows in Arrow.


def windows(store: Any, selection: Selection, wanted: Collection[str]) -> Iterator[pa.Table]:
    """Yield tables of the selected rows that have not expired, with key and value columns."""
    spec = store.spec
    for keys, rows in gathered(_rows(store, selection)):
        columns = key_columns(spec, keys)
        columns.update(decoded(spec.format, rows, wanted))
        table = pa.table(columns)
        if selection.prefix is not None:
            table = table.filter(pc.starts_with(table["key"], selection.prefix))
        if table.num_rows:
            yield table


def segment_rows(store: Any, segment: int) -> Iterator[Chunk]:
    """Return the rows of one segment that have not expired, sorted by key."""
    keys = rows_of(store.spec.shape, time_ordered=store.spec.time_ordered)
    earliest, latest, _ = _times(store, Selection(), keys.hidden)
    whole = keys.schema.fetch(store.spec.segment_interval_ms, None, None, earliest, latest)
    bounds = replace(whole.bounds, segment_lo=segment, segment_hi=segment)
    return whole._replace(bounds=bounds).scan(store.table)


def key_columns(spec: StoreSpec, rows: pa.Array) -> dict[str, pa.Array]:
    """Return the columns that row keys contain.

    The columns are the user's key, the times of the window or session, and the sequence number if
    the store retains duplicates.
    """
    lead = _lead(rows, ordered=spec.time_ordered)
    width = 16 if spec.shape == "session" else 12
    first: _Place = (-width, 8 - width)
    second: _Place = (8 - width, _END)
    key: _Place = (0 if lead == _KEYS_FIRST else 1, -width)
    if lead == _BY_TIME:
        first = (1, 9)
        second, key = ((9, 17), (17, _END)) if width == 16 else ((-4, _END), (9, -4))
    keys = pc.binary_slice(rows, *key)
    times = _integers(rows, first, ">i8")
    if spec.shape == "session":
        starts = _integers(rows, second, ">i8")
        return {"key": keys, "session_start": pa.array(starts), "session_end": pa.array(times)}
    size = spec.window_size_ms
    assert size is not None
    ends = np.where(times <= MAX_TIME - size, times + np.int64(size), MAX_TIME)
    columns = {"key": keys, "window_start": pa.array(times), "window_end": pa.array(ends)}
    if spec.retain_duplicates:
        columns["sequence"] = pa.array(_integers(rows, second, ">i4"))
    return columns


def _lead(rows: pa.Array, *, ordered: bool) -> int:
    """Return the prefix byte of the row keys in a chunk, or `_KEYS_FIRST` without such a byte.

    Only the row keys of time-ordered stores have a prefix byte; see :class:`KeySchema`.
    """
    return rows[0].as_py()[0] if ordered and len(rows) else _KEYS_FIRST


def _integers(rows: pa.Array, place: _Place, dtype: str) -> npt.NDArray[np.signedinteger[Any]]:
    """Return the big-endian integers at the position ``place`` of each row key."""
    kind = np.dtype(dtype)
    fixed = pc.binary_slice(rows, *place).cast(pa.binary(kind.itemsize))
    data = np.frombuffer(fixed.buffers()[1] or b"", kind, count=len(fixed))
    return data.astype(kind.newbyteorder("="))


def _rows(store: Any, selection: Selection) -> Iterator[Chunk]:
    """Return chunks that contain the selected rows.

    If the selection has a prefix, the chunks may also contain rows without the prefix.
    """
    spec = store.spec
    keys = rows_of(spec.shape, time_ordered=spec.time_ordered, indexed=spec.indexed)
    earliest, latest, latest_start = _times(store, selection, keys.hidden)
    if earliest > latest or latest_start < 0:
        return iter(())

    def fetch(key_from: bytes | None, key_to: bytes | None) -> Fetch:
        schema = keys.schema if key_from is None else keys.by_key
        return schema.fetch(
            spec.segment_interval_ms, key_from, key_to, earliest, latest, latest_start=latest_start
        )

    if selection.keys is not None:
        return chain.from_iterable(fetch(key, key).scan(store.table) for key in selection.keys)
    whole = fetch(selection.prefix, None)
    return (_narrowed(whole, keys, selection.prefix) if selection.prefix else whole).scan(
        store.table
    )


def _narrowed(fetch: Fetch, keys: RowKeys, prefix: bytes) -> Fetch:
    """End a fetch after the keys with ``prefix``.

    Row keys that begin with times are not sorted by key, so their fetch is returned unchanged.
    """
    lead = keys.by_key.prefix
    if lead == _BY_TIME:
        return fetch
    head = b"" if lead == _KEYS_FIRST else bytes([lead])
    return fetch._replace(bounds=replace(fetch.bounds, hi=after_prefix(head + prefix)))


def _times(store: Any, selection: Selection, hidden: int) -> tuple[int, int, int]:
    """Return the bounds of the selected rows: earliest, latest, and latest start, in ms.

    All bounds are inclusive. For windows, ``earliest`` and ``latest`` bound the starts. For
    sessions, they bound the ends, and the latest start bounds the starts. Expired rows are
    excluded.
    """
    horizon = store.clock.horizon
    seen = 0 if horizon < 0 else horizon + hidden
    first = 0 if selection.from_ts is None else selection.from_ts
    last = MAX_TIME if selection.to_ts is None else selection.to_ts
    if store.spec.shape == "session":
        return max(first, seen), MAX_TIME, last
    return max(first - store.spec.window_size_ms + 1, seen), last, MAX_TIME
