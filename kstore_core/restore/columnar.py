"""The restore of many log records, given as Arrow columns, into an open store.

The store then has the same content as after a put of each record in order. In a versioned store,
the bytes of rows with older versions may differ from the bytes that puts would write; the versions
are the same. If the store is empty, its rows are built without a Python object for each record. Use
``state.restore`` to restore from a changelog instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kstore_core.codec import RecordColumns, arrow_to_log
from kstore_core.errors import SpecError
from kstore_core.layers.noted import LoggedVersions
from kstore_core.restore.deferred import defer
from kstore_core.restore.rows import Restored, RowRestorer
from kstore_core.restore.versions import VersionRestorer

if TYPE_CHECKING:
    import pyarrow as pa

    Columns: TypeAlias = tuple[pa.Array, pa.Array, pa.Array, pa.Array | None]

__all__ = ["Restored", "can_restore_history", "restore", "restore_history"]

_BUILD_BYTES = 64 * 1024 * 1024
"""The approximate memory in bytes of the versions in one batch."""


def restore(
    store: Any,
    keys: pa.Array,
    values: pa.Array,
    timestamps: pa.Array,
    headers: pa.Array | None = None,
    *,
    at_once: bool = False,
) -> Restored:
    """Restore log records into a store that is open for writing. The caller must commit.

    Parameters
    ----------
    store
        The result of ``state.open(spec)``.
    keys, values : pyarrow.Array of binary
        The serialised keys and values of the records, in the order of the log. A null value is a
        tombstone.
    timestamps : pyarrow.Array of int64
        The timestamps of the records in milliseconds since the epoch.
    headers : pyarrow.Array of list<struct<key: string, value: binary>>, optional
        The headers of the records. Formats without headers ignore them.
    at_once : bool
        If True, write the rows during the call, so that the result has their number. If False, and
        the records are few, their rows may be written later, at the store's next use or commit.

    Raises
    ------
    SpecError
        A key or a timestamp is null, or a timestamp is negative and the store is versioned. Nothing
        was written.
    """
    begun = time.perf_counter_ns()
    restored = _restore(store, keys, values, timestamps, headers, at_once=at_once)
    measures = store.parts.context.measures
    if measures is not None:
        measures.restored_records(restored.records, time.perf_counter_ns() - begun)
    return restored


def can_restore_history(store: Any) -> bool:
    """Return True if :func:`restore_history` can restore the store.

    The store must be versioned and without rows, and must not log its writes to a changelog.
    pyarrow must be installed.
    """
    if store.spec.shape != "versioned" or isinstance(store.table, LoggedVersions):
        return False
    return VersionRestorer(store.spec, store.table, _BUILD_BYTES).is_empty


def restore_history(
    store: Any, batches: Iterable[Columns], count: int, max_bytes: int, scratch: Path
) -> Restored:
    """Restore batches of records into an empty versioned store. The caller must commit.

    Parameters
    ----------
    store
        A store for which :func:`can_restore_history` returns True.
    batches : iterable of tuple
        The arguments ``keys``, ``values``, ``timestamps`` and ``headers`` of :func:`restore` for
        the records of each batch, in the order of the log.
    count : int
        The approximate number of all records.
    max_bytes : int
        The approximate memory in bytes of the records that are restored together. If the records
        need more memory, they are divided by key into temporary files.
    scratch : Path
        The path of a folder for the temporary files.

    Raises
    ------
    SpecError
        A timestamp is negative. Rows of other records may have been written.
    """
    begun = time.perf_counter_ns()
    has_headers = store.spec.format.headers

    def logged() -> Iterator[RecordColumns]:
        offset = 0
        for keys, values, times, headers in batches:
            headers = headers if has_headers else None
            yield arrow_to_log(keys, values, times, headers, first_offset=offset)
            offset += len(keys)

    versions = VersionRestorer(store.spec, store.table, min(max_bytes, _BUILD_BYTES))
    restored = versions.load(logged(), count, scratch)
    measures = store.parts.context.measures
    if measures is not None:
        measures.restored_records(restored.records, time.perf_counter_ns() - begun)
    return restored


def _restore(
    store: Any,
    keys: pa.Array,
    values: pa.Array,
    timestamps: pa.Array,
    headers: pa.Array | None,
    *,
    at_once: bool,
) -> Restored:
    if keys.null_count:
        raise SpecError(
            f"{keys.null_count} of {len(keys)} records have no key, but each record needs a key"
        )
    if timestamps.null_count:
        raise SpecError(
            f"{timestamps.null_count} of {len(keys)} records have no timestamp, but each record "
            "needs a timestamp"
        )
    records = arrow_to_log(
        keys, values, timestamps, headers if store.spec.format.headers else None, first_offset=0
    )
    restored = None if at_once else defer(store, records, _BUILD_BYTES)
    if restored is not None:
        return restored
    if store.spec.shape == "versioned":
        versions = VersionRestorer(store.spec, store.table, _BUILD_BYTES)
        if can_restore_history(store):
            return versions.load_at_once(records)
        return versions.put(records)
    rows = RowRestorer(store.spec, store.table, store.parts.clock)
    return rows.load(records) if rows.is_empty else rows.put(records)
