"""Functions that convert Arrow columns between the types of Spark and the types of a store."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core import arrow, serdes
from kstore_core.errors import FormatError, SpecError

if TYPE_CHECKING:
    from kstore_core.serdes import Serde

__all__ = [
    "TIMESTAMP",
    "combined",
    "grouped",
    "integers",
    "millis",
    "serialized",
    "sliced",
    "timestamps",
]

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""The Arrow type of a column of Spark timestamps."""


def serialized(serde: Serde[Any], column: pa.Array) -> pa.Array:
    """Serialise the values of a column with a serde, and return a binary column.

    The values of a binary column must be serialised already, so the column is returned unchanged.
    If the serde is JSON and the column contains strings, each string must be JSON already. The
    function only encodes the string as UTF-8.
    """
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return column.cast(pa.binary())
    return arrow.to_binary(serdes.UTF8 if serde is serdes.JSON else serde, column)


def timestamps(column: pa.Array, *, as_millis: bool) -> pa.Array:
    """Convert times in ms to Spark timestamps, or return them unchanged if ``as_millis`` is true.

    Raises FormatError if a time does not fit into a Spark timestamp, which stores microseconds in
    64 bits.
    """
    if as_millis:
        return column
    try:
        return pc.multiply_checked(column, pa.scalar(1000, pa.int64())).cast(TIMESTAMP)
    except pa.ArrowInvalid as error:
        raise FormatError(
            "a stored time does not fit into a Spark timestamp. Read the times in ms: pass "
            "timestamps='millis', or pass a join a column of times in ms"
        ) from error


def millis(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Convert a column of timestamps or of times in ms to two arrays of times in ms.

    The times are rounded down in the first array, and up in the second array. A null becomes an
    arbitrary number.
    """
    if not pa.types.is_timestamp(column.type):
        exact = integers(column)
        return exact, exact
    micros = integers(column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()))
    return micros // 1000, -(-micros // 1000)


def integers(column: pa.Array) -> npt.NDArray[np.int64]:
    """Convert a column to an array of integers, in which a null is 0."""
    filled = column.fill_null(0) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def sliced(data: bytes, width: int) -> pa.Array:
    """Cut ``data`` into values of ``width`` bytes each, and return the values as a binary array."""
    fixed = pa.binary(width)
    buffers = [None, pa.py_buffer(data)]
    return pa.Array.from_buffers(fixed, len(data) // width, buffers).cast(pa.binary())


def combined(column: pa.ChunkedArray, what: str) -> pa.Array:
    """Combine a column's chunks into one array.

    ``what`` is the name of the column, for the error. Raises SpecError if the column has more than
    2 GiB.
    """
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        if whole.num_chunks != 1:
            raise SpecError(
                f"the rows of one shard have more than 2 GiB in the column {what!r}, which is the "
                "limit of an Arrow column; use more partitions"
            )
        whole = whole.chunk(0)
    return whole


def grouped(
    batches: Iterable[pa.RecordBatch], *, size: int, rows: int = sys.maxsize
) -> Iterator[pa.RecordBatch]:
    """Concatenate batches to batches of at least ``rows`` rows or ``size`` bytes.

    The last batch may be smaller.
    """
    group: list[pa.RecordBatch] = []
    count = total = 0
    for batch in batches:
        group.append(batch)
        count += batch.num_rows
        total += batch.nbytes
        if count >= rows or total >= size:
            yield group[0] if len(group) == 1 else pa.concat_batches(group)
            group, count, total = [], 0, 0
    if group:
        yield group[0] if len(group) == 1 else pa.concat_batches(group)
