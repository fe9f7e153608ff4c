"""Functions that convert Python values to Arrow columns, by stricter rules than those of Arrow.

Arrow itself converts 1.5 to 1 in a column of integers, and a datetime to its day in a column of
dates. In a column of timestamps, Arrow takes a number as microseconds, and a naive datetime as UTC.
The functions of this module refuse 1.5 as an integer, a datetime as a date, and a naive datetime as
a timestamp. In a column of timestamps, they take a number as milliseconds. To be fast, a function
checks only the set of types in a column. If a type is wrong, the function looks for the first wrong
value, to name the value in the error.
"""

from __future__ import annotations

import bisect
import datetime
import decimal
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.codec import Header, Headers
from kstore_core.errors import SpecError

__all__ = ["BYTES", "ConversionError", "column_of", "short"]

BYTES = (bytes, bytearray, memoryview)
"""The Python types that a binary column accepts."""

_NONE = type(None)
_REFUSALS = (pa.ArrowException, OverflowError, TypeError, ValueError)
_MILLISECOND = 1000  # in microseconds


class ConversionError(Exception):
    """A value does not fit its column.

    Attributes
    ----------
    index : int
        The index of the value in the column.
    path : str
        The path from the value to the nested value that is wrong, such as ``[2].name``. The path is
        empty if the value itself is wrong.
    reason : str
        A description of the fault in the value.
    """

    def __init__(self, index: int, path: str, reason: str) -> None:
        super().__init__(index, path, reason)
        self.index, self.path, self.reason = index, path, reason


def column_of(
    values: Sequence[Any], field: pa.Field, absent: Sequence[bool] | None = None
) -> pa.Array:
    """Convert values to an Arrow array of the type of ``field``.

    ``absent`` is for the fields of structs, and is True where the struct itself is null. At such an
    index, a null is allowed even if the field is not nullable. Raises ConversionError if a value
    does not fit.
    """
    types = set(map(type, values))
    if any(issubclass(kind, np.generic) for kind in types):
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        types = set(map(type, values))
    if _NONE in types and not field.nullable:
        for index, value in enumerate(values):
            if value is None and not (absent is not None and absent[index]):
                raise ConversionError(
                    index, "", "the value is None, but the column is not nullable"
                )
    types.discard(_NONE)
    kind = field.type
    nested = next((make for fits, make in _NESTED if fits(kind)), None)
    if nested is not None:
        return nested(values, kind)
    rule = next((rule for rule in _RULES if rule.fits(kind)), None)
    if rule is None:
        return _made(values, kind)
    if not all(rule.takes(given) for given in types):
        index = next(i for i, v in enumerate(values) if v is not None and not rule.takes(type(v)))
        raise ConversionError(index, "", f"{short(values[index])} is not {rule.wanted}")
    return rule.make(values, kind)


