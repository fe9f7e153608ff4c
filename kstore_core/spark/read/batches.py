"""The conversion of the records of an open store to Arrow tables and batches."""

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
"""The greatest number of rows of a batch."""

BATCH_BYTES = 16 * 1024 * 1024
"""The greatest size of a batch in bytes. Only a batch of one row may be larger."""


def chunks(store: Any, selection: Selection, wanted: Collection[str]) -> Iterator[pa.Table]:
    """Yield tables of the selected records of an open store.

    Keys and values are bytes, and times are in ms. A column that is not in ``wanted`` may be
    missing, or may still be encoded.
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
    """Convert a table of :func:`chunks` to a table with the columns and types of ``schema``.

    ``constants`` contains the value of each column that is equal in all rows, such as
    ``partition``.
    """
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
    """Deserialise the column ``name``, which is ``key`` or ``value``, with its serde."""
    from kstore_core import arrow

    serde = spec.key if name == "key" else spec.value
    try:
        return arrow.to_typed(serde, column)
    except FormatError as error:
        raise FormatError(
            f"the serde {serde.name!r} cannot read the {name}s of the store {spec.name!r}: "
            f"{error}. Pass a spec with the serde that wrote the {name}s, or with "
            f"{name}=serdes.BYTES, which returns the stored bytes"
        ) from error


def batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Split a table into batches of at most `BATCH_ROWS` rows and `BATCH_BYTES` bytes.

    A batch that has too many bytes is halved until it fits or has one row.
    """
    for batch in table.combine_chunks().to_batches(BATCH_ROWS):
        waiting = [batch]
        while waiting:
            batch = waiting.pop()
            if batch.nbytes <= BATCH_BYTES or batch.num_rows == 1:
                yield batch
            else:
                half = batch.num_rows // 2
                waiting += [batch.slice(half), batch.slice(0, half)]
