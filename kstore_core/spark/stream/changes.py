"""Functions that read the output of an epoch.

The output has a row for each key in the input of the epoch. The row contains the record that the
store has for the key after the epoch. A task commits the epoch to its shard, and then reads the
output from the shard. The shard does not change until the next epoch, so the output of a replayed
epoch is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core import arrow
from kstore_core.changelog.rows import from_log
from kstore_core.codec import arrow_to_log
from kstore_core.keys import rows_of
from kstore_core.spark.columns.arrow import combined
from kstore_core.spark.read.batches import chunks, rendered
from kstore_core.spark.read.rows import binary, latest
from kstore_core.spark.read.schemas import store_schema
from kstore_core.spark.read.selection import Selection
from kstore_core.spark.read.windowed import key_columns

if TYPE_CHECKING:
    from kstore_core.spec import StoreSpec

__all__ = ["changes", "changes_schema"]


def changes_schema(spec: StoreSpec) -> pa.Schema:
    """Return the schema of the rows that :func:`changes` returns for one epoch of a stream.

    The columns are those of `read_store` except ``valid_to``.
    """
    fields = [field for field in store_schema(spec, as_millis=False) if field.name != "valid_to"]
    return pa.schema([*fields, pa.field("partition", pa.int32())])


def changes(store: Any, keys: pa.Array, shard: int) -> pa.Table:
    """Return a row for each distinct key, with the record that the store has for the key.

    The rows are sorted by key. If the store has no record of a key, all columns of the row except
    those of the key and ``partition`` are null. ``keys`` are the keys of the changelog records of
    an epoch, and may repeat. ``store`` must not have uncommitted rows.
    """
    spec = store.spec
    schema = changes_schema(spec)
    asked = _row_keys(spec, keys)
    in_key = key_columns(spec, asked) if spec.shape in ("window", "session") else {"key": asked}
    records = pa.table({**in_key, **_values(store, asked, schema.names)})
    return rendered(records, spec, schema, {"partition": shard})


def _row_keys(spec: StoreSpec, keys: pa.Array) -> pa.Array:
    """Convert keys of a changelog to keys of the store's rows. Return sorted distinct keys."""
    unique = pc.unique(keys)
    if spec.shape in ("window", "session"):
        ordered = rows_of(spec.shape, time_ordered=spec.time_ordered).schema
        times = pa.array(np.zeros(len(unique), np.int64))
        values = pa.nulls(len(unique), pa.binary())
        records = arrow_to_log(unique, values, times, None, first_offset=0)
        unique = binary(from_log(spec.format, records, schema=ordered)[0])
    return unique.take(pc.sort_indices(unique))


def _values(store: Any, asked: pa.Array, wanted: list[str]) -> dict[str, pa.Array]:
    """Return the columns that do not belong to the key, with a row for each key in ``asked``."""
    selection = Selection(keys=tuple(asked.to_pylist()))
    read = chunks if store.spec.format.versioned else latest
    found = list(read(store, selection, wanted)) if len(asked) else []
    if not found:  # use the types of the stored values
        kinds = {"value": pa.binary(), "timestamp": pa.int64(), "headers": arrow.headers_type()}
        return {name: pa.nulls(len(asked), kinds[name]) for name in kinds if name in wanted}
    table = pa.concat_tables(found)
    place = pc.index_in(asked, value_set=combined(table["key"], "key"))
    names = [name for name in table.column_names if name not in ("key", "valid_to")]
    return {name: combined(table[name], name).take(place) for name in names}
