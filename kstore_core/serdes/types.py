"""The types of typed values, with the names that they have in Spark SQL.

A type is a frozen value. ``str(kind)`` is its name, such as ``struct<sku:string,price:int>``, and
:func:`parse_type` reads this name. Field names that are not identifiers are in backquotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstore_core.errors import SpecError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["INTEGERS", "SCALARS", "Type", "check_decimal", "leaves", "parse_type", "type_of"]

INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""The types of integers, each with its number of bits."""

SCALARS = {
    "boolean": "bool",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "binary": "binary",
    "date": "date32",
}
"""The types without parameters except ``timestamp``, each with its name in Arrow."""

_OTHER_NAMES = {
    "bool": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "utf8": "string",
    "large_string": "string",
    "large_binary": "binary",
    "date32[day]": "date",
}
"""Other names of the types in Spark's JSON and in Arrow."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[<>(),:])")
_DEEPEST = 50


@dataclass(frozen=True, slots=True)
class Type:
    """A type of values.

    Attributes
    ----------
    name : str
        A name in ``SCALARS``, or ``timestamp``, ``decimal``, ``array``, ``map`` or ``struct``.
    names : tuple of str
        The names of the fields of a struct.
    parts : tuple of Type
        The types of the fields of a struct, the type of the elements of an array, or the types of
        the keys and of the values of a map.
    precision, scale : int
        The greatest number of digits of a decimal, and the number of digits after the point.
    """

    name: str
    names: tuple[str, ...] = ()
    parts: tuple[Type, ...] = ()
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name == "struct":
            fields = zip(self.names, self.parts, strict=True)
            return f"struct<{','.join(f'{_quoted(name)}:{part}' for name, part in fields)}>"
        return f"{self.name}<{','.join(map(str, self.parts))}>" if self.parts else self.name

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that Spark uses. Every field may be null, but the key of a map may not."""
        import pyarrow as pa

        parts = [part.arrow for part in self.parts]
        match self.name:
            case "timestamp":
                return pa.timestamp("us", tz="UTC")
            case "decimal":
                return pa.decimal128(self.precision, self.scale)
            case "array":
                return pa.list_(pa.field("element", parts[0]))
            case "map":
                return pa.map_(*parts)
            case "struct":
                return pa.struct([pa.field(*pair) for pair in zip(self.names, parts, strict=True)])
            case _:
                return pa.type_for_alias(SCALARS[self.name])


def leaves(kind: Type) -> Iterator[Type]:
    """Yield a type, and each type that it contains, at any depth."""
    yield kind
    for part in kind.parts:
        yield from leaves(part)


def type_of(schema: Any) -> Type:
    """Return the type that an object describes.

    Parameters
    ----------
    schema : str, pyarrow.DataType, pyarrow.Schema, or a data type of Spark
        The name of a type, or an object with a type. Metadata, and the flag that a field must not
        be null, are ignored.

    Raises
    ------
    SpecError
        The object describes no type that a typed value can have.
    """
    if isinstance(schema, Type):
        return schema
    if isinstance(schema, str):
        return parse_type(schema)
    if hasattr(schema, "jsonValue"):
        return _of_spark(schema.jsonValue())
    try:
        import pyarrow as pa
    except ImportError:
        pass
    else:
        if isinstance(schema, pa.Schema):
            schema = pa.struct(list(schema))
        if isinstance(schema, pa.DataType):
            return _of_arrow(schema)
    raise SpecError(
        f"{schema!r} does not describe a type; pass a text such as 'struct<sku:string,price:int>', "
        "a pyarrow.DataType or pyarrow.Schema, or the dataType of a column of Spark"
    )


def parse_type(text: str) -> Type:
    """Return the type with this name. White space between words is ignored.

    Raises
    ------
    SpecError
        The text is not the name of a type. The message contains the position of the fault.
    """
    tokens: list[tuple[str, int]] = []
    place = 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise _unreadable(text, place)
        tokens.append((match[1], match.start(1)))
        place = match.end()
    reader = _Reader(text, [*tokens, ("", len(text))])
    kind = reader.kind(0)
    reader.take("")
    return kind


