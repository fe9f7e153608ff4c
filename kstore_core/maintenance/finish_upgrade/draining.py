"""Moving all rows of one database that are in older formats to a newer one, in batches.

It works below the tables, a chunk of rows at a time; each batch puts the converted rows and removes
the old ones, both or neither.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

from kstore_core.codec.conversions.upgrades import convert_rows
from kstore_core.engine import Chunk, Database, Namespace, Rows
from kstore_core.formats import Convert, ValueFormat, by_name
from kstore_core.offsets.entries import Entries, StoreRecord, read_record
from kstore_core.tables import OFFSETS
from kstore_core.tables.upgrade.decision import DEFAULT, check_namespaces, drop_empty, look_at

__all__ = ["BATCH_ROWS", "BatchCallback", "drain"]

BATCH_ROWS = 10_000
_BATCH_BYTES = 8 * 1024 * 1024

BatchCallback = Callable[[ValueFormat, ValueFormat, int, int], object]
"""Called after each batch: older and newer format, rows moved, rows in all (estimated)."""


def drain(
    database: Database,
    target: ValueFormat,
    *,
    shape: str,
    store: str,
    segment_bytes: int,
    batch_rows: int,
    callback: BatchCallback,
) -> tuple[dict[str, int], set[str]]:
    """Move every row to ``target``, and let go of the namespaces of older formats.

    Parameters
    ----------
    shape, store : str
        Of the store that the database belongs to.
    segment_bytes : int
        How many bytes of a segment's id stand before the key of each row.
    batch_rows : int
        About how many rows a batch moves; fewer where they are large.

    Returns
    -------
    moved : dict of str to int
        How many rows, by the format that they were in.
    dropped : set of str
        The namespaces that are gone.

    Raises
    ------
    FormatDowngradeError, InconsistentStateError
        There is a namespace of a newer format, or of none.
    FormatError
        A row cannot be converted; it and those after it stay as they are.
    """
    found = check_namespaces(database, target, shape)
    record = read_record(database.namespace(OFFSETS), f"the store {store!r} in {database.path}")
    moved: dict[str, int] = {}
    while (step := _next_step(database, target)) is not None:
        older, newer = step
        convert = newer.conversion(older.name, segment_bytes)
        count = _move(database, record, older, newer, convert, batch_rows, callback)
        moved[older.name] = moved.get(older.name, 0) + count
    database.namespace(target.namespace)
    if entries := _moved_spec(record, target):
        database.write(entries)
    drop_empty(database, look_at(database, target, shape, store))
    return moved, found - set(database.namespaces())


def _next_step(database: Database, target: ValueFormat) -> tuple[ValueFormat, ValueFormat] | None:
    """The oldest format with rows, and the next format they move to; None at the end.

    That is the target itself, unless an earlier upgrade was begun and not finished: its namespace
    is there then, and rows in it are newer than those that it has not reached.
    """
    found = set(database.namespaces())
    present = [f for f in map(by_name, target.upgrades) if f.namespace in found]
    for older in present:
        if database.namespace(older.namespace).first() is not None:
            begun = [f for f in present if f.namespace != DEFAULT and older.name in f.upgrades]
            return older, (begun or [target])[0]
    return None


def _move(
    database: Database,
    record: StoreRecord,
    older: ValueFormat,
    newer: ValueFormat,
    convert: Convert,
    batch_rows: int,
    callback: BatchCallback,
) -> int:
    """Move every row of one namespace to another; returns how many there were."""
    old, new = database.namespace(older.namespace), database.namespace(newer.namespace)
    total = old.approximate_count()
    moved = 0
    lo: bytes | None = None
    while (chunk := _take(old, lo, batch_rows)) is not None:
        keys, values = chunk
        first, behind = keys[0], keys[-1] + b"\0"
        count = len(keys)
        if new.first(first, behind) is not None:
            keys, values = _without(keys, values, new.get_many(keys))
        converted = convert_rows(convert, keys, values)
        database.write(
            {
                older.namespace: Rows(deleted_ranges=[(first, behind)]),
                newer.namespace: Rows(keys, [*converted]),
                **_moved_spec(record, newer),
            }
        )
        moved += count
        lo = behind
        callback(older, newer, moved, total)
    return moved


def _take(namespace: Namespace, lo: bytes | None, count: int) -> Chunk | None:
    """About ``count`` rows from ``lo`` on, fewer if they are large; None if there are none.

    Each call scans anew: an open scan would pin the space that earlier batches freed.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    for more_keys, more_values in namespace.scan(lo):
        sizes = [*accumulate(map(len, more_values), initial=size)]
        taken = min(len(more_keys), count - len(keys), bisect_left(sizes, _BATCH_BYTES))
        keys += more_keys[:taken]
        values += more_values[:taken]
        size = sizes[taken]
        if len(keys) == count or size >= _BATCH_BYTES:
            break
    return (keys, values) if keys else None


def _without(
    keys: list[bytes], values: list[bytes], newer: list[bytes | None]
) -> tuple[list[bytes], list[bytes]]:
    """The rows that no newer one stands in for."""
    kept = [index for index, value in enumerate(newer) if value is None]
    return [keys[index] for index in kept], [values[index] for index in kept]


def _moved_spec(record: StoreRecord, value_format: ValueFormat) -> dict[str, Rows]:
    """The entry that records the newer format in the stored spec, if there is one."""
    if record.spec is None or record.spec.format.name not in value_format.upgrades:
        return {}
    record.spec = replace(record.spec, format=value_format)
    entries = Entries(spec=record.spec).rows(record)
    return {OFFSETS: entries}
