"""The types of the values that Avro, JSON and Protobuf schemas and Python classes describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstore_core.errors import SpecError
from kstore_core.serdes.types import Type, check_decimal

__all__ = ["avro_type", "class_type", "json_type", "protobuf_type"]

_AVRO = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
}
_JSON = {"boolean": "boolean", "integer": "bigint", "number": "double", "string": "string"}
_PROTOBUF = {
    **dict.fromkeys((1,), "double"),
    **dict.fromkeys((2,), "float"),
    **dict.fromkeys((5, 14, 15, 17), "int"),  # an enum is stored as a number
    **dict.fromkeys((3, 4, 6, 7, 13, 16, 18), "bigint"),  # unsigned 32 bits need a bigint
    8: "boolean",
    9: "string",
    12: "binary",
}
"""The types of fields, by the numbers of ``FieldDescriptor.Type``."""

_CLASSES = {
    "BoolType": "boolean",
    "IntType": "bigint",
    "FloatType": "double",
    "StrType": "string",
    "BytesType": "binary",
    "DateTimeType": "timestamp",
    "DateType": "date",
}


def avro_type(schema: Any) -> Type:
    """Return the type of an Avro schema, parsed from JSON.

    Raises
    ------
    SpecError
        The schema has a union of several types, a recursive record, or an unknown type.
    """
    return _avro(schema, {})


def _avro(schema: Any, known: dict[str, Type]) -> Type:
    if isinstance(schema, list):
        return _avro(_only([part for part in schema if part != "null"], schema), known)
    if isinstance(schema, str):
        if schema in known:
            return known[schema]
        return _plain(_AVRO, schema)
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _avro(kind, known)
    logical = schema.get("logicalType")
    if logical == "decimal":
        return check_decimal(schema["precision"], schema.get("scale", 0))
    if kind == "array":
        return Type("array", parts=(_avro(schema["items"], known),))
    if kind == "map":
        return Type("map", parts=(Type("string"), _avro(schema["values"], known)))
    if kind in ("record", "error"):
        fields = schema["fields"]
        parts = tuple(_avro(field["type"], known) for field in fields)
        made = Type("struct", tuple(field["name"] for field in fields), parts)
    else:
        made = _plain(_AVRO, logical if logical in _AVRO else kind)
    if "name" in schema:
        known[schema["name"]] = made
    return made


def json_type(schema: Mapping[str, Any]) -> Type:
    """Return the type of a parsed JSON Schema.

    Raises
    ------
    SpecError
        A part of the schema has no single type, for example a part with ``anyOf`` or ``$ref``.
    """
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = _only([part for part in kind if part != "null"], kind)
    if kind == "array":
        return Type("array", parts=(json_type(schema.get("items", {})),))
    if kind == "object" and "properties" in schema:
        fields = schema["properties"]
        return Type("struct", tuple(fields), tuple(map(json_type, fields.values())))
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        values = json_type(schema["additionalProperties"])
        return Type("map", parts=(Type("string"), values))
    return _plain(_JSON, kind)


def protobuf_type(descriptor: Any, *, within: tuple[str, ...] = ()) -> Type:
    """Return the type of the messages that a Protobuf descriptor describes.

    Raises
    ------
    SpecError
        The message contains itself.
    """
    if descriptor.full_name in within:
        raise SpecError(
            f"the message {descriptor.full_name} contains itself, so it has no Arrow type"
        )
    within = (*within, descriptor.full_name)
    parts = []
    for field in descriptor.fields:
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            pair = protobuf_type(message, within=within).parts
            parts.append(Type("map", parts=pair))
            continue
        part = (
            _plain(_PROTOBUF, field.type)
            if message is None
            else protobuf_type(message, within=within)
        )
        parts.append(Type("array", parts=(part,)) if is_repeated(field) else part)
    return Type("struct", tuple(field.name for field in descriptor.fields), tuple(parts))


def is_repeated(field: Any) -> bool:
    """Return True if a Protobuf field is a list."""
    repeated = getattr(field, "is_repeated", None)  # since Protobuf 6.31; the label is deprecated
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def class_type(cls: Any) -> Type:
    """Return the type of the values of a class that msgspec supports.

    Raises
    ------
    SpecError
        A part of the class has no single Arrow type, such as a union or a ``Decimal``.
    """
    from msgspec import inspect

    return _inspected(inspect.type_info(cls))


def _inspected(info: Any) -> Type:
    name = type(info).__name__
    if name == "UnionType":
        parts = [part for part in info.types if type(part).__name__ != "NoneType"]
        return _inspected(_only(parts, info.types))
    if name in ("ListType", "SetType", "FrozenSetType", "VarTupleType"):
        return Type("array", parts=(_inspected(info.item_type),))
    if name == "DictType":
        return Type("map", parts=(_inspected(info.key_type), _inspected(info.value_type)))
    if name in ("StructType", "DataclassType", "TypedDictType", "NamedTupleType"):
        names = tuple(field.encode_name for field in info.fields)
        return Type("struct", names, tuple(_inspected(field.type) for field in info.fields))
    return _plain(_CLASSES, name)


def _only(parts: list[Any], of: Any) -> Any:
    if len(parts) != 1:
        raise SpecError(f"the union {of} has several types, so it has no Arrow type")
    return parts[0]


def _plain(names: Mapping[Any, str], name: Any) -> Type:
    if name not in names:
        raise SpecError(
            f"the type {name!r} has no Arrow type; use a type of one of the kinds "
            f"{', '.join(sorted(set(names.values())))}"
        )
    return Type(names[name])
