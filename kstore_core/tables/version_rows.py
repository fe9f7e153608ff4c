"""Functions that read the stored rows of a versioned table, without decoding them.

For each key, a versioned table stores one row with the latest version, and one row per segment with
older versions. The functions yield the rows that may contain the requested versions.
"""

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
"""The greatest possible time in ms. At this time only the latest version of a key is valid."""


def rows_for(
    table: VersionedTable, keys: pa.Array, earliest: npt.NDArray[np.int64]
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the stored rows with the versions of each key since ``earliest``, a time per key.

    First, one lookup reads the rows of the latest versions. Then the function goes from the newest
    segment to the oldest. One lookup per segment reads the rows of the keys that still need older
    versions. A row may also contain versions that ended before the key's time.

    Parameters
    ----------
    table : VersionedTable
    keys : pyarrow.Array of binary
        The keys. They must be distinct and not null, and should ascend, so that an engine reads
        each block only once.
    earliest : array of int64
        The time of each key in ms. The function yields the version that was valid at this time, and
        all newer versions.

    Yields
    ------
    row_keys, rows : pyarrow.Array of binary
        The keys and values of the stored rows.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    begin = slice(0, 8)  # docs/formats.md shows where a row contains its oldest timestamp.
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
    """Yield the stored rows that may contain versions valid at a time or later.

    The rows of the oldest segment come first, and the rows of the latest versions come last. Within
    a segment the keys ascend.

    Parameters
    ----------
    table : VersionedTable
    earliest : int
        The time in ms. With `FOREVER` only the rows of the latest versions are yielded.
    bounds : Bounds
        The range of keys to read.
    """
    first = segment_id(earliest, table.segment_interval_ms)
    segments = [number for number in table.segments if first <= number and earliest != FOREVER]
    prefixes = [*(number.to_bytes(8, "big") for number in segments), LATEST_PREFIX]
    if bounds == Bounds():
        yield from table.rows.scan(Bounds(prefixes[0]))
        return
    for prefix in prefixes:
        yield from table.rows.scan(within(prefix, bounds))
