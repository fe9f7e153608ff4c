"""The serdes of values whose type has parameters: decimals and structs.

The name of such a serde contains the type. So a reader of a store can make the serde from the
stored spec.
"""

from __future__ import annotations

import base64
import datetime
import functools
import json
from collections.abc import Callable
from decimal import Decimal
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

from kstore_core.errors import FormatError, SpecError
from kstore_core.serdes.checking import checked, fitted, unscaled
from kstore_core.serdes.ipc_messages import row_of
from kstore_core.serdes.serde import BuiltInSerde
from kstore_core.serdes.types import INTEGERS, Type, check_decimal, leaves, type_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TypedSerde", "arrow_row", "arrow_value", "decimal", "from_arrow", "json_row"]


class TypedSerde(BuiltInSerde[Any]):
    """A serde whose name contains the type of its values. It ignores headers.

    Attributes
    ----------
    kind : Type
        The type of the values.
    form : {"decimal", "json", "arrow"}
        The form of the bytes.
    """

    def __init__(
        self,
        form: str,
        kind: Type,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
    ) -> None:
        name = str(kind) if form == "decimal" else f"{form}({kind})"
        super().__init__(name, "", encode, decode)
        self.form = form
        self.kind = kind

    def __repr__(self) -> str:
        if self.form == "decimal":
            return f"serdes.{self.name}"
        return f"serdes.{self.form}_row({str(self.kind)!r})"

    @property
    def arrow_type(self) -> pa.DataType:
        return self.kind.arrow


def decimal(precision: int, scale: int) -> TypedSerde:
    """Return the serde of decimals, whose Python type is :class:`decimal.Decimal`.

    The bytes contain the number without its decimal point, as the shortest big-endian two's
    complement. ``BigInteger.toByteArray`` in Java and Kafka Connect's ``Decimal`` give the same
    bytes.

    Parameters
    ----------
    precision : int
        The greatest number of digits, from 1 to 38.
    scale : int
        The number of digits after the point, from 0 to ``precision``.

    Raises
    ------
    SpecError
        The precision or the scale is out of range.
    """
    return _decimal(check_decimal(precision, scale))


def json_row(schema: Any) -> TypedSerde:
    """Return the serde that encodes a struct, which is a dict in Python, as a JSON object.

    If the object lacks a field, the field is read as None. Unknown fields are ignored.

    Parameters
    ----------
    schema : str, pyarrow.Schema, pyarrow.DataType, or a StructType of Spark
        The type of the struct, such as ``"struct<sku:string,price:decimal(10,2)>"``.

    Raises
    ------
    SpecError
        ``schema`` is not the type of a struct, or it has a map whose keys are not strings.
    """
    kind = _struct_of(schema)
    for part in leaves(kind):
        if part.name == "map" and part.parts[0].name != "string":
            raise SpecError(
                f"serdes.json_row cannot have the type {part}, because the names in a JSON object "
                "are strings; use string keys, or serdes.arrow_row"
            )
    return _json_row(kind)


def arrow_row(schema: Any) -> TypedSerde:
    """Return the serde that encodes a struct as an Arrow record batch of one row.

    The bytes are an encapsulated message of the Arrow IPC format. They do not contain the schema,
    which is a part of the serde's name in the store's spec. The serde needs pyarrow.

    Parameters
    ----------
    schema : str, pyarrow.Schema, pyarrow.DataType, or a StructType of Spark
        The type of the struct, such as ``"struct<sku:string,price:decimal(10,2)>"``.

    Raises
    ------
    SpecError
        ``schema`` is not the type of a struct.
    """
    return _arrow_row(_struct_of(schema))


def _struct_of(schema: Any) -> Type:
    kind = type_of(schema)
    if kind.name != "struct":
        raise SpecError(f"a row must be a struct, not {kind}; pass a type such as struct<x:{kind}>")
    return kind


