"""The comparison of two stores by a merge of their sorted scans.

The merge compares stored bytes in columns, and decodes only differences. In a key-value, window or
session store each row is one record. In a versioned store a version moves to another row when the
version ends. So rows that differ are split into versions, and the versions are compared again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.codec import explode_versions
from kstore_core.engine import Chunk
from kstore_core.spark.columns.arrow import combined, sliced
from kstore_core.spark.read.rows import decoded, gathered, of_versions
from kstore_core.spark.read.windowed import key_columns, segment_rows
from kstore_core.spec import StoreSpec
from kstore_core.tables import Bounds

__all__ = ["CHANGE", "DELETE", "INSERT", "POSTIMAGE", "PREIMAGE", "changes"]

CHANGE = "_change"
"""The name of the column that contains the kind of a change."""

DELETE, PREIMAGE, POSTIMAGE, INSERT = "delete", "update_preimage", "update_postimage", "insert"

_ROW = pa.schema([("id", pa.binary()), ("row", pa.binary())])
_NAMES = pa.array([DELETE, PREIMAGE, POSTIMAGE, INSERT])


def changes(
    spec: StoreSpec, before: Any | None, after: Any | None, wanted: Collection[str]
) -> Iterator[pa.Table]:
    """Yield tables of the records that differ between two stores.

    ``before`` and ``after`` are stores opened with ``spec``, or None for an empty store. The
    tables have the columns of `batches.chunks` and the column `CHANGE`.
    """
    if spec.format.versioned:
        yield from _changed_versions(spec, before, after, wanted)
        return
    for old, new in _scans(spec, before, after):
        for blocks in _blocks(old, new):
            found = _compared(*blocks, ["row"])
            if found.num_rows:
                keys, rows = _column(found, "id"), _column(found, "row")
                columns = {"key": keys} if spec.shape == "key_value" else key_columns(spec, keys)
                columns |= decoded(spec.format, rows, wanted)
                yield pa.table({**columns, CHANGE: found[CHANGE]})


def _scans(
    spec: StoreSpec, before: Any | None, after: Any | None
) -> Iterator[tuple[Iterable[Chunk], Iterable[Chunk]]]:
    """Yield pairs of a scan of each store. The two scans of a pair have the same order of keys.

    There is one pair for a key-value store. For other stores, there is one pair for each segment,
    which is a span of time.
    """
    if spec.shape == "key_value":
        yield _all_rows(before), _all_rows(after)
        return
    stores = [store for store in (before, after) if store is not None]
    for segment in sorted({number for store in stores for number in store.table.segments}):
        yield (
            () if before is None else segment_rows(before, segment),
            () if after is None else segment_rows(after, segment),
        )


def _all_rows(store: Any | None) -> Iterable[Chunk]:
    if store is None:
        return ()
    table = store.table.rows if store.spec.format.versioned else store.table
    scanned: Iterable[Chunk] = table.scan(Bounds())
    return scanned


def _changed_versions(
    spec: StoreSpec, before: Any | None, after: Any | None, wanted: Collection[str]
) -> Iterator[pa.Table]:
    rows: tuple[list[pa.Table], list[pa.Table]] = [], []
    for blocks in _blocks(_all_rows(before), _all_rows(after)):
        found = _compared(*blocks, ["row"])
        old = pc.is_in(found[CHANGE], pa.array([DELETE, PREIMAGE]))
        rows[0].append(found.filter(old))
        rows[1].append(found.filter(pc.invert(old)))
    old_versions, new_versions = (_versions(tables) for tables in rows)
    found = _compared(old_versions, new_versions, ["value", "valid_to"])
    if found.num_rows:
        yield of_versions(spec.format, found.drop_columns(["id"]), wanted)


def _versions(rows: Sequence[pa.Table]) -> pa.Table:
    """Return the versions that stored rows contain, with a column ``id``.

    The id of a version is its key followed by its timestamp.
    """
    names = ["key", "value", "timestamp", "valid_to"]
    tables = [
        pa.table(explode_versions(_column(table, "id"), _column(table, "row")), names=names)
        for table in rows
        if table.num_rows
    ]
    if not tables:
        types = [pa.binary(), pa.binary(), pa.int64(), pa.int64()]
        fields = zip(names, types, strict=True)
        return pa.schema([*fields, ("id", pa.binary())]).empty_table()
    whole = pa.concat_tables(tables).combine_chunks()
    times = sliced(_column(whole, "timestamp").to_numpy().astype(">i8").tobytes(), 8)
    ids = pc.binary_join_element_wise(_column(whole, "key"), times, b"")
    return whole.append_column("id", ids)


def _blocks(old: Iterable[Chunk], new: Iterable[Chunk]) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Cut both scans at the same keys, and yield the pairs of blocks that are not equal."""
    scans = [_tables(old), _tables(new)]
    rest: list[pa.Table | None] = [next(scan, None) for scan in scans]
    while rest[0] is not None or rest[1] is not None:
        there = [table for table in rest if table is not None]
        end = min(table["id"][-1].as_py() for table in there)
        cuts = [_ROW.empty_table(), _ROW.empty_table()]
        for side, table in enumerate(rest):
            if table is not None:
                cuts[side], left = _cut(table, end)
                rest[side] = next(scans[side], None) if left is None else left
        if not cuts[0].equals(cuts[1]):
            yield cuts[0], cuts[1]


