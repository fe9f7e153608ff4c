"""The records of an open store of any shape, as Arrow tables and batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kstore_core.errors import FormatError
from kstore_core.spark.read.schemas import TIMES

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spark.read.selection import Selection
    from kstore_core.spec import StoreSpec

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "batches", "chunks", "rendered"]

BATCH_ROWS = 10_000
"""Rows of a batch, at most."""

BATCH_BYTES = 16 * 1024 * 1024
"""Approximate size of a batch of several rows, at most."""


def chunks(store: Any, selection: Selection, wanted: Collection[str]) -> Iterator[pa.Table]:
    """Tables of the selected records: keys and values as bytes, times in ms, headers as stored.

    Columns that are not ``wanted`` may be missing or still encoded.
    """
    from kstore_core.spark.read import rows, windowed

    if store.spec.format.versioned:
        return rows.versions(store, selection, wanted)
    if store.spec.shape == "key_value":
        return rows.latest(store, selection, wanted)
    return windowed.windows(store, selection, wanted)


def rendered(
    chunk: pa.Table, spec: StoreSpec, schema: pa.Schema, constants: Mapping[str, Any]
) -> pa.Table:
    """Convert a chunk of stored bytes and times to ``schema``; ``constants`` fill columns."""
    import pyarrow as pa

    from kstore_core.spark.columns.arrow import combined, timestamps

    columns = []
    for column in schema:
        name = column.name
        if name in constants:
            columns.append(pa.repeat(pa.scalar(constants[name], column.type), chunk.num_rows))
            continue
        found = combined(chunk[name], name)
        if name in ("key", "value"):
            found = _typed(spec, name, found)
        elif name in TIMES:
            found = timestamps(found, as_millis=pa.types.is_int64(column.type))
        columns.append(found)
    return pa.table(columns, schema=schema)


def _typed(spec: StoreSpec, name: str, column: pa.Array) -> pa.Array:
    """Deserialise keys or values."""
    from kstore_core import arrow

    serde = spec.key if name == "key" else spec.value
    try:
        return arrow.to_typed(serde, column)
    except FormatError as error:
        raise FormatError(
            f"the serde {serde.name!r} cannot read the {name}s of the store {spec.name!r}: "
            f"{error}. Describe the store with the serde that wrote them, or with "
            f"{name}=serdes.BYTES, which returns any bytes"
        ) from error


def batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Split a table into batches; a batch that is too large is halved, down to one row."""
    for batch in table.combine_chunks().to_batches(BATCH_ROWS):
        waiting = [batch]
        while waiting:
            batch = waiting.pop()
            if batch.nbytes <= BATCH_BYTES or batch.num_rows == 1:
                yield batch
            else:
                half = batch.num_rows // 2
                waiting += [batch.slice(half), batch.slice(0, half)]