@functools.lru_cache(maxsize=256)
def _decimal(kind: Type) -> TypedSerde:
    where = f"serdes.{kind}"

    def encode(value: Decimal) -> bytes:
        if value is None:
            raise TypeError(f"{where} takes decimal.Decimal, not NoneType")
        whole = unscaled(kind, checked(kind, value, where))
        return whole.to_bytes((whole + (whole < 0)).bit_length() // 8 + 1, "big", signed=True)

    def decode(data: bytes) -> Decimal:
        if not 1 <= len(data) <= 16:
            raise FormatError(
                f"{where} reads 1 to 16 bytes, but was given {len(data)} bytes", offset=0
            )
        whole = int.from_bytes(data, "big", signed=True)
        if abs(whole) >= 10**kind.precision:
            raise FormatError(
                f"the stored number {whole} has too many digits for {where}", offset=0
            )
        return Decimal((whole < 0, tuple(map(int, str(abs(whole)))), -kind.scale))

    return TypedSerde("decimal", kind, encode, decode)


@functools.lru_cache(maxsize=256)
def _json_row(kind: Type) -> TypedSerde:
    where = f"serdes.json_row({str(kind)!r})"
    # Only a decimal needs all digits of a number. Parsing to floats is faster.
    exact = Decimal if any(part.name == "decimal" for part in leaves(kind)) else None

    def encode(value: Any) -> bytes:
        if value is None:
            raise TypeError(f"{where} takes a dict, not NoneType")
        return _text(kind, checked(kind, value, where)).encode()

    def decode(data: bytes) -> Any:
        try:
            parsed = json.loads(data, parse_float=exact, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"stored bytes are not JSON: {error}") from error
        if not isinstance(parsed, dict):
            raise FormatError(f"stored bytes are not a JSON object, but {type(parsed).__name__}")
        return _from_json(kind, parsed, "the stored object")

    return TypedSerde("json", kind, encode, decode)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _text(kind: Type, value: Any) -> str:
    """Return the JSON text of a checked value."""
    if value is None:
        return "null"
    match kind.name:
        case "struct":
            return (
                "{"
                + ",".join(
                    f"{encode_basestring(name)}:{_text(part, value[name])}"
                    for name, part in zip(kind.names, kind.parts, strict=True)
                )
                + "}"
            )
        case "array":
            return f"[{','.join(_text(kind.parts[0], item) for item in value)}]"
        case "map":
            items = (f"{encode_basestring(k)}:{_text(kind.parts[1], v)}" for k, v in value.items())
            return "{" + ",".join(items) + "}"
        case "string":
            return encode_basestring(value)
        case "boolean":
            return "true" if value else "false"
        case "float" | "double":
            if value - value != 0:
                raise ValueError(f"{value} is not JSON; store null, or use serdes.arrow_row")
            return repr(value)
        case "binary":
            return f'"{base64.b64encode(value).decode()}"'
        case "date":
            return f'"{value.isoformat()}"'
        case "timestamp":
            return f'"{value.replace(tzinfo=None).isoformat(timespec="microseconds")}Z"'
        case _:
            return str(value)


_JSON_CLASSES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("string", "binary", "date", "timestamp"), (str,)),
    **dict.fromkeys(INTEGERS, (int,)),
    **dict.fromkeys(("float", "double"), (int, float, Decimal)),
    "boolean": (bool,),
    "decimal": (int, Decimal, str),
    "array": (list,),
    "struct": (dict,),
    "map": (dict,),
}


def _from_json(kind: Type, value: Any, where: str) -> Any:
    """Convert parsed JSON to a value of ``kind``. Raise a FormatError if it has another type."""
    if value is None:
        return None
    _check_json_class(kind, value, where)
    match kind.name:
        case "struct":
            return {
                name: _from_json(part, value.get(name), f"{where}.{name}")
                for name, part in zip(kind.names, kind.parts, strict=True)
            }
        case "array":
            return [_from_json(kind.parts[0], item, f"{where}[]") for item in value]
        case "map":
            return {k: _from_json(kind.parts[1], v, f"{where}[{k!r}]") for k, v in value.items()}
    try:
        match kind.name:
            case "binary":
                return base64.b64decode(value, validate=True)
            case "date":
                if len(value) != 10:
                    raise ValueError("a date has the form YYYY-MM-DD")
                return datetime.date.fromisoformat(value)
            case "timestamp":
                return checked(kind, datetime.datetime.fromisoformat(value), where)
            case "decimal":
                return fitted(kind, Decimal(value), where)
            case "float" | "double":
                number = checked(kind, float(value), where)
                if number - number != 0:
                    raise ValueError("the number is too large")
                return number
            case _:
                return checked(kind, value, where)
    except (ValueError, ArithmeticError) as error:
        raise FormatError(
            f"{where} is {str(value)[:50]!r}, which is not a JSON form of {kind}: {error}"
        ) from error


def _check_json_class(kind: Type, value: object, where: str) -> None:
    if not isinstance(value, _JSON_CLASSES[kind.name]) or (
        isinstance(value, bool) and kind.name != "boolean"
    ):
        raise FormatError(f"{where} is {str(value)[:50]!r}, which is not a JSON form of {kind}")


@functools.lru_cache(maxsize=256)
def _arrow_row(kind: Type) -> TypedSerde:
    where = f"serdes.arrow_row({str(kind)!r})"

    def encode(value: Any) -> bytes:
        import pyarrow as pa

        if value is None:
            raise TypeError(f"{where} takes a dict, not NoneType")
        row = checked(kind, value, where)
        parts = zip(kind.names, kind.parts, strict=True)
        columns = [pa.array([arrow_value(part, row[name])], part.arrow) for name, part in parts]
        schema = pa.schema(list(kind.arrow))
        return bytes(pa.RecordBatch.from_arrays(columns, schema=schema).serialize())

    def decode(data: bytes) -> Any:
        return from_arrow(kind, row_of(kind, data))

    return TypedSerde("arrow", kind, encode, decode)


def arrow_value(kind: Type, value: Any) -> Any:
    """Return a checked value as pyarrow accepts it: each map becomes a list of pairs."""
    if value is None or not kind.parts:
        return value
    match kind.name:
        case "array":
            return [arrow_value(kind.parts[0], item) for item in value]
        case "map":
            keys, items = kind.parts
            return [(arrow_value(keys, k), arrow_value(items, v)) for k, v in value.items()]
        case _:
            parts = zip(kind.names, kind.parts, strict=True)
            return {name: arrow_value(part, value[name]) for name, part in parts}


def from_arrow(kind: Type, value: Any) -> Any:
    """Return a value of pyarrow as :func:`checked` returns it."""
    if value is None:
        return None
    match kind.name:
        case "timestamp":
            return value.astimezone(datetime.UTC)
        case "array":
            return [from_arrow(kind.parts[0], item) for item in value]
        case "map":
            keys, items = kind.parts
            return {from_arrow(keys, k): from_arrow(items, v) for k, v in value}
        case "struct":
            parts = zip(kind.names, kind.parts, strict=True)
            return {name: from_arrow(part, value[name]) for name, part in parts}
        case _:
            return value
