"""Serdes whose names contain a type: bytes, columns, names, and what they refuse."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import arrow, open_state, serdes, stores
from kstore_core.errors import FormatError, SpecError
from kstore_core.serdes.types import SCALARS, Type, parse_type, type_of
from kstore_core.spec import StoredSpec

EVERYTHING = (
    "struct<sku:string,price:decimal(10,2),tiny:tinyint,small:smallint,n:int,big:bigint,f:float,"
    "x:double,day:date,at:timestamp,ok:boolean,raw:binary,tags:array<string>,"
    "inner:struct<`a b`:bigint,days:array<date>,deep:array<struct<x:double>>>>"
)
NAIVE = dt.datetime(2020, 1, 1)  # noqa: DTZ001 - what is refused
MAPS = "struct<rates:map<string,decimal(5,2)>,more:map<string,array<int>>>"
ROWS = (serdes.json_row, serdes.arrow_row)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "string": TEXT,
    "binary": st.binary(),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(dt.UTC)),
    "float": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "double": FINITE,
    **{
        name: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        for name, bits in (("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64))
    },
}


def values(kind: Type) -> st.SearchStrategy[Any]:
    """Values of a type, and None."""
    return st.none() | present(kind)


def present(kind: Type) -> st.SearchStrategy[Any]:
    if kind.name == "decimal":
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(
            lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -kind.scale))
        )
    if kind.name == "array":
        return st.lists(values(kind.parts[0]), max_size=3)
    if kind.name == "map":
        return st.dictionaries(present(kind.parts[0]), values(kind.parts[1]), max_size=3)
    if kind.name == "struct":
        return st.fixed_dictionaries(
            {name: values(part) for name, part in zip(kind.names, kind.parts, strict=True)}
        )
    return LEAVES[kind.name]


def types(depth: int = 2) -> st.SearchStrategy[Type]:
    """Types of any kind, whose maps have keys of the type string."""
    plain = st.sampled_from([Type(name) for name in (*SCALARS, "timestamp")])
    decimals = st.integers(1, 38).flatmap(
        lambda p: st.integers(0, p).map(lambda s: Type("decimal", precision=p, scale=s))
    )
    if not depth:
        return plain | decimals
    inner = types(depth - 1)
    arrays = inner.map(lambda part: Type("array", (), (part,)))
    maps = inner.map(lambda part: Type("map", (), (Type("string"), part)))
    return plain | decimals | arrays | maps | structs(inner)


def structs(parts: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=4)
    return st.dictionaries(names, parts, min_size=1, max_size=3).map(
        lambda fields: Type("struct", tuple(fields), tuple(fields.values()))
    )


def column_of(kind: Type, rows: list[Any]) -> pa.Array:
    """An Arrow column, with maps as lists of pairs."""
    from kstore_core.serdes.typed import arrow_value

    return pa.array([arrow_value(kind, row) for row in rows], kind.arrow)


def same(one: Any, other: Any) -> bool:
    """Compare values, with maps as dicts or as lists of pairs."""
    if isinstance(other, dict) and isinstance(one, list):
        return same(one, list(other.items()))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), kind=structs(types()))
def test_rows_read_back_one_by_one_and_as_columns(data: st.DataObject, kind: Type) -> None:
    rows = data.draw(st.lists(values(kind), max_size=4))
    column = column_of(kind, rows)
    for factory in ROWS:
        serde = factory(kind)
        raws = [None if row is None else serde.encode(row) for row in rows]
        assert [None if raw is None else serde.decode(raw) for raw in raws] == rows
        written = arrow.to_binary(serde, column)
        assert written.type == pa.binary()
        if factory is serdes.json_row:
            assert written.to_pylist() == raws
        for stored in (written, pa.array(raws, pa.binary())):
            typed = arrow.to_typed(serde, stored)
            typed.validate(full=True)
            assert typed.type == serde.arrow_type
            assert same(typed.to_pylist(), column.to_pylist())
            assert same(arrow.to_typed(serde, stored.slice(1)).to_pylist(), rows[1:])


@settings(deadline=None)
@given(data=st.data(), precision=st.integers(1, 38), share=st.integers(0, 38))
def test_decimals_read_back(data: st.DataObject, precision: int, share: int) -> None:
    serde = serdes.decimal(precision, min(share, precision))
    numbers = data.draw(st.lists(values(serde.kind), max_size=6))
    raws = [None if number is None else serde.encode(number) for number in numbers]
    assert [None if raw is None else serde.decode(raw) for raw in raws] == numbers
    column = pa.array(numbers, serde.arrow_type)
    assert arrow.to_binary(serde, column).to_pylist() == raws
    assert arrow.to_binary(serde, column.slice(1)).to_pylist() == raws[1:]
    assert arrow.to_typed(serde, pa.array(raws, pa.binary())).equals(column)


@settings(deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("serde", [serdes.BOOLEAN, serdes.DATE, serdes.TIMESTAMP])
def test_columns_have_the_bytes_of_single_values(serde: Any, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.none() | LEAVES[serde.name], max_size=6))
    raws = [None if row is None else serde.encode(row) for row in rows]
    column = pa.array(rows, serde.arrow_type)
    for begin in (0, 1):
        assert arrow.to_binary(serde, column.slice(begin)).to_pylist() == raws[begin:]
        stored = pa.array(raws, pa.binary()).slice(begin)
        assert arrow.to_typed(serde, stored).equals(column.slice(begin))


@pytest.mark.parametrize(
    ("number", "raw"),
    [
        ("0", "00"),
        ("1.27", "7f"),
        ("1.28", "0080"),
        ("-1.28", "80"),
        ("-1.29", "ff7f"),
        ("12.5", "04e2"),
        ("99999999.99", "02540be3ff"),
    ],
)
def test_decimals_have_the_bytes_of_javas_big_integers(number: str, raw: str) -> None:
    serde = serdes.decimal(10, 2)
    assert serde.encode(Decimal(number)).hex() == raw
    assert serde.decode(bytes.fromhex(raw)) == Decimal(number)


@pytest.mark.parametrize("raw", ["", "00" * 17, "02540be400", "7f" * 16])
def test_bytes_that_are_no_decimal_are_a_format_error(raw: str) -> None:
    serde, data = serdes.decimal(10, 2), bytes.fromhex(raw)
    with pytest.raises(FormatError, match=r"decimal\(10,2\)"):
        serde.decode(data)
    with pytest.raises(FormatError, match=r"decimal\(10,2\)"):
        arrow.to_typed(serde, pa.array([b"\1", None, data]))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (1.5, TypeError, r"serdes.decimal\(10,2\) takes decimal.Decimal, not float"),
        (True, TypeError, r"not bool"),
        (None, TypeError, r"not NoneType"),
        (Decimal("0.001"), ValueError, r"8 digits before the point and 2 after it, not 0.001"),
        (Decimal("1E8"), ValueError, r"more digits"),
        (Decimal("NaN"), ValueError, r"not NaN"),
        (Decimal("Infinity"), ValueError, r"not Infinity"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(value: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        serdes.decimal(10, 2).encode(value)


def test_decimals_take_integers_and_other_scales() -> None:
    serde = serdes.decimal(10, 2)
    for value in (5, Decimal(5), Decimal("5.0000"), Decimal("0.5E1")):
        assert serde.decode(serde.encode(value)) == Decimal("5.00")


@pytest.mark.parametrize("given", [(0, 0), (39, 2), (5, 6), (5, -1), ("5", 2), (5.0, 2)])
def test_a_decimal_has_1_to_38_digits(given: Any) -> None:
    with pytest.raises(SpecError, match=r"precision must be an int from 1 to 38"):
        serdes.decimal(*given)


def test_json_rows_are_plain_json() -> None:
    serde = serdes.json_row(EVERYTHING)
    row: dict[str, Any] = {
        "sku": 'a"\\\n\x01é',
        "price": Decimal("12.5"),
        "tiny": -1,
        "small": 2,
        "n": 3,
        "big": 2**60,
        "f": 0.5,
        "x": 1e-7,
        "day": dt.date(1969, 12, 31),
        "ok": True,
        "at": dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        "raw": b"\xff\0",
        "tags": ["x", None],
        "inner": {"a b": 1},
    }
    assert serde.encode(row).decode() == (
        '{"sku":"a\\"\\\\\\n\\u0001é","price":12.50,"tiny":-1,"small":2,"n":3,'
        '"big":1152921504606846976,"f":0.5,"x":1e-07,"day":"1969-12-31",'
        '"at":"2020-01-01T00:00:00.000000Z","ok":true,"raw":"/wA=","tags":["x",null],'
        '"inner":{"a b":1,"days":null,"deep":null}}'
    )
    assert json.loads(serde.encode(row))["price"] == 12.5
    assert serde.decode(serde.encode(row)) == {
        **row,
        "inner": {"a b": 1, "days": None, "deep": None},
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 1 , "x" :2,\n "other": {"n": [1]}, "price": "1.50"}',
        '{"x":2.0,"n":1,"price":15e-1}',
        '{"at":null,"price":1.5,"n":1,"x":2e0}',
    ],
)
def test_json_of_other_writers_is_read(text: str) -> None:
    """In any order and with white space; other fields are ignored, and missing ones are null."""
    serde = serdes.json_row("struct<n:int,x:double,price:decimal(5,2),at:timestamp>")
    row = {"n": 1, "x": 2.0, "price": Decimal("1.50"), "at": None}
    assert serde.decode(text.encode()) == row
    assert arrow.to_typed(serde, pa.array([text.encode(), None])).to_pylist() == [row, None]


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "{", "}", "[1]", "1", "null", '"x"', "{}{}", '{"n":1} x', '{"n":"1"}'),
        *('{"n":1.5}', '{"n":2147483648}', '{"n":true}', '{"x":"1"}', '{"x":NaN}', '{"x":1e999}'),
        *('{"price":1.555}', '{"price":1000}', '{"price":"x"}', '{"price":true}'),
        *('{"at":"2020-01-01T00:00:00"}', '{"at":5}', '{"day":"2020-1-1"}', '{"day":"20200101"}'),
        *(
            '{"raw":"*"}',
            '{"raw":"a"}',
            '{"tags":1}',
            '{"tags":[1]}',
            '{"s":[]}',
            '{"s":{"y":"1"}}',
        ),
        *('{"n":1,}', "{'n':1}", '{"n":01}', "\udcff", '{"o":' + "[" * 100_000),
    ],
    ids=lambda text: repr(text)[:30],
)
def test_bytes_that_are_no_row_of_json_are_a_format_error(text: str) -> None:
    serde = serdes.json_row(
        "struct<n:int,x:double,price:decimal(5,2),at:timestamp,day:date,raw:binary,"
        "tags:array<string>,s:struct<y:bigint>>"
    )
    raw = text.encode(errors="surrogateescape")
    with pytest.raises(FormatError):
        serde.decode(raw)
    with pytest.raises(FormatError, match="a stored value is not a JSON object of struct"):
        arrow.to_typed(serde, pa.array([b"{}", raw, None, b"{}"]))
    with pytest.raises(FormatError):
        arrow.to_typed(serde, pa.array([raw, b"", b'{"n":1}{"n":2}']))


def test_json_rows_with_maps_are_read() -> None:
    serde = serdes.json_row(MAPS)
    row = {"rates": {"a": Decimal("1.50"), 'b"': None}, "more": {}}
    assert serde.encode(row) == b'{"rates":{"a":1.50,"b\\"":null},"more":{}}'
    column = column_of(serde.kind, [row, None])
    assert arrow.to_binary(serde, column).to_pylist() == [serde.encode(row), None]
    assert arrow.to_typed(serde, arrow.to_binary(serde, column)).equals(column)
    with pytest.raises(FormatError):
        arrow.to_typed(serde, pa.array([b'{"rates":[]}']))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_json_has_no_infinite_numbers(number: float) -> None:
    serde = serdes.json_row("struct<x:double>")
    for write in (
        lambda: serde.encode({"x": number}),
        lambda: arrow.to_binary(serde, pa.array([{"x": 1.0}, {"x": number}], serde.arrow_type)),
    ):
        with pytest.raises(ValueError, match=r"is not JSON; store null, or use serdes.arrow_row"):
            write()
    back = serdes.arrow_row("struct<x:double>")
    read = back.decode(back.encode({"x": number}))["x"]
    assert repr(read) == repr(number)


@pytest.mark.parametrize("day", [-719163, 2932897])
@pytest.mark.parametrize("name", ["date", "timestamp"])
def test_json_has_the_years_of_python(name: str, day: int) -> None:
    serde = serdes.json_row(f"struct<t:{name}>")
    number = day if name == "date" else day * 86_400_000_000
    times = pa.array([number], pa.int32() if name == "date" else pa.int64())
    column = pa.StructArray.from_arrays([times.cast(serde.arrow_type[0].type)], ["t"])
    with pytest.raises(ValueError, match=r"not in the years 1 to 9999"):
        arrow.to_binary(serde, column.cast(serde.arrow_type))


@pytest.mark.parametrize("factory", ROWS)
@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        ({"n": "1"}, TypeError, r"\.n takes int, not str"),
        ({"n": True}, TypeError, r"\.n takes int, not bool"),
        ({"n": 2**31}, ValueError, r"\.n takes integers of 32 bits, not 2147483648"),
        ({"x": "1"}, TypeError, r"\.x takes float, not str"),
        ({"x": 10**400}, ValueError, r"\.x takes numbers of the type double"),
        ({"at": NAIVE}, ValueError, r"\.at takes an aware datetime"),
        ({"at": dt.date(2020, 1, 1)}, TypeError, r"\.at takes an aware datetime"),
        ({"day": NAIVE}, TypeError, r"\.day takes datetime.date"),
        ({"price": 1.5}, TypeError, r"\.price takes decimal.Decimal, not float"),
        ({"tags": "x"}, TypeError, r"\.tags takes a list, not str"),
        ({"tags": ["x", 1]}, TypeError, r"\.tags\[\] takes str, not int"),
        ({"s": {"z": 1}}, ValueError, r"\.s has no field 'z'; its fields are y"),
        ({"nn": 1}, ValueError, r"has no field 'nn'; its fields are n, x"),
        ({"raw": "x"}, TypeError, r"\.raw takes bytes, not str"),
        ({"m": {1: 1}}, TypeError, r"\.m \(a key\) takes str, not int"),
        ({"m": {None: 1}}, ValueError, r"\.m has the key None"),
        (None, TypeError, r"takes a dict, not NoneType"),
        ([1], TypeError, r"takes a dict, not list"),
    ],
)
def test_rows_of_other_types_are_refused(factory: Any, row: Any, error: type, message: str) -> None:
    serde = factory(
        "struct<n:int,x:double,at:timestamp,day:date,price:decimal(5,2),tags:array<string>,"
        "s:struct<y:bigint>,raw:binary,m:map<string,int>>"
    )
    with pytest.raises(error, match=message):
        serde.encode(row)


def test_an_arrow_row_is_one_message() -> None:
    serde = serdes.arrow_row("struct<n:int,sku:string>")
    row = {"n": 1, "sku": "a"}
    raw = serde.encode(row)
    assert raw[:4] == b"\xff" * 4
    schema = pa.schema([("n", pa.int32()), ("sku", pa.string())])
    batch = pa.ipc.read_record_batch(pa.py_buffer(raw), schema)
    assert batch.to_pylist() == [row]
    assert serde.decode(bytes(batch.serialize())) == row


def _messages() -> list[bytes]:
    kind = serdes.arrow_row("struct<n:int,sku:string>")
    raw = kind.encode({"n": 1, "sku": "abc"})
    schema = pa.schema([("n", pa.int32()), ("sku", pa.string())])
    rows = [pa.record_batch([pa.array([1] * n, pa.int32()), pa.array(["a"] * n)], schema=schema)
            for n in (0, 2)]  # fmt: skip
    other = serdes.arrow_row("struct<n:int>").encode({"n": 1})
    longer = raw[:-8] + (99).to_bytes(4, "little") + raw[-4:]
    return [
        *(b"", b"\xff" * 8, b"\xff" * 4 + bytes(4), raw + raw, raw[:-8], raw[:-1], raw + bytes(8)),
        *(raw[:20], b"x" * 100, other, schema.serialize().to_pybytes(), longer[: len(raw)]),
        *(batch.serialize().to_pybytes() for batch in rows),
    ]


@pytest.mark.parametrize("raw", _messages(), ids=lambda raw: f"{len(raw)}-{raw[-2:].hex()}")
def test_bytes_that_are_no_arrow_row_are_a_format_error(raw: bytes) -> None:
    serde = serdes.arrow_row("struct<n:int,sku:string>")
    good = serde.encode({"n": 1, "sku": "abc"})
    if raw[:8] == good[:8] and len(raw) == len(good):
        raw = good.replace((3).to_bytes(4, "little"), (99).to_bytes(4, "little"))
    with pytest.raises(FormatError, match=r"not an Arrow row of struct<n:int,sku:string>"):
        serde.decode(raw)
    with pytest.raises(FormatError):
        arrow.to_typed(serde, pa.array([good, raw, None, good]))


@settings(deadline=None, max_examples=100)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_damaged_arrow_row_never_harms_the_process(place: int, byte: int) -> None:
    serde = serdes.arrow_row("struct<n:int,sku:string,tags:array<string>>")
    raw = bytearray(serde.encode({"n": 1, "sku": "abc", "tags": ["x", "yy"]}))
    raw[place % len(raw)] = byte
    try:
        row = serde.decode(bytes(raw))
    except FormatError:
        return
    assert row.keys() == {"n", "sku", "tags"}


@settings(deadline=None)
@given(kind=types())
def test_the_name_of_a_type_is_read_back(kind: Type) -> None:
    assert parse_type(str(kind)) == kind
    assert type_of(kind.arrow) == kind


@pytest.mark.parametrize("factory", [*ROWS, lambda kind: serdes.decimal(10, 2)])
def test_serdes_are_found_by_name_and_pickled_by_it(factory: Any) -> None:
    serde = factory(EVERYTHING)
    assert serdes.by_name(serde.name) is serde
    assert pickle.loads(pickle.dumps(serde)) is serde
    assert eval(repr(serde), {"serdes": serdes}) is serde
    assert isinstance(serde, serdes.Serde)


def test_schemas_are_given_in_several_ways() -> None:
    from pyspark.sql.types import (
        ArrayType,
        DecimalType,
        IntegerType,
        MapType,
        StringType,
        StructType,
        TimestampType,
    )

    text = "struct<a:int,`b c`:array<decimal(5,2)>,m:map<string,timestamp>>"
    spark = (
        StructType()
        .add("a", IntegerType(), nullable=False)
        .add("b c", ArrayType(DecimalType(5, 2)))
        .add("m", MapType(StringType(), TimestampType()))
    )
    fields = [
        ("a", pa.int32()),
        ("b c", pa.large_list(pa.decimal128(5, 2))),
        ("m", pa.map_(pa.large_string(), pa.timestamp("ms", "Europe/Berlin"))),
    ]
    for schema in (text, text.replace(",", " , ").upper().replace("A:", "a:").replace("`B C`", "`b c`").replace("M:", "m:"), spark, pa.schema(fields), pa.struct(fields)):  # fmt: skip  # noqa: E501
        assert serdes.json_row(schema) is serdes.json_row(text)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("utf9", r"no built-in serde 'utf9'.*decimal\(precision,scale\), json\(struct<…>\)"),
        ("decimal(39,2)", r"no built-in serde 'decimal\(39,2\)': .*precision must be"),
        ("decimal(x)", r"the fault is at character 8 \('x\)'\)"),
        ("json(struct<a:int)", r"the fault is at character 12"),
        ("json(struct<a:varchar>)", r"the fault is at character 9 \('varchar>'\)"),
        ("json(int)", r"a row must be a struct, not int"),
        ("json(struct<>)", r"the fault is at character 7"),
        ("json(struct<a:int,a:int>)", r"the field 'a' twice"),
        ("json(struct<m:map<int,int>>)", r"names in a JSON object are strings"),
        ("arrow(struct<a:int>", r"no built-in serde"),
        ("arrow(" + "array<" * 60 + ")", r"more than 50 levels"),
        ("arrow(struct<a:int>;)", r"the fault is at character 13"),
    ],
)
def test_a_wrong_name_is_an_error(name: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        serdes.by_name(name)
    assert serdes.found(name) is None


@pytest.mark.parametrize(
    "schema",
    [
        *(5, None, pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.uint8(), pa.int32()),
        *(pa.decimal256(50, 2), pa.struct([]), "int"),
    ],
    ids=str,
)
def test_other_schemas_are_refused(schema: Any) -> None:
    with pytest.raises(SpecError, match=r"typed values cannot have|does not describe|a struct"):
        serdes.arrow_row(schema)


@pytest.mark.parametrize("factory", ROWS)
def test_columns_of_other_types_are_refused(factory: Any) -> None:
    serde = factory("struct<a:int,b:string>")
    for column in (
        pa.array([{"b": "x", "a": 1}]),
        pa.array([{"a": 1}]),
        pa.array(["x"]),
        pa.array([1]),
    ):
        with pytest.raises(TypeError, match=r"needs a column of struct<a:int,b:string>"):
            arrow.to_binary(serde, column)
    with pytest.raises(TypeError, match=r"needs a column of the type date, not int32"):
        arrow.to_binary(serdes.DATE, pa.array([1], pa.int32()))
    with pytest.raises(TypeError, match=r"timestamp with a time zone, not timestamp\[us\]"):
        arrow.to_binary(serdes.TIMESTAMP, pa.array([1], pa.timestamp("us")))
    assert arrow.to_binary(serde, pa.nulls(2)).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("serde", "text", "value"),
    [
        (serdes.BOOLEAN, "true", True),
        (serdes.BOOLEAN, "false", False),
        (serdes.DATE, "2020-01-31", dt.date(2020, 1, 31)),
        (serdes.TIMESTAMP, "2020-01-31T00:00Z", dt.datetime(2020, 1, 31, tzinfo=dt.UTC)),
        (serdes.decimal(5, 2), "1.5", Decimal("1.5")),
        (serdes.INT32, "-5", -5),
        (serdes.FLOAT64, "1.5", 1.5),
        (serdes.JSON, '{"a":1}', {"a": 1}),
        (serdes.UTF8, "x", "x"),
        (serdes.json_row("struct<a:int>"), '{"a":1}', {"a": 1}),
        (serdes.arrow_row("struct<a:binary>"), '{"a":"eA=="}', {"a": base64.b64decode("eA==")}),
    ],
)
def test_texts_become_values(serde: Any, text: str, value: Any) -> None:
    assert serdes.value_of_text(serde, text) == value


@pytest.mark.parametrize(
    ("serde", "text"),
    [
        (serdes.BOOLEAN, "True"),
        (serdes.DATE, "x"),
        (serdes.TIMESTAMP, "x"),
        (serdes.decimal(5, 2), "x"),
        (serdes.json_row("struct<a:int>"), "x"),
        (serdes.JSON, "[" * 100_000),
    ],
    ids=str,
)
def test_other_texts_are_refused(serde: Any, text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        serdes.value_of_text(serde, text)


@pytest.mark.parametrize("factory", ROWS)
def test_a_store_takes_rows_one_by_one_and_as_columns(factory: Any) -> None:
    serde = factory("struct<sku:string,price:decimal(5,2),days:array<date>>")
    spec = stores.key_value("rows", key=serdes.DATE, value=serde)
    row = {"sku": "a", "price": Decimal("1.50"), "days": [dt.date(2020, 1, 1), None]}
    days = [dt.date(1969, 12, 30), dt.date(2020, 1, 2)]
    with open_state("unused", engine="memory") as state:
        store = state.open(spec)
        store.put(days[0], row)
        keys = pa.array(days[1:] * 2)
        store.put_arrow(pa.table({"key": keys, "value": pa.array([row, None], serde.arrow_type)}))
        assert store.get(days[1]) is None
        store.put_arrow(pa.table({"key": keys[:1], "value": pa.array([row], serde.arrow_type)}))
        assert [store.get(day) for day in days] == [row, row]
        table = store.all().to_arrow()
        assert table.schema.field("value").type == serde.arrow_type
        assert sorted(table.to_pylist(), key=str) == [{"key": day, "value": row} for day in days]
        with pytest.raises(
            TypeError, match=r"value serde .* of the store 'rows' failed at the key"
        ):
            store.put(days[0], {"sku": 1})


@pytest.mark.parametrize("factory", ROWS)
def test_a_spec_names_its_types(factory: Any) -> None:
    spec = stores.key_value("rows", key=serdes.decimal(5, 2), value=factory(EVERYTHING))
    stored = StoredSpec.parse(json.dumps(spec.describe()).encode())
    assert stored.spec() == spec
    damaged = json.dumps(spec.describe()).replace("bigint", "bigest")
    with pytest.raises(SpecError, match=r"no built-in serde .*the fault is at character"):
        StoredSpec.parse(damaged.encode()).spec()