def _made(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert values by Arrow's rules.

    Raises ConversionError, which names the first value that Arrow refuses. Raises SpecError if the
    column takes more than 2 GiB.
    """
    try:
        made = pa.array(values, kind)
    except _REFUSALS as error:
        for index, value in enumerate(values):
            try:
                pa.array([value], kind)
            except _REFUSALS as why:
                raise ConversionError(
                    index, "", f"{short(value)} does not fit {kind}: {why}"
                ) from error
        raise
    if isinstance(made, pa.ChunkedArray):
        raise SpecError(
            "one column of the output takes more than 2 GiB; use more partitions or smaller batches"
        )
    return made


def _floats(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    made = _made(values, kind)
    if kind.bit_width < 64:
        wide = _made(values, pa.float64())
        lost = pc.and_(pc.is_finite(wide), pc.invert(pc.is_finite(made)))
        index = pc.index(lost, True).as_py()
        if index >= 0:
            raise ConversionError(index, "", f"{short(values[index])} does not fit {kind}")
    return made


def _instants(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert int milliseconds or aware datetimes to a column of timestamps."""
    if kind.unit != "us":
        return _made(values, kind)
    micros = list(values)
    for index, value in enumerate(micros):
        if type(value) is int:
            micros[index] = value * _MILLISECOND
        elif value is not None and value.utcoffset() is None:
            reason = f"{value!r} has no tzinfo, so its time in UTC is unknown; add a tzinfo"
            raise ConversionError(index, "", reason)
    return _made(micros, kind)


def _local_times(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    for index, value in enumerate(values):
        if value is not None and value.utcoffset() is not None:
            reason = f"{value!r} has a tzinfo, but a column of {kind} needs times without tzinfo"
            raise ConversionError(index, "", reason)
    return _made(values, kind)


def _lists(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    for index, value in enumerate(values):
        if value is not None and not isinstance(value, (list, tuple, Headers, np.ndarray)):
            raise ConversionError(index, "", f"{short(value)} is not a list")
    offsets = _offsets(values)
    flat = [item for value in values if value is not None for item in value]
    child = _children(flat, kind.value_field, offsets, lambda inner: f"[{inner}]")
    large = pa.types.is_large_list(kind)
    make = pa.LargeListArray if large else pa.ListArray
    return make.from_arrays(
        pa.array(offsets, pa.int64() if large else pa.int32()),
        child,
        type=kind,
        mask=_nulls(values),
    )


def _maps(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    pairs = []
    for index, value in enumerate(values):
        if isinstance(value, Mapping):
            pairs.append(list(value.items()))
        elif value is None:
            pairs.append([])
        else:
            raise ConversionError(index, "", f"{short(value)} is not a mapping")
    offsets = _offsets(pairs)
    flat = list(itertools.chain.from_iterable(pairs))
    keys = _children([key for key, _ in flat], kind.key_field, offsets, lambda _: ".key")
    items = _children([item for _, item in flat], kind.item_field, offsets, lambda _: ".value")
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), keys, items, type=kind, mask=_nulls(values)
    )


def _structs(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    fields = [kind.field(place) for place in range(kind.num_fields)]
    names = [field.name for field in fields]
    rows: list[Sequence[Any]] = []
    for index, value in enumerate(values):
        if value is None:
            rows.append((None,) * len(names))
        elif isinstance(value, Mapping):
            if set(value) != set(names):
                has = ", ".join(map(str, value)) or "nothing"
                why = f"the struct has the fields {has}, but needs the fields {', '.join(names)}"
                raise ConversionError(index, "", why)
            rows.append([value[name] for name in names])
        elif isinstance(value, (tuple, Header)) and len(value) == len(names):
            rows.append(tuple(value))
        else:
            reason = f"{short(value)} is not a struct with the fields {', '.join(names)}"
            raise ConversionError(index, "", reason)
    absent = [value is None for value in values]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    arrays = []
    for field, column in zip(fields, columns, strict=True):
        try:
            arrays.append(column_of(column, field, absent))
        except ConversionError as misfit:
            path = f".{field.name}{misfit.path}"
            raise ConversionError(misfit.index, path, misfit.reason) from None
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=_nulls(values))


def _children(
    flat: Sequence[Any], field: pa.Field, offsets: Sequence[int], step: Callable[[int], str]
) -> pa.Array:
    """Convert the elements of all lists or maps of a column to an Arrow array.

    ``flat`` contains the elements of all lists, and ``offsets`` the position of each list in
    ``flat``. If an element does not fit, raise a ConversionError with the index of the list. The
    path of the error begins with ``step(index)`` for the element's index in its list.
    """
    try:
        return column_of(flat, field)
    except ConversionError as misfit:
        parent = bisect.bisect_right(offsets, misfit.index) - 1
        path = f"{step(misfit.index - offsets[parent])}{misfit.path}"
        raise ConversionError(parent, path, misfit.reason) from None


def _offsets(values: Sequence[Any]) -> list[int]:
    sizes = (0 if value is None else len(value) for value in values)
    return list(itertools.accumulate(sizes, operator.add, initial=0))


def _nulls(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def short(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


@dataclass(frozen=True, slots=True)
class _Rule:
    """The rule for the values of a kind of column.

    Attributes
    ----------
    fits : callable
        A function that returns True for an Arrow type to which the rule applies.
    wanted : str
        A description of the accepted values, for errors.
    permitted, refused : tuple of type
        A value must be an instance of a type in ``permitted``, and not of a type in ``refused``.
    make : callable
        The function that converts the values to an Arrow array.
    """

    fits: Callable[[pa.DataType], bool]
    wanted: str
    permitted: tuple[type, ...]
    refused: tuple[type, ...] = ()
    make: Callable[[Sequence[Any], pa.DataType], pa.Array] = _made

    def takes(self, given: type) -> bool:
        return issubclass(given, self.permitted) and not issubclass(given, self.refused)


_TEXT = pa.types.is_string, pa.types.is_large_string
_BINARY = pa.types.is_binary, pa.types.is_large_binary


def _one_of(tests: Iterable[Callable[[pa.DataType], bool]]) -> Callable[[pa.DataType], bool]:
    return lambda kind: any(test(kind) for test in tests)


_RULES = (
    _Rule(pa.types.is_integer, "an int", (int,), (bool,)),
    _Rule(pa.types.is_floating, "a float", (float, int), (bool,), _floats),
    _Rule(pa.types.is_boolean, "a bool", (bool,)),
    _Rule(_one_of(_TEXT), "a str", (str,)),
    _Rule(_one_of(_BINARY), "bytes", BYTES),
    _Rule(
        lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
        "int milliseconds or an aware datetime",
        (int, datetime.datetime),
        (bool,),
        _instants,
    ),
    _Rule(
        pa.types.is_timestamp, "a datetime without tzinfo", (datetime.datetime,), (), _local_times
    ),
    _Rule(pa.types.is_date, "a date", (datetime.date,), (datetime.datetime,)),
    _Rule(pa.types.is_decimal, "a Decimal", (decimal.Decimal, int), (bool,)),
    _Rule(pa.types.is_duration, "a timedelta", (datetime.timedelta,)),
)
_NESTED: tuple[tuple[Callable[[pa.DataType], bool], Callable[..., pa.Array]], ...] = (
    (_one_of((pa.types.is_list, pa.types.is_large_list)), _lists),
    (pa.types.is_map, _maps),
    (pa.types.is_struct, _structs),
)
