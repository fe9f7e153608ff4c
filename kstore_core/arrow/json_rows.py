"""The columns of structs as JSON objects. All texts of a column are written or read at once."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

from kstore_core.arrow.decimals import are_within
from kstore_core.arrow.nulls import around_nulls
from kstore_core.errors import FormatError
from kstore_core.serdes.types import Type, leaves

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read", "write"]

_READ_AS_TEXT = ("binary", "date", "timestamp")
_SPECIAL = r'["\\\x00-\x1f]'
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31
_DAY_MICROS = 86_400_000_000


def write(kind: Type, column: pa.Array) -> pa.Array:
    """Serialise a column of structs to a binary column.

    Raise a ValueError if a number is not finite, or a year is not from 1 to 9999.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = _struct_text(kind, column).cast(pa.binary())
    return pc.if_else(pc.is_null(column), None, text) if column.null_count else text


def _text(kind: Type, column: pa.Array) -> pa.Array:
    """Return the JSON texts of a column of any type; the text of a null is ``null``."""
    import pyarrow.compute as pc

    texts = _WRITERS.get(kind.name, _plain_text)(kind, column)
    return pc.if_else(pc.is_null(column), "null", texts) if column.null_count else texts


def _plain_text(kind: Type, column: pa.Array) -> pa.Array:
    import pyarrow as pa

    return column.cast(pa.string())


def _float_text(kind: Type, column: pa.Array) -> pa.Array:
    """Return the texts that Python's ``repr`` returns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = column.cast(pa.float64())
    sizes = pc.fill_null(pc.abs(numbers), 0.0)
    infinite = pc.invert(pc.is_finite(sizes))
    if pc.any(infinite).as_py():
        odd = numbers.filter(infinite)[0]
        raise ValueError(f"{odd.as_py()} is not JSON; store null, or use serdes.arrow_row")
    texts = numbers.cast(pa.string())
    whole = pc.invert(pc.match_substring_regex(texts, "[.e]"))
    if pc.any(whole).as_py():
        texts = pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)
    # Outside of these bounds, Arrow and Python write exponents differently.
    unlike = pc.and_(
        pc.or_(pc.less(sizes, 1e-4), pc.greater_equal(sizes, 1e10)), pc.not_equal(sizes, 0.0)
    )
    if pc.any(unlike).as_py():
        others = [repr(number) for number in numbers.filter(unlike).to_pylist()]
        texts = pc.replace_with_mask(texts, unlike, pa.array(others, pa.string()))
    return texts


def _string_text(kind: Type, column: pa.Array) -> pa.Array:
    """Return strings in quotes. Escape quotes, backslashes and control characters in them."""
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(column, _SPECIAL)).as_py():
        for special in ("\\", '"', *map(chr, range(32))):
            if pc.any(pc.match_substring(column, special)).as_py():
                column = pc.replace_substring(column, special, encode_basestring(special)[1:-1])
    return _in('"', column, '"')


def _binary_text(kind: Type, column: pa.Array) -> pa.Array:
    import pyarrow as pa

    texts = [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
    return _in('"', pa.array(texts, pa.string()), '"')


def _date_text(kind: Type, column: pa.Array) -> pa.Array:
    import pyarrow as pa

    _check_years(column.cast(pa.int32()), 1)
    return _in('"', column.cast(pa.string()), '"')


def _timestamp_text(kind: Type, column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    _check_years(column.cast(pa.int64()), _DAY_MICROS)
    # Arrow writes times without a zone 20 times as fast as times in UTC.
    texts = column.cast(pa.timestamp("us")).cast(pa.string())
    return _in('"', pc.replace_substring(texts, " ", "T", max_replacements=1), 'Z"')


def _check_years(column: pa.Array, day: int) -> None:
    """Raise a ValueError if a time is not in the years 1 to 9999. A day has ``day`` units."""
    import pyarrow.compute as pc

    ends = pc.min_max(column).as_py()
    if ends["min"] is not None and (
        ends["min"] < _FIRST_DAY * day or ends["max"] >= (_LAST_DAY + 1) * day
    ):
        raise ValueError("a date is not in the years 1 to 9999, as JSON rows require")


def _array_text(kind: Type, column: pa.Array) -> pa.Array:
    return _in("[", _joined(column, _text(kind.parts[0], column.flatten())), "]")


def _map_text(kind: Type, column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    keys, items = _entries(column)
    named = _string_text(kind.parts[0], keys)
    pairs = pc.binary_join_element_wise(named, _text(kind.parts[1], items), ":")
    return _in("{", _joined(column, pairs), "}")


def _struct_text(kind: Type, column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    parts: list[Any] = []
    for name, part, values in zip(kind.names, kind.parts, column.flatten(), strict=True):
        parts += [f"{',' if parts else '{'}{encode_basestring(name)}:", _text(part, values)]
    return pc.binary_join_element_wise(*parts, "}", "")


_WRITERS: dict[str, Callable[[Type, pa.Array], pa.Array]] = {
    "float": _float_text,
    "double": _float_text,
    "string": _string_text,
    "binary": _binary_text,
    "date": _date_text,
    "timestamp": _timestamp_text,
    "array": _array_text,
    "map": _map_text,
    "struct": _struct_text,
}


def _in(before: str, column: pa.Array, after: str) -> pa.Array:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(before, column, after, "")


def _joined(column: pa.Array, texts: pa.Array) -> pa.Array:
    """Join the texts of the elements of each list or map with commas."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = pc.fill_null(_lengths(column), 0)
    ends = pc.cumulative_sum(counts.cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")


def _lengths(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.list_value_length(_as_list(column) if pa.types.is_map(column.type) else column)


def _as_list(column: pa.Array) -> pa.Array:
    """Return a map as a list of its entries."""
    import pyarrow as pa

    kind = column.type
    entry = pa.struct([pa.field("key", kind.key_type, False), pa.field("value", kind.item_type)])
    return column.cast(pa.list_(pa.field("entries", entry, False)))


def _entries(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the keys and the values of all maps of a column."""
    keys, values = _as_list(column).flatten().flatten()
    return keys, values


def read(kind: Type, column: pa.Array) -> pa.Array:
    """Deserialise a binary column. A value that is not such a JSON object raises a FormatError.

    A column whose type contains a map is read value by value, because pyarrow does not read an
    object as a map.
    """
    if any(part.name == "map" for part in leaves(kind)):
        return _read_each(kind, column)
    return around_nulls(column, kind.arrow, functools.partial(_read, kind))


def _read(kind: Type, column: pa.Array) -> pa.Array:
    import pyarrow as pa

    try:
        rows = _parsed(kind, column.cast(pa.string()))
        parts = [
            _typed(part, rows.column(name).combine_chunks())
            for name, part in zip(kind.names, kind.parts, strict=True)
        ]
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise FormatError(f"a stored value is not a JSON object of {kind}: {error}") from error
    return pa.StructArray.from_arrays(parts, fields=list(kind.arrow))


def _read_each(kind: Type, column: pa.Array) -> pa.Array:
    import pyarrow as pa

    from kstore_core.serdes.typed import arrow_value, json_row

    decode = json_row(kind).decode
    values = [None if v is None else arrow_value(kind, decode(v)) for v in column.to_pylist()]
    return pa.array(values, kind.arrow)


def _parsed(kind: Type, texts: pa.Array) -> pa.Table:
    """Parse one JSON object for each text.

    If a text that begins and ends with a brace can be parsed, it contains at least one object. So
    each text contains exactly one object if there are as many objects as texts.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json as pj

    trimmed = pc.utf8_trim(texts, " \t\r\n")
    objects = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))
    if not pc.all(objects).as_py():
        raise pa.ArrowInvalid("a text does not begin with { and end with }")
    whole = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "\n")[0]
    data = whole.as_buffer()
    rows = pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=max(data.size + 1, 64)),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(list(_parse_type(kind))),
            newlines_in_values=True,
            unexpected_field_behavior="ignore",
        ),
    )
    if len(rows) != len(texts):
        raise pa.ArrowInvalid("a text contains several objects")
    return rows


