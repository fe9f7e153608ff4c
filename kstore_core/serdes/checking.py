"""The check of Python values against the types of typed values."""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from kstore_core.serdes.types import INTEGERS, Type

__all__ = ["EPOCH", "checked", "fitted", "micros_of", "unscaled"]

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

_MICROSECOND = datetime.timedelta(microseconds=1)
_EXACT = decimal.Context(prec=80, traps=[decimal.Inexact, decimal.InvalidOperation])
_FLOAT = struct.Struct("<f")
_PYTHON: Mapping[str, tuple[tuple[type, ...], str]] = {
    "boolean": ((bool,), "bool"),
    "string": ((str,), "str"),
    "binary": ((bytes, bytearray, memoryview), "bytes"),
    "date": ((datetime.date,), "datetime.date"),
    "timestamp": ((datetime.datetime,), "an aware datetime.datetime"),
    "decimal": ((Decimal, int), "decimal.Decimal"),
    "float": ((float, int), "float"),
    "double": ((float, int), "float"),
    "array": ((list, tuple), "a list"),
    "map": ((Mapping,), "a dict"),
    "struct": ((Mapping,), "a dict"),
    **dict.fromkeys(INTEGERS, ((int,), "int")),
}


def checked(kind: Type, value: Any, where: str) -> Any:
    """Return a value as the type ``kind`` stores it.

    Parameters
    ----------
    kind : Type
        The type.
    value : object
        The value. None is a null, which is not allowed as the key of a map.
    where : str
        The serde and the path of the value, for error messages.

    Returns
    -------
    object
        The value. Decimals have the scale of their type, times are in UTC, and a struct has all
        of its fields.

    Raises
    ------
    TypeError
        A value has another type.
    ValueError
        A value does not fit, a datetime is naive, a key of a map is None, or a struct has an
        unknown field.
    """
    if value is None:
        return None
    _check_class(kind, value, where)
    match kind.name:
        case "tinyint" | "smallint" | "int" | "bigint":
            bits = INTEGERS[kind.name]
            if not -(1 << bits - 1) <= value < 1 << bits - 1:
                raise ValueError(f"{where} takes integers of {bits} bits, not {value}")
        case "double" | "float":
            return _floating(kind, value, where)
        case "binary":
            return bytes(value)
        case "date" if isinstance(value, datetime.datetime):
            raise TypeError(f"{where} takes datetime.date, not datetime; pass value.date()")
        case "timestamp":
            if value.utcoffset() is None:
                raise ValueError(
                    f"{where} takes an aware datetime, not the naive {value!r}; pass tzinfo"
                )
            return EPOCH + _MICROSECOND * micros_of(value)
        case "decimal":
            return fitted(kind, Decimal(value), where)
        case "array":
            return [checked(kind.parts[0], item, f"{where}[]") for item in value]
        case "map":
            if None in value:
                raise ValueError(f"{where} has the key None, but a key must not be null")
            keys, items = kind.parts
            return {
                checked(keys, key, f"{where} (a key)"): checked(items, item, f"{where}[{key!r}]")
                for key, item in value.items()
            }
        case "struct":
            unknown = [key for key in value if key not in kind.names]
            if unknown:
                raise ValueError(
                    f"{where} has no field {unknown[0]!r}; its fields are {', '.join(kind.names)}"
                )
            return {
                name: checked(part, value.get(name), f"{where}.{name}")
                for name, part in zip(kind.names, kind.parts, strict=True)
            }
    return value


def _check_class(kind: Type, value: object, where: str) -> None:
    classes, name = _PYTHON[kind.name]
    if not isinstance(value, classes) or (isinstance(value, bool) and kind.name != "boolean"):
        raise TypeError(f"{where} takes {name}, not {type(value).__name__}")


def _floating(kind: Type, value: Any, where: str) -> float:
    try:
        number = float(value)
        return number if kind.name == "double" else float(_FLOAT.unpack(_FLOAT.pack(number))[0])
    except OverflowError as error:
        raise ValueError(f"{where} takes numbers of the type {kind}, not {value}") from error


def fitted(kind: Type, value: Decimal, where: str) -> Decimal:
    """Return a decimal with the scale of ``kind``. Raise a ValueError if it does not fit."""
    try:
        exact = value.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
        if exact.is_finite() and exact.adjusted() < kind.precision - kind.scale:
            return exact or exact.copy_abs()
    except decimal.DecimalException:
        pass
    raise ValueError(
        f"{where} takes numbers of at most {kind.precision - kind.scale} digits before the point "
        f"and {kind.scale} after it, not {value}; round the number, or use a decimal type with "
        "more digits"
    )


def unscaled(kind: Type, value: Decimal) -> int:
    """Return a fitted decimal as an integer without the decimal point."""
    # With the default context, scaleb would round the number to 28 digits.
    return int(value.scaleb(kind.scale, context=_EXACT))


def micros_of(time: datetime.datetime) -> int:
    """Return an aware datetime as microseconds since the epoch."""
    return (time - EPOCH) // _MICROSECOND
