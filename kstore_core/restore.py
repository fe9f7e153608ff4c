"""Columnar restore: many log records, as Arrow columns, into an open store.

The result is that of putting the records one by one, in their order (docs/spark.md says where the
bytes of history rows may differ). Into an empty store no record becomes a Python object before its
row is loaded; into one that holds rows already, records are put one by one below the serdes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.clock import segment_id
from kstore_core.codec import build_version_rows, encode_column
from kstore_core.errors import SpecError

__all__ = ["Restored", "restore"]

_CHUNK_ROWS = 8192
Times = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of the records.

    Attributes
    ----------
    records : int
        How many were given.
    late : int
        How many were too late for the store's history, and left out.
    rows : int
        How many physical rows were written.
    """

    records: int
    late: int
    rows: int


def restore(
    store: Any,
    keys: pa.Array,
    values: pa.Array,
    timestamps: pa.Array,
    headers: pa.Array | None = None,
) -> Restored:
    """Restore log records into a store that was opened for writing; the caller commits.

    Parameters
    ----------
    store
        What ``state.open(spec)`` gave.
    keys, values : pyarrow.Array of binary
        Serialised, in arrival order; a null value is a tombstone.
    timestamps : pyarrow.Array of int64
        Milliseconds since the epoch.
    headers : pyarrow.Array of list<struct<key: string, value: binary>>, optional
        Kept by formats with headers, ignored by others.

    Raises
    ------
    SpecError
        A null key or timestamp, or a negative time for a versioned store. Nothing was written.
    """
    if keys.null_count:
        raise SpecError(f"{keys.null_count} of {len(keys)} records have no key")
    if timestamps.null_count:
        raise SpecError(f"{timestamps.null_count} of {len(keys)} records have no timestamp")
    times = timestamps.to_numpy(zero_copy_only=False)
    if not store.spec.format.versioned:
        return _restore_latest(store, keys, values, timestamps, headers)
    if len(times) and times.min() < 0:
        raise SpecError(f"a versioned store cannot hold the time {times.min()} ms, before 1970")
    return _restore_versions(store, keys, values, times, headers)


def _restore_versions(
    store: Any, keys: pa.Array, values: pa.Array, times: Times, headers: pa.Array | None
) -> Restored:
    clock = store.clock
    given = len(times)
    stream_time = np.maximum.accumulate(np.concatenate([[np.int64(clock.observed)], times]))[1:]
    in_time = np.flatnonzero(times >= stream_time - clock.retention_ms)
    if store.spec.format.headers:
        values = encode_column(values, None, headers, layout="aggregation_with_headers")
    if not _is_empty(store):
        rows = _put_versions(store, keys, values, times, in_time)
        return Restored(given, given - len(in_time), rows)
    if given:
        clock.advance(int(stream_time[-1]))
    chosen = _last_of_equals(keys, times, in_time)
    row_keys, rows = build_version_rows(
        keys.take(chosen),
        pa.array(times).take(chosen),
        values.take(chosen),
        segment_interval_ms=store.spec.segment_interval_ms,
        first_live_segment=segment_id(clock.horizon, store.spec.segment_interval_ms),
    )
    store.table.load(_chunks(row_keys, rows))
    return Restored(given, given - len(in_time), len(row_keys))


def _put_versions(
    store: Any,
    keys: pa.Array,
    values: pa.Array,
    times: Times,
    in_time: Indices,
) -> int:
    put, advance = store.table.put, store.clock.advance
    chosen = pa.array(in_time)
    rows = zip(
        keys.take(chosen).to_pylist(),
        values.take(chosen).to_pylist(),
        times[in_time].tolist(),
        strict=True,
    )
    for key, value, timestamp in rows:
        advance(timestamp)
        put(key, value, timestamp)
    return len(in_time)


def _restore_latest(
    store: Any, keys: pa.Array, values: pa.Array, timestamps: pa.Array, headers: pa.Array | None
) -> Restored:
    encoded = keys.dictionary_encode()
    last = np.zeros(len(encoded.dictionary), np.int64)
    last[encoded.indices.to_numpy(zero_copy_only=False)] = np.arange(len(keys))
    by_key = pc.sort_indices(encoded.dictionary)
    keys = encoded.dictionary.take(by_key)
    chosen = pa.array(last).take(by_key)
    values, timestamps = values.take(chosen), timestamps.take(chosen)
    if store.spec.format.headers:
        headers = None if headers is None else headers.take(chosen)
        values = encode_column(values, timestamps, headers)
    elif store.spec.format.timestamped:
        values = encode_column(values, timestamps, layout="value_and_timestamp")
    if _is_empty(store):
        if values.null_count:
            keys, values = keys.filter(values.is_valid()), values.drop_null()
        store.table.load(_chunks(keys, values))
    else:
        put = store.table.put_one
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
            put(key, value)
    return Restored(len(encoded), 0, len(keys))


def _is_empty(store: Any) -> bool:
    table = store.table.rows if store.spec.format.versioned else store.table
    return table.first(None, None) is None


def _last_of_equals(keys: pa.Array, times: Times, chosen: Indices) -> pa.Array:
    """Indices of the records that count, by key and time: of equal ones the last."""
    encoded = keys.take(pa.array(chosen)).dictionary_encode()
    by_key = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(by_key), np.int64)
    rank[by_key] = np.arange(len(by_key))
    key = rank[encoded.indices.to_numpy(zero_copy_only=False)]
    time = times[chosen]
    order = np.lexsort((time, key))  # stable: records of equal key and time stay in arrival order
    key, time = key[order], time[order]
    last = np.ones(len(order), bool)
    last[:-1] = (key[1:] != key[:-1]) | (time[1:] != time[:-1])
    return pa.array(chosen[order[last]])


def _chunks(keys: pa.Array, values: pa.Array) -> Iterator[tuple[list[bytes], list[bytes]]]:
    for start in range(0, len(keys), _CHUNK_ROWS):
        yield (
            keys.slice(start, _CHUNK_ROWS).to_pylist(),
            values.slice(start, _CHUNK_ROWS).to_pylist(),
        )