def _parse_type(kind: Type) -> pa.DataType:
    """Return the Arrow type to which pyarrow parses the JSON of ``kind``."""
    import pyarrow as pa

    if kind.name in _READ_AS_TEXT:
        return pa.string()
    if kind.name == "array":
        return pa.list_(pa.field("element", _parse_type(kind.parts[0])))
    if kind.name == "struct":
        return pa.struct(
            [(name, _parse_type(part)) for name, part in zip(kind.names, kind.parts, strict=True)]
        )
    return kind.arrow


def _typed(kind: Type, column: pa.Array) -> pa.Array:
    """Convert a parsed column to the type ``kind``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    match kind.name:
        case "binary":
            return pa.array(map(_from_base64, column.to_pylist()), pa.binary())
        case "date" | "timestamp":
            return column.cast(kind.arrow)
        case "float" | "double" if pc.any(pc.invert(pc.is_finite(column))).as_py():
            raise pa.ArrowInvalid("a number is not finite")
        case "decimal" if not are_within(kind, column):
            raise pa.ArrowInvalid(f"a number has too many digits for {kind}")
        case "array" if column.type != kind.arrow:
            values = _typed(kind.parts[0], column.flatten())
            counts = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int32())
            offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts)])
            mask = column.is_null() if column.null_count else None
            return pa.ListArray.from_arrays(offsets, values, type=kind.arrow, mask=mask)
        case "array":
            _typed(kind.parts[0], column.flatten())
        case "struct":
            parts = [_typed(*pair) for pair in zip(kind.parts, column.flatten(), strict=True)]
            mask = column.is_null() if column.null_count else None
            return pa.StructArray.from_arrays(parts, fields=list(kind.arrow), mask=mask)
    return column


def _from_base64(text: str | None) -> bytes | None:
    import pyarrow as pa

    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise pa.ArrowInvalid(f"{text[:50]!r} is not base64: {error}") from error