class _Reader:
    """A reader of the words of a type's name."""

    def __init__(self, text: str, tokens: list[tuple[str, int]]) -> None:
        self.text, self.tokens, self.at = text, tokens, 0

    def take(self, *wanted: str) -> str:
        word, place = self.tokens[self.at]
        if wanted and word not in wanted:
            raise _unreadable(self.text, place)
        self.at += 1
        return word

    def kind(self, depth: int) -> Type:
        place = self.tokens[self.at][1]
        word = self.take()
        if depth > _DEEPEST:
            raise SpecError(f"the type {self.text[:60]!r}… has more than {_DEEPEST} levels")
        name = _OTHER_NAMES.get(word.lower(), word.lower())
        if name in SCALARS or name == "timestamp":
            return Type(name)
        if name == "decimal":
            self.take("(")
            precision = self.number()
            self.take(",")
            scale = self.number()
            self.take(")")
            return check_decimal(precision, scale)
        if name not in ("array", "map", "struct"):
            raise _unreadable(self.text, place)
        self.take("<")
        if name == "array":
            kind = Type("array", (), (self.kind(depth + 1),))
        elif name == "map":
            key = self.kind(depth + 1)
            self.take(",")
            kind = Type("map", (), (key, self.kind(depth + 1)))
        else:
            kind = self.struct(depth)
        self.take(">")
        return kind

    def struct(self, depth: int) -> Type:
        names, parts = [], []
        while True:
            word, place = self.tokens[self.at]
            if not (word.startswith("`") or _PLAIN_NAME.fullmatch(word)):
                raise _unreadable(self.text, place)
            self.at += 1
            names.append(word[1:-1].replace("``", "`") if word.startswith("`") else word)
            self.take(":")
            parts.append(self.kind(depth + 1))
            if self.tokens[self.at][0] != ",":
                return _struct(names, parts)
            self.take(",")

    def number(self) -> int:
        word, place = self.tokens[self.at]
        if not word.isdecimal():
            raise _unreadable(self.text, place)
        self.at += 1
        return int(word)


def _unreadable(text: str, place: int) -> SpecError:
    return SpecError(
        f"{text!r} is not the name of a type; the fault is at character {place} "
        f"({text[place : place + 20]!r}). Pass a name such as 'struct<sku:string,price:int>'; the "
        f"types are {', '.join((*SCALARS, 'timestamp'))}, decimal(precision,scale), array<…>, "
        "map<…,…> and struct<name:…>"
    )


def check_decimal(precision: int, scale: int) -> Type:
    """Return the type of decimals. Raise a SpecError if the precision or the scale is invalid."""
    if (
        type(precision) is not int
        or type(scale) is not int
        or not (1 <= precision <= 38 and 0 <= scale <= precision)
    ):
        raise SpecError(
            f"decimal({precision!r}, {scale!r}) is not a type; the precision must be an int from 1 "
            "to 38, and the scale an int from 0 to the precision"
        )
    return Type("decimal", precision=precision, scale=scale)


def _struct(names: list[str], parts: list[Type]) -> Type:
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice or not names:
        fault = f"the field {twice[0]!r} twice" if twice else "no field"
        raise SpecError(f"a struct has {fault}; each field must have a different name")
    return Type("struct", tuple(names), tuple(parts))


def _of_spark(described: Any) -> Type:
    """Return the type that the JSON value of a data type of Spark describes."""
    if isinstance(described, str):
        return parse_type(described)
    if isinstance(described, Mapping):
        if described["type"] == "array":
            return Type("array", (), (_of_spark(described["elementType"]),))
        if described["type"] == "map":
            parts = (_of_spark(described["keyType"]), _of_spark(described["valueType"]))
            return Type("map", (), parts)
        if described["type"] == "struct":
            fields = described["fields"]
            return _struct([f["name"] for f in fields], [_of_spark(f["type"]) for f in fields])
    raise SpecError(f"typed values cannot have the type {described!r} of Spark; cast the column")


def _of_arrow(kind: pa.DataType) -> Type:
    import pyarrow.types as is_

    if is_.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return _struct([field.name for field in fields], [_of_arrow(f.type) for f in fields])
    if is_.is_map(kind):
        return Type("map", (), (_of_arrow(kind.key_type), _of_arrow(kind.item_type)))
    if is_.is_list(kind) or is_.is_large_list(kind):
        return Type("array", (), (_of_arrow(kind.value_type),))
    if is_.is_decimal128(kind):
        return check_decimal(kind.precision, kind.scale)
    if is_.is_timestamp(kind) and kind.tz is not None and kind.unit in ("s", "ms", "us"):
        return Type("timestamp")
    name = _OTHER_NAMES.get(str(kind), str(kind))
    if name in SCALARS:
        return Type(name)
    raise SpecError(
        f"typed values cannot have the Arrow type {kind}; cast the column. A timestamp must have a "
        "time zone, and a unit of seconds, milliseconds or microseconds"
    )


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"
