"""The checks and conversions of the columns that ``put_many`` and ``put_arrow`` get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kstore_core.errors import SpecError

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.spec import StoreSpec
    from kstore_core.typed.values import Values

__all__ = ["CHUNK_ROWS", "columns_of", "columns_of_format", "encoded", "times_of"]

CHUNK_ROWS = 16_384
"""The number of rows in a chunk. The rows of a chunk are staged together."""


def columns_of(
    table: pa.Table | pa.RecordBatch, wanted: Sequence[str], ignored: Sequence[str], store: str
) -> dict[str, Any]:
    """Return the columns of a table by name.

    Parameters
    ----------
    wanted : sequence of str
        The names of the columns to return. The table must have all of them, except that
        ``timestamp`` and ``headers`` may be missing.
    ignored : sequence of str
        The names of the columns that the table may also have, but that are not returned.

    Raises
    ------
    SpecError
        A column is missing or unknown.
    """
    names = table.column_names
    unknown = [name for name in names if name not in wanted and name not in ignored]
    if unknown:
        raise SpecError(
            f"the table has the column {unknown[0]!r}, which the store {store!r} does not take. "
            f"The store takes the columns {', '.join(wanted)}. Drop or rename the column "
            f"{unknown[0]!r}"
        )
    required = [name for name in wanted if name not in ("timestamp", "headers")]
    missing = [name for name in required if name not in names]
    if missing:
        raise SpecError(
            f"the table has no column {missing[0]!r}, which the store {store!r} needs. The table "
            f"has the columns {', '.join(names)}. Add or rename a column"
        )
    return {name: table[name] for name in names if name in wanted}


def columns_of_format(spec: StoreSpec, *times: str) -> tuple[str, ...]:
    """Return the names of the columns that ``put_arrow`` takes in a store of this format.

    Parameters
    ----------
    times : str
        The names of the time columns of the shape, such as ``start``.
    """
    timed = spec.format.timestamped or spec.format.versioned
    return (
        "key",
        *times,
        "value",
        *(["timestamp"] if timed else []),
        *(["headers"] if spec.format.headers else []),
    )


def encoded(
    values: Values,
    keys: Any,
    column: Any,
    timestamps: Any = None,
    headers: Any = None,
) -> Iterator[tuple[int, list[bytes], list[bytes | None]]]:
    """Serialise the keys and values of columns, and return an iterator of chunks of rows.

    A chunk is a tuple of the index of its first row, its raw keys and its raw values. All rows are
    encoded before the first chunk is returned. So nothing is staged if a value cannot be encoded.

    Raises
    ------
    ValueError
        The columns differ in length.
    TypeError
        A key or timestamp is missing, or a column has a type that the serde does not accept.
    """
    count = len(keys)
    for name, other in (("values", column), ("timestamps", timestamps), ("headers", headers)):
        if other is not None and len(other) != count:
            raise ValueError(
                f"there are {count} keys but {len(other)} {name}; the numbers must be equal"
            )
    chunks = [
        (
            start,
            *values.rows(
                keys[start : start + CHUNK_ROWS],
                column[start : start + CHUNK_ROWS],
                None if timestamps is None else timestamps[start : start + CHUNK_ROWS],
                None if headers is None else headers[start : start + CHUNK_ROWS],
            ),
        )
        for start in range(0, count, CHUNK_ROWS)
    ]
    return iter(chunks)


def times_of(column: Any, name: str, count: int) -> list[int]:
    """Return a column of ``count`` times as integers in ms.

    Parameters
    ----------
    column : sequence of int or datetime, or Arrow array of int64 or of timestamps

    Raises
    ------
    ValueError
        The column does not have ``count`` times, or a datetime has no time zone.
    TypeError
        A time is missing or of another type.
    """
    from kstore_core.types import to_millis

    if len(column) != count:
        raise ValueError(
            f"there are {count} keys but {len(column)} {name}; the numbers must be equal"
        )
    if hasattr(column, "__arrow_c_array__") or hasattr(column, "combine_chunks"):
        from kstore_core.codec.arrow.decoder import milliseconds

        return milliseconds(column, name)
    return [time if type(time) is int else to_millis(time) for time in column]
