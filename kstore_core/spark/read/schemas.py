"""The columns that a read can return, and the columns that the caller chooses."""

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
"""The names of the columns that contain times."""


def record_schema(
    spec: StoreSpec,
    headers: bool | None,
    timestamps: str,
    first: Sequence[str],
    last: Sequence[str],
) -> pa.Schema:
    """Return the schema of all columns that a read can return.

    ``first`` and ``last`` are columns that the read adds before and after those of the store.
    Raise a SpecError if ``headers`` is true and the store has no headers.
    """
    import pyarrow as pa

    check_choice("timestamps", timestamps, ("timestamp", "millis"))
    if headers and not spec.format.headers:
        raise SpecError(
            f"headers=True, but the store {spec.name!r} has the format {spec.format.name!r}, which "
            "has no headers; leave headers out"
        )
    schema = store_schema(spec, as_millis=timestamps == "millis")
    if headers is False and spec.format.headers:
        schema = schema.remove(schema.get_field_index("headers"))
    types = {"partition": pa.int32(), "task": pa.string(), "_change": pa.string()}
    before, after = ([(name, types[name]) for name in names] for names in (first, last))
    return pa.schema([*before, *schema, *after])


def store_schema(spec: StoreSpec, *, as_millis: bool) -> pa.Schema:
    """Return the schema of a store's records.

    Times are int64 in ms if ``as_millis`` is true, and Spark timestamps if it is false.
    """
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
    """Return the schema of the columns that the caller has chosen, in the order of ``columns``.

    If ``columns`` is None, all columns are chosen. Raise a SpecError if ``columns`` is empty, or
    if a column is unknown or given twice; ``where`` names the store in the message.
    """
    import pyarrow as pa

    if columns is None:
        return available
    names = list(columns)
    if not names:
        raise SpecError(
            f"columns={columns!r} names no column, but Spark needs at least one column to count "
            f"the rows; name at least one of these columns: {', '.join(available.names)}"
        )
    unknown = [name for name in names if name not in available.names]
    if unknown:
        raise SpecError(
            f"{where} has no column {unknown[0]!r}; its columns are: {', '.join(available.names)}"
        )
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise SpecError(
            f"columns={columns!r} names {twice[0]!r} more than once; name each column once"
        )
    return pa.schema([available.field(name) for name in names])
