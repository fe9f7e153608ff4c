"""Reads by column of the physical rows of a versioned table that may contain wanted versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kstore_core.clock import segment_id
from kstore_core.engine import Chunk
from kstore_core.tables import Bounds
from kstore_core.tables.version_scans import LATEST_PREFIX, within
from kstore_core.tables.versioned import VersionedTable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = ["FOREVER", "rows_for", "rows_since"]

FOREVER = 2**63 - 1
"""A time at which only latest versions are valid."""


def rows_for(
    table: VersionedTable, keys: pa.Array, earliest: npt.NDArray[np.int64]
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the rows of some keys, back to the version valid at one time for each key.

    One lookup reads the latest rows. Then one lookup for each segment, newest first, reads the keys
    whose version was not found yet. Rows may contain older versions, too.

    Parameters
    ----------
    table : VersionedTable
    keys : pyarrow.Array of binary
        Distinct, without nulls, ascending, so that an engine reads each block once.
    earliest : array of int64
        The oldest wanted time of each key, ms.

    Yields
    ------
    row_keys, rows : pyarrow.Array of binary
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    begin = slice(0, 8)  # of the latest row; the times of the others: docs/formats.md
    segments = list(table.segments)
    prefix = LATEST_PREFIX
    while len(keys):
        row_keys = pc.binary_join_element_wise(pa.scalar(prefix, pa.binary()), keys, b"")
        looked_up = pa.array(table.rows.get_many(row_keys.to_pylist()), pa.binary())
        present = looked_up.is_valid()
        older = np.ones(len(keys), bool)
        found = np.flatnonzero(present.to_numpy(zero_copy_only=False))
        if len(found):
            rows = looked_up.drop_null()
            yield row_keys.filter(present), rows
            times = pc.binary_slice(rows, begin.start, begin.stop).cast(pa.binary(8))
            oldest = np.frombuffer(times.buffers()[1], ">i8", len(times), times.offset * 8)
            older[found] = oldest > earliest[found]
        keys, earliest = keys.filter(pa.array(older)), earliest[older]
        if not segments or not len(keys):
            return
        if segments[-1] < segment_id(int(earliest.min()), table.segment_interval_ms):
            return
        prefix, begin = segments.pop().to_bytes(8, "big"), slice(8, 16)


def rows_since(table: VersionedTable, earliest: int, bounds: Bounds) -> Iterator[Chunk]:
    """The rows that may hold versions valid at ``earliest`` (ms) or later, of keys in ``bounds``.

    `FOREVER` gives latest rows only. Keys ascend within a segment.
    """
    first = segment_id(earliest, table.segment_interval_ms)
    segments = [number for number in table.segments if first <= number and earliest != FOREVER]
    prefixes = [*(number.to_bytes(8, "big") for number in segments), LATEST_PREFIX]
    if bounds == Bounds():
        yield from table.rows.scan(Bounds(prefixes[0]))
        return
    for prefix in prefixes:
        yield from table.rows.scan(within(prefix, bounds))
