"""What a user's function gives, as columns: kept exactly, or refused by name."""

from __future__ import annotations

import datetime
import decimal
from datetime import UTC, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core.arrow import headers_type
from kstore_core.codec import Headers
from kstore_core.errors import SpecError
from kstore_core.spark.map_state.output import OutputRows
from kstore_core.spark.map_state.values import ConversionError, column_of

INSTANT = pa.timestamp("us", tz="UTC")
NAIVE = datetime.datetime(2024, 1, 1)  # noqa: DTZ001
AWARE = NAIVE.replace(tzinfo=UTC)

LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text()),
    (pa.binary(), st.binary()),
    (INSTANT, st.datetimes(timezones=st.just(UTC))),
    (pa.timestamp("us"), st.datetimes()),
    (pa.date32(), st.dates()),
    (pa.decimal128(20, 2), st.decimals(-(10**9), 10**9, places=2)),
    (pa.duration("us"), st.timedeltas(timedelta(days=-999), timedelta(days=999))),
]


def nested(inner: tuple[pa.DataType, st.SearchStrategy[Any]]) -> Any:
    kind, values = inner
    values = st.none() | values
    return st.sampled_from(
        [
            (pa.list_(pa.field("element", kind)), st.lists(values, max_size=3)),
            (
                pa.struct([pa.field("a", kind), pa.field("b", pa.int64())]),
                st.fixed_dictionaries({"a": values, "b": st.none() | st.integers(-5, 5)}),
            ),
            (pa.map_(pa.string(), kind), st.dictionaries(st.text(max_size=2), values, max_size=2)),
        ]
    )


KINDS = st.recursive(st.sampled_from(LEAVES), lambda inner: inner.flatmap(nested), max_leaves=4)


