"""The columns of serdes whose bytes have a fixed size: numbers, booleans, dates and timestamps.

The functions swap bytes with :class:`array.array`, so they do not need numpy.
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING, Any

from kstore_core import serdes
from kstore_core.errors import FormatError

if TYPE_CHECKING:
    import pyarrow as pa

    from kstore_core.serdes import Serde

__all__ = ["is_number", "read", "swapped", "write"]

_CODES = {
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "boolean": "B",
    "date": "i",
    "timestamp": "q",
}
"""The type codes of :mod:`array` for the numbers that the serdes store."""

_DAYS = {"date": 1, "timestamp": 86_400_000_000}
"""The length of a day in the units of a serde."""

_TYPES = {"boolean": "boolean", "date": "date", "timestamp": "timestamp with a time zone"}
"""The types of the columns that the serdes of booleans, dates and timestamps accept."""


def is_number(serde: Serde[Any]) -> bool:
    """Return True if this module converts the columns of a serde."""
    return serde.name in _CODES and serde is serdes.BUILT_IN.get(serde.name)


def read(serde: Serde[Any], column: pa.Array) -> pa.Array:
    """Deserialise a binary column. Raise a FormatError if a value has another size."""
    import pyarrow as pa
    import pyarrow.compute as pc

    code = _CODES[serde.name]
    size = array(code).itemsize
    filled = pc.fill_null(column, b"\0" * size) if column.null_count else column
    if len(filled) and not pc.all(pc.equal(pc.binary_length(filled), size)).as_py():
        raise FormatError(
            f"a stored value does not have {size} byte{'s' * (size > 1)}, as "
            f"serdes.{serde.name.upper()} requires"
        )
    fixed = filled.cast(pa.binary(size))
    if serde is serdes.BOOLEAN:
        bits = swapped(fixed, code, pa.uint8())
        if len(bits) and pc.max(bits).as_py() > 1:
            raise FormatError("a stored value is not 00 or 01, as serdes.BOOLEAN requires")
        numbers = bits.cast(pa.bool_())
    else:
        numbers = swapped(fixed, code, serde.arrow_type)
    if serde.name in _DAYS and not _are_in_calendar(numbers, _DAYS[serde.name]):
        raise FormatError(
            f"a stored value is not in the years 1 to 9999, as serdes.{serde.name.upper()} requires"
        )
    return pc.if_else(pc.is_null(column), None, numbers) if column.null_count else numbers


def _are_in_calendar(times: pa.Array, day: int) -> bool:
    """Return True if all times are in the years 1 to 9999, as Python requires."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.min_max(times.cast(pa.int32() if day == 1 else pa.int64())).as_py()
    return ends["min"] is None or (ends["min"] >= -719_162 * day and ends["max"] < 2_932_897 * day)


def write(serde: Serde[Any], column: pa.Array) -> pa.Array:
    """Serialise a column to a binary column. Raise a TypeError if the column has another type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if serde.name in _TYPES and column.type != serde.arrow_type:
        _check_type(serde, column)
    code = _CODES[serde.name]
    whole = column.cast(serde.arrow_type)
    if serde.name in _TYPES:
        whole = whole.cast({"B": pa.uint8(), "i": pa.int32(), "q": pa.int64()}[code])
    filled = pc.fill_null(whole, 0) if whole.null_count else whole
    binary = swapped(filled, code, pa.binary(array(code).itemsize)).cast(pa.binary())
    return pc.if_else(pc.is_null(whole), None, binary) if whole.null_count else binary


def _check_type(serde: Serde[Any], column: pa.Array) -> None:
    """Raise a TypeError if a column has another type. The unit and the time zone may differ."""
    import pyarrow.types as is_

    kind = column.type
    is_fit = is_.is_null(kind) or (
        serde is serdes.TIMESTAMP and is_.is_timestamp(kind) and kind.tz is not None
    )
    if not is_fit:
        raise TypeError(
            f"the serde {serde.name!r} needs a column of the type {_TYPES[serde.name]}, not {kind}"
        )


def swapped(column: pa.Array, code: str, to: pa.DataType) -> pa.Array:
    """Convert numbers between big-endian and native byte order. The column must have no nulls."""
    import pyarrow as pa

    numbers = array(code)
    if len(column):
        size = numbers.itemsize
        begin = column.offset * size
        numbers.frombytes(memoryview(column.buffers()[1])[begin : begin + len(column) * size])
    if sys.byteorder == "little":
        numbers.byteswap()
    return pa.Array.from_buffers(to, len(numbers), [None, pa.py_buffer(numbers)])
