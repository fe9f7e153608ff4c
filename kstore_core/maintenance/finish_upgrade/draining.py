"""The conversion of a database's rows from older formats to a newer format.

The functions read the namespaces directly, not through tables. Each batch is one atomic write: it
writes the converted rows to the newer format's namespace and deletes the old rows.
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
"""A function that is called after each batch.

Its arguments are the older format, the newer format, the number of rows moved so far, and the
estimated number of all rows to move.
"""


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
    """Convert every row to the format ``target``, and drop the namespaces of older formats.

    Parameters
    ----------
    segment_bytes : int
        The number of bytes that a segment's id occupies at the start of each stored key; 0 if
        stored keys have no segment id.
    batch_rows : int
        The maximum number of rows per batch. A batch of large rows has fewer rows.

    Returns
    -------
    moved : dict of str to int
        The number of moved rows, by the name of their former format.
    dropped : set of str
        The dropped namespaces.

    Raises
    ------
    FormatDowngradeError, InconsistentStateError
        See :func:`check_namespaces`.
    FormatError
        A row cannot be converted. The batch of this row and all later batches are unchanged.
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
    """Return the oldest format that still has rows, and the new format of these rows.

    The rows are converted to ``target``. If an earlier upgrade to another format is unfinished, the
    rows are first converted to the format of that upgrade, because a row that already has that
    format supersedes an older row with the same key. Return None if no row has an older format.
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
    """Move every row from the namespace of ``older`` to the namespace of ``newer``.

    Return the number of moved rows.
    """
    old, new = database.namespace(older.namespace), database.namespace(newer.namespace)
    total = old.approximate_count()
    moved = 0
    lo: bytes | None = None
    while (chunk := _take(old, lo, batch_rows)) is not None:
        keys, values = chunk
        first, beyond = keys[0], keys[-1] + b"\0"
        count = len(keys)
        if new.first(first, beyond) is not None:  # rows already in `new` are newer
            missing = [at for at, value in enumerate(new.get_many(keys)) if value is None]
            keys, values = [keys[at] for at in missing], [values[at] for at in missing]
        converted = convert_rows(convert, keys, values)
        database.write(
            {
                older.namespace: Rows(deleted_ranges=[(first, beyond)]),
                newer.namespace: Rows(keys, [*converted]),
                **_moved_spec(record, newer),
            }
        )
        moved += count
        lo = beyond
        callback(older, newer, moved, total)
    return moved


def _take(namespace: Namespace, lo: bytes | None, count: int) -> Chunk | None:
    """Return up to ``count`` rows from the key ``lo`` on, or None if there are no more rows.

    The result has fewer rows if the rows are large. Each call starts a new scan, because an open
    scan would prevent the engine from reusing the space of rows that were deleted later.
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


def _moved_spec(record: StoreRecord, value_format: ValueFormat) -> dict[str, Rows]:
    """Return the write that sets the newer format in the stored spec.

    The write is empty if the store has no stored spec, or if the format in it is not an older one.
    """
    if record.spec is None or record.spec.format.name not in value_format.upgrades:
        return {}
    record.spec = replace(record.spec, format=value_format)
    entries = Entries(spec=record.spec).rows(record)
    return {OFFSETS: entries}