def _tables(chunks: Iterable[Chunk]) -> Iterator[pa.Table]:
    for keys, rows in gathered(chunks):
        yield pa.table([keys, rows], schema=_ROW)


def _cut(table: pa.Table, end: bytes) -> tuple[pa.Table, pa.Table | None]:
    """Split a table after the key ``end``; the second table is None if it would be empty."""
    ids = _column(table, "id")
    at = bisect_right(range(len(ids)), end, key=lambda place: ids[place].as_py())
    return table.slice(0, at), table.slice(at) if at < len(ids) else None


def _compared(old: pa.Table, new: pa.Table, values: Sequence[str]) -> pa.Table:
    """Return the rows that differ between two tables, sorted by id, with the column `CHANGE`.

    A row differs if only one table contains its id, or if a column in ``values`` differs.
    """
    places = pc.index_in(_column(new, "id"), value_set=_column(old, "id"))
    matched = places.is_valid().to_numpy(zero_copy_only=False)
    in_new = np.flatnonzero(matched)
    in_old = places.drop_null().to_numpy()
    same = np.ones(len(in_new), bool)
    for name in values:
        left, right = _column(old, name).take(in_old), _column(new, name).take(in_new)
        same &= _equal(left, right)
    gone = np.ones(old.num_rows, bool)
    gone[in_old] = False
    sides = [
        old.take(np.flatnonzero(gone)),
        old.take(in_old[~same]),
        new.take(in_new[~same]),
        new.take(np.flatnonzero(~matched)),
    ]
    kinds = np.repeat(np.arange(4, dtype=np.int8), [table.num_rows for table in sides])
    found = pa.concat_tables(sides).append_column(CHANGE, pa.array(kinds))
    found = found.sort_by([("id", "ascending"), (CHANGE, "ascending")])
    place = found.schema.get_field_index(CHANGE)
    return found.set_column(place, CHANGE, _NAMES.take(found[CHANGE].combine_chunks()))


def _equal(left: pa.Array, right: pa.Array) -> Any:
    """Return a mask that is true where the values are equal. Two nulls are equal."""
    equal = pc.fill_null(pc.equal(left, right), False)
    both = pc.and_(left.is_null(), right.is_null())
    return pc.or_(equal, both).to_numpy(zero_copy_only=False)


def _column(table: pa.Table, name: str) -> pa.Array:
    return combined(table[name], name)
