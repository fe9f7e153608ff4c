"""The conversion of a column with nulls by a function that does not accept nulls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["around_nulls"]


def around_nulls(
    column: pa.Array, to: pa.DataType, convert: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """Convert the values of a column with ``convert`` to the type ``to``. Nulls stay nulls."""
    import pyarrow as pa
    import pyarrow.compute as pc

    present = column.drop_null() if column.null_count else column
    if not len(present):
        return pa.nulls(len(column), to)
    converted = convert(present)
    if len(present) == len(column):
        return converted
    valid = pc.is_valid(column)
    places = pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1)
    return converted.take(pc.if_else(valid, places, None))
