"""The columns of a read: all columns of a store's records, and the chosen ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kstore_core import arrow
from kstore_core.checks import check_choice
from kstore_core.errors import SpecError

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spec import StoreSpec

__all__ = ["TIMES", "chosen", "record_schema", "store_schema"]

TIMES = frozenset(
    {"timestamp", "valid_to", "window_start", "window_end", "session_start", "session_end"}
)
"""The columns of times."""


def record_schema(
    spec: StoreSpec,
    headers: bool | None,
    timestamps: str,
    first: Sequence[str],
    last: Sequence[str],
) -> pa.Schema:
    """All columns that a read can return; headers of a store without them are a SpecError."""
    import pyarrow as pa

    check_choice("timestamps", timestamps, ("timestamp", "millis"))
    if headers and not spec.format.headers:
        raise SpecError(
            f"headers=True, and the store {spec.name!r} has no headers in its format "
            f"{spec.format.name!r}; leave headers out"
        )
    schema = store_schema(spec, as_millis=timestamps == "millis")
    if headers is False and spec.format.headers:
        schema = schema.remove(schema.get_field_index("headers"))
    types = {"partition": pa.int32(), "task": pa.string(), "_change": pa.string()}
    before, after = ([(name, types[name]) for name in names] for names in (first, last))
    return pa.schema([*before, *schema, *after])


def store_schema(spec: StoreSpec, *, as_millis: bool) -> pa.Schema:
    """Return the columns of a store's records, with their types in Spark."""
    import pyarrow as pa

    from kstore_core.spark.columns.arrow import TIMESTAMP

    time = pa.int64() if as_millis else TIMESTAMP
    fields: dict[str, Any] = {"key": spec.key.arrow_type}
    if spec.shape in ("window", "session"):
        fields |= {f"{spec.shape}_start": time, f"{spec.shape}_end": time}
    if spec.retain_duplicates:
        fields["sequence"] = pa.int32()
    fields["value"] = spec.value.arrow_type
    if spec.format.timestamped:
        fields["timestamp"] = time
    if spec.format.versioned:
        fields["valid_to"] = time
    if spec.format.headers:
        fields["headers"] = arrow.headers_type()
    return pa.schema(list(fields.items()))


def chosen(available: pa.Schema, columns: Sequence[str] | None, where: str) -> pa.Schema:
    """Return the chosen columns, in this order; a SpecError for none, unknown or duplicate ones."""
    import pyarrow as pa

    if columns is None:
        return available
    names = list(columns)
    if not names:
        raise SpecError(
            f"columns={columns!r} names no column, and rows without columns cannot be counted; "
            f"name at least one of: {', '.join(available.names)}"
        )
    unknown = [name for name in names if name not in available.names]
    if unknown:
        raise SpecError(
            f"{where} has no column {unknown[0]!r}; it has: {', '.join(available.names)}"
        )
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise SpecError(
            f"columns={columns!r} names {twice[0]!r} more than once; name each column once"
        )
    return pa.schema([available.field(name) for name in names])