def as_python(value: Any, kind: pa.DataType) -> Any:
    """A value of a column as it was given: maps come as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: as_python(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [as_python(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: as_python(value[field.name], field.type) for field in kind}
    return value


@settings(deadline=None)
@given(st.data())
def test_what_fits_is_kept_as_it_is(data: st.DataObject) -> None:
    kind, values = data.draw(KINDS)
    column = data.draw(st.lists(st.none() | values, max_size=6))
    made = column_of(column, pa.field("x", kind))
    made.validate(full=True)
    assert made.type == kind
    assert [as_python(value, kind) for value in made.to_pylist()] == column


def element(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind))


STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
REFUSED: list[tuple[Any, pa.DataType, str, str]] = [
    ("5", pa.int64(), "", r"'5' \(str\) is not an int"),
    (True, pa.int64(), "", "is not an int"),
    (1.0, pa.int64(), "", "is not an int"),
    (2**31, pa.int32(), "", "does not fit int32"),
    (2**63, pa.int64(), "", "does not fit int64"),
    (1e39, pa.float32(), "", "does not fit float"),
    (2**53 + 1, pa.float64(), "", "does not fit double"),
    (1, pa.bool_(), "", "is not a bool"),
    (b"x", pa.string(), "", "is not a str"),
    ("\ud800", pa.string(), "", "does not fit string"),
    ("x", pa.binary(), "", "is not bytes"),
    (NAIVE, INSTANT, "", "has no tzinfo, so"),
    (AWARE, pa.timestamp("us"), "", "has a tzinfo"),
    (2**62, INSTANT, "", "does not fit timestamp"),
    (AWARE, pa.date32(), "", "is not a date"),
    (decimal.Decimal("1.234"), pa.decimal128(5, 2), "", "does not fit decimal"),
    (1.5, pa.decimal128(5, 2), "", "is not a Decimal"),
    (5, pa.duration("us"), "", "is not a timedelta"),
    ("ab", element(pa.string()), "", "is not a list"),
    ([1, 2**31], element(pa.int32()), "[1]", "does not fit int32"),
    ([[], [1, "x"]], element(element(pa.int64())), "[1][1]", "is not an int"),
    ([{"a": 2**31, "b": ""}], element(STRUCT), "[0].a", "does not fit int32"),
    ({"a": 1}, STRUCT, "", "has the fields a, but needs the fields a, b"),
    ({"a": 1, "b": "", "c": 2}, STRUCT, "", "has the fields a, b, c, but needs the fields a, b"),
    ((1,), STRUCT, "", "is not a struct with the fields a, b"),
    ([("a", 1)], pa.map_(pa.string(), pa.int32()), "", "is not a mapping"),
    ({"a": 2**31}, pa.map_(pa.string(), pa.int32()), ".value", "does not fit int32"),
    ({None: 1}, pa.map_(pa.string(), pa.int32()), ".key", "is None"),
    ([NAIVE], element(INSTANT), "[0]", "has no tzinfo, so"),
]


@pytest.mark.parametrize(("value", "kind", "path", "reason"), REFUSED)
def test_what_does_not_fit_is_told_with_its_place(
    value: Any, kind: pa.DataType, path: str, reason: str
) -> None:
    with pytest.raises(ConversionError) as caught:
        column_of([None, value, None], pa.field("x", kind))
    assert (caught.value.index, caught.value.path) == (1, path)
    with pytest.raises(ValueError, match=reason):
        raise ValueError(caught.value.reason)


def test_numpys_numbers_are_numbers() -> None:
    values = [np.int32(1), None, np.int64(2)]
    assert column_of(values, pa.field("x", pa.int64())).to_pylist() == [1, None, 2]
    lists = [np.array([1, 2])]
    assert column_of(lists, pa.field("x", element(pa.int16()))).to_pylist() == [[1, 2]]


def test_a_time_is_milliseconds_or_an_aware_datetime() -> None:
    values = [0, AWARE, 1_500, AWARE.astimezone(datetime.timezone(timedelta(hours=3)))]
    made = column_of(values, pa.field("x", INSTANT)).cast(pa.int64()).to_pylist()
    assert made == [0, 1_704_067_200_000_000, 1_500_000, 1_704_067_200_000_000]


def test_headers_are_a_column() -> None:
    pairs = [("a", b"1"), ("a", None)]
    values = [Headers(pairs), pairs, None, Headers()]
    made = column_of(values, pa.field("h", headers_type()))
    whole = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert made.to_pylist() == [whole, whole, None, []]


def test_no_none_where_there_may_be_none() -> None:
    field = pa.field("x", pa.int64(), nullable=False)
    assert column_of([1], field).to_pylist() == [1]
    with pytest.raises(ConversionError, match="not nullable"):
        column_of([1, None], field)
    inner = pa.field("s", pa.struct([field]))
    assert column_of([None, {"x": 1}], inner).to_pylist() == [None, {"x": 1}]
    with pytest.raises(ConversionError) as caught:
        column_of([None, {"x": None}], inner)
    assert (caught.value.index, caught.value.path) == (1, ".x")


SCHEMA = pa.schema([("key", pa.string()), ("total", pa.int64())])


def test_rows_are_tuples_or_dicts_of_any_iterable() -> None:
    output = OutputRows(SCHEMA)
    output.add("a", None)
    output.add("b", [("b", 1), {"total": 2, "key": "b"}])
    output.add("c", (("c", number) for number in range(2)))
    output.add("d", [])
    assert output.batch().to_pylist() == [
        {"key": "b", "total": 1},
        {"key": "b", "total": 2},
        {"key": "c", "total": 0},
        {"key": "c", "total": 1},
    ]
    assert OutputRows(SCHEMA).batch().num_rows == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, r"the output for the key 'k' is 5 \(int\), but must be None or an iterable"),
        ({"key": "k", "total": 1}, "return a single row as a list of one tuple or dict"),
        ("text", "the output for the key 'k' is 'text'"),
        (("k", 1), r"row 0 of .* is 'k' \(str\), but must be a tuple or a dict"),
        ([("k", 1), None], r"row 1 of .* is None \(NoneType\)"),
        ([("k",)], "row 0 of .* has 1 columns, but the schema has the 2 columns key, total"),
        ([{"key": "k"}], "row 0 of .* has no column 'total'"),
        ([{"key": "k", "total": 1, "more": 2}], "row 0 of .* has the unknown column 'more'"),
    ],
)
def test_what_are_no_rows_is_told(given: Any, message: str) -> None:
    output = OutputRows(SCHEMA)
    output.add("before", [("before", 1)] * 3)
    with pytest.raises(SpecError, match=message):
        output.add("k", given)


def test_a_value_that_does_not_fit_is_told_with_its_key_row_and_column() -> None:
    output = OutputRows(SCHEMA)
    output.add("before", [("before", 1)] * 3)
    output.add("none", [])
    output.add("k", [("k", 1), ("k", "2")])
    output.add("after", [("after", 1)])
    message = r"row 1 of the output for the key 'k', column 'total': '2' \(str\) is not an int"
    with pytest.raises(SpecError, match=message):
        output.batch()


def test_a_column_that_is_too_large_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = pa.chunked_array([["a"], ["b"]])  # what Arrow makes of more than 2 GiB
    monkeypatch.setattr(pa, "array", lambda *_: made)
    with pytest.raises(SpecError, match="more than 2 GiB; use more partitions"):
        column_of(["a", "b"], pa.field("x", pa.string()))
