"""Conversions between a column of values and a column of bytes, for each kind of serde."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kstore_core import serdes
from kstore_core.arrow import decimals, ipc_rows, json_rows, numbers
from kstore_core.codec import Headers
from kstore_core.errors import FormatError, SpecError
from kstore_core.serdes import Serde, TypedSerde
from kstore_core.serdes.types import type_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "HEADERS_FIELDS",
    "check_json",
    "from_values",
    "headers_type",
    "to_binary",
    "to_typed",
    "to_values",
]

HEADERS_FIELDS = ("key", "value")
"""The names of the fields of a header in a column of headers."""

_FORMS = {"decimal": decimals, "json": json_rows, "arrow": ipc_rows}
"""The modules that convert the columns of typed serdes."""


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
    if numbers.is_number(serde):
        return numbers.read(serde, column)
    if isinstance(serde, TypedSerde):
        return _FORMS[serde.form].read(serde.kind, column)
    no_headers = Headers()
    return from_values(
        serde,
        [None if v is None else serde.deserialize(v, no_headers) for v in column.to_pylist()],
    )


def from_values(serde: Serde[Any], values: list[Any]) -> pa.Array:
    """Make a column from Python values. The serde converts the values if necessary."""
    import pyarrow as pa

    arrow_value = getattr(serde, "arrow_value", None)
    if arrow_value is not None:
        values = [None if value is None else arrow_value(value) for value in values]
    return pa.array(values, serde.arrow_type)


def to_values(serde: Serde[Any], column: pa.Array) -> list[Any]:
    """Return the Python values of a column. The serde converts the values if necessary."""
    values: list[Any] = column.to_pylist()
    from_arrow = getattr(serde, "from_arrow", None)
    if from_arrow is None:
        return values
    return [None if value is None else from_arrow(value) for value in values]


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
        check_json(column)
    if serde is serdes.UTF8 or serde is serdes.JSON:
        return column.cast(pa.string()).cast(pa.binary())
    if numbers.is_number(serde):
        return numbers.write(serde, column)
    if isinstance(serde, TypedSerde):
        if column.type != serde.arrow_type:
            column = _cast(column, serde)
        return _FORMS[serde.form].write(serde.kind, column)
    no_headers = Headers()
    return pa.array(
        [None if v is None else serde.serialize(v, no_headers) for v in to_values(serde, column)],
        pa.binary(),
    )


def _cast(column: pa.Array, serde: TypedSerde) -> pa.Array:
    """Cast a column to the type of a serde. Time zones and the widths of offsets may differ."""
    import pyarrow as pa

    try:
        is_fit = pa.types.is_null(column.type) or type_of(column.type) == serde.kind
    except SpecError:
        is_fit = False
    if not is_fit:
        raise TypeError(
            f"the serde {serde.name!r} needs a column of {serde.kind}, not {column.type}; cast the "
            "column"
        )
    return column.cast(serde.arrow_type)


def _expect(column: pa.Array, serde: Serde[Any], kind: str) -> None:
    name = str(column.type)
    if name != "null" and (kind not in name or "<" in name):
        raise TypeError(f"the serde {serde.name!r} needs a {kind} column, not {column.type}")


def check_json(column: pa.Array) -> None:
    """Raise a ValueError if a column of strings contains a value that is not JSON.

    A null is accepted.
    """
    for text in column.to_pylist():
        try:
            if text is not None:
                json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{text[:50]!r} is not valid JSON: {error}") from error
