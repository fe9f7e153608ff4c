"""Functions that serialise and deserialise Arrow columns of keys and values.

The functions need pyarrow (``pip install 'pyarrow>=18'``), and import it when they are called.
"""

from __future__ import annotations

import json
import sys
from array import array
from typing import TYPE_CHECKING, Any

from kstore_core import serdes
from kstore_core.codec import Headers
from kstore_core.errors import FormatError
from kstore_core.serdes import Serde

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["HEADERS_FIELDS", "headers_type", "to_binary", "to_typed"]

HEADERS_FIELDS = ("key", "value")
"""The names of the fields of a header in a column of headers."""

_NUMBERS = {"int32": "i", "int64": "q", "float64": "d"}
"""The type codes of :mod:`array` for the numeric serdes. An array swaps bytes without numpy."""


def headers_type() -> pa.DataType:
    """Return the type of a column of headers.

    The type is ``list<element: struct<key: string, value: binary>>``.
    """
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return pa.list_(pa.field("element", header))


def to_typed(serde: Serde[Any], column: pa.Array) -> pa.Array:
    """Deserialise a binary column to the Arrow type of the serde. A null stays null.

    Raises
    ------
    FormatError
        If the serde cannot deserialise a value.
    """
    import pyarrow as pa

    if serde is serdes.BYTES:
        return column
    if serde is serdes.UTF8 or serde is serdes.JSON:
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise FormatError(f"a stored value is not UTF-8: {error}") from error
    if serde.name in _NUMBERS and serde is serdes.BUILT_IN.get(serde.name):
        return _to_numbers(column, _NUMBERS[serde.name], serde)
    no_headers = Headers()
    return pa.array(
        [None if v is None else serde.deserialize(v, no_headers) for v in column.to_pylist()],
        serde.arrow_type,
    )


def _to_numbers(column: pa.Array, code: str, serde: Serde[Any]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    size = array(code).itemsize
    filled = pc.fill_null(column, b"\0" * size) if column.null_count else column
    if len(filled) and not pc.all(pc.equal(pc.binary_length(filled), size)).as_py():
        raise FormatError(f"each value of serdes.{serde.name.upper()} must have {size} bytes")
    numbers = _swapped(filled.cast(pa.binary(size)), code, serde.arrow_type)
    return pc.if_else(pc.is_null(column), None, numbers) if column.null_count else numbers


def _swapped(column: pa.Array, code: str, to: pa.DataType) -> pa.Array:
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


def to_binary(serde: Serde[Any], column: pa.Array) -> pa.Array:
    """Serialise a column of values to a binary column. A null stays null.

    Raises
    ------
    TypeError, ValueError
        If the serde cannot serialise a value or a column of this type.
    """
    import pyarrow as pa

    try:
        return _to_binary(serde, column)
    except pa.ArrowNotImplementedError as error:
        raise TypeError(
            f"the serde {serde.name!r} cannot serialise a column of {column.type}: {error}"
        ) from error


def _to_binary(serde: Serde[Any], column: pa.Array) -> pa.Array:
    import pyarrow as pa

    if serde is serdes.BYTES:
        _expect(column, serde, "binary")
        return column.cast(pa.binary())
    if serde is serdes.UTF8 or serde is serdes.JSON:
        _expect(column, serde, "string")
    if serde is serdes.JSON:
        for text in column.to_pylist():
            if text is not None:
                _check_json(text)
    if serde is serdes.UTF8 or serde is serdes.JSON:
        return column.cast(pa.string()).cast(pa.binary())
    if serde.name in _NUMBERS and serde is serdes.BUILT_IN.get(serde.name):
        return _from_numbers(column.cast(serde.arrow_type), _NUMBERS[serde.name])
    no_headers = Headers()
    return pa.array(
        [None if v is None else serde.serialize(v, no_headers) for v in column.to_pylist()],
        pa.binary(),
    )


def _expect(column: pa.Array, serde: Serde[Any], kind: str) -> None:
    name = str(column.type)
    if name != "null" and (kind not in name or "<" in name):
        raise TypeError(f"the serde {serde.name!r} needs a {kind} column, not {column.type}")


def _check_json(text: str) -> None:
    try:
        json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text[:50]!r} in a column of JSON is not valid JSON: {error}") from error


def _from_numbers(column: pa.Array, code: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = pc.fill_null(column, 0) if column.null_count else column
    binary = _swapped(filled, code, pa.binary(array(code).itemsize)).cast(pa.binary())
    return pc.if_else(pc.is_null(column), None, binary) if column.null_count else binary
