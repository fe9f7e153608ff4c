"""Columns of serialised values, and columns of the type that their serde names."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import Headers, serdes
from kstore_core.arrow import HEADERS_FIELDS, headers_type, to_binary, to_typed
from kstore_core.errors import FormatError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
COLUMNS = {
    serdes.BYTES: st.binary(max_size=4),
    serdes.UTF8: TEXT,
    serdes.INT32: st.integers(-(2**31), 2**31 - 1),
    serdes.INT64: st.integers(-(2**63), 2**63 - 1),
    serdes.FLOAT64: st.floats(allow_nan=False),
}


class Upper:
    """A serde that is nobody's own: text in upper case."""

    name = "upper"
    arrow_type = pa.string()

    def __repr__(self):
        return "Upper()"

    def serialize(self, value, headers):
        return value.upper().encode()

    def deserialize(self, data, headers):
        return data.decode()


def raw(serde, values):
    return pa.array(
        [None if v is None else serde.serialize(v, Headers()) for v in values], pa.binary()
    )


@pytest.mark.parametrize("serde", COLUMNS, ids=repr)
@settings(deadline=None)
@given(data=st.data())
def test_a_column_is_what_its_values_are_one_by_one(serde, data):
    values = data.draw(st.lists(st.none() | COLUMNS[serde], max_size=8))
    column = raw(serde, values)
    typed = to_typed(serde, column)
    assert typed.type == serde.arrow_type
    assert typed.to_pylist() == values
    assert to_binary(serde, typed).to_pylist() == column.to_pylist()
    assert to_binary(serde, pa.array(values, serde.arrow_type)).type == pa.binary()


@pytest.mark.parametrize("serde", COLUMNS, ids=repr)
@settings(deadline=None)
@given(data=st.data(), start=st.integers(0, 8), length=st.integers(0, 8))
def test_a_slice_is_a_column_too(serde, data, start, length):
    values = data.draw(st.lists(st.none() | COLUMNS[serde], min_size=8, max_size=8))
    wanted = values[start : start + length]
    assert to_typed(serde, raw(serde, values).slice(start, length)).to_pylist() == wanted
    typed = pa.array(values, serde.arrow_type).slice(start, length)
    assert to_binary(serde, typed).to_pylist() == raw(serde, wanted).to_pylist()


@pytest.mark.parametrize("serde", [*COLUMNS, serdes.JSON, Upper()], ids=repr)
def test_no_rows_and_only_nulls(serde):
    for values in ([], [None, None]):
        column = pa.array(values, pa.binary())
        assert to_typed(serde, column).to_pylist() == values
        assert to_typed(serde, column).type == serde.arrow_type
        assert to_binary(serde, pa.array(values, serde.arrow_type)).to_pylist() == values


def test_nan_stays_one():
    column = raw(serdes.FLOAT64, [math.nan])
    assert math.isnan(to_typed(serdes.FLOAT64, column)[0].as_py())


def test_json_is_its_text_both_ways():
    column = raw(serdes.JSON, [{"a": [1, None]}, "text", None, 5])
    typed = to_typed(serdes.JSON, column)
    assert typed.to_pylist() == ['{"a":[1,null]}', '"text"', None, "5"]
    assert to_binary(serdes.JSON, typed).to_pylist() == column.to_pylist()


def test_any_serde_makes_a_column():
    assert to_typed(Upper(), raw(Upper(), ["a", None])).to_pylist() == ["A", None]
    assert to_binary(Upper(), pa.array(["b", None])).to_pylist() == [b"B", None]


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (serdes.UTF8, b"\xff"),
        (serdes.INT32, b"123"),
        (serdes.INT64, b"1234"),
        (serdes.FLOAT64, b""),
        (serdes.INT64, b"123456789"),
    ],
)
def test_a_value_that_the_serde_did_not_write_is_a_format_error(serde, data):
    good = serde.serialize("a" if serde is serdes.UTF8 else 1)
    with pytest.raises(FormatError):
        to_typed(serde, pa.array([good, data], pa.binary()))


def test_sizes_that_add_up_are_still_wrong():
    with pytest.raises(FormatError):
        to_typed(serdes.INT32, pa.array([b"123", b"12345"], pa.binary()))


@pytest.mark.parametrize(
    ("serde", "column"),
    [
        (serdes.INT32, pa.array([2**40])),
        (serdes.INT64, pa.array(["five"])),
        (serdes.INT64, pa.array([1.5])),
        (serdes.BYTES, pa.array([[1]])),
    ],
)
def test_a_column_that_the_serde_cannot_hold_is_refused(serde, column):
    with pytest.raises((TypeError, ValueError)):
        to_binary(serde, column)


def test_the_headers_column_is_kafkas():
    kind = headers_type()
    assert kind.value_type.field(0).name == HEADERS_FIELDS[0]
    assert kind.value_type.field(0).type == pa.string()
    assert kind.value_type.field(1).type == pa.binary()
