"""Columns against the functions for one record: every shape in which Arrow may hand them over."""

from __future__ import annotations

import gc
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import codec
from kstore_core.codec import decode_column, encode_column, split_column
from kstore_core.errors import FormatError
from tests.codec.strategies import BYTES, HEADERS, TIMES

HEADER_LISTS = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
ROWS = st.lists(
    st.none() | st.tuples(BYTES, TIMES, st.none() | HEADERS),
    max_size=12,
)
LAYOUTS = ["value_timestamp_headers", "value_and_timestamp", "aggregation_with_headers"]


def header_column(lists: list[Any], kind: pa.DataType = HEADER_LISTS) -> pa.Array:
    return pa.array(
        [
            None if pairs is None else [{"key": key, "value": value} for key, value in pairs]
            for pairs in lists
        ],
        kind,
    )


def columns(rows: list[Any]) -> tuple[pa.Array, pa.Array, pa.Array]:
    parts = [row or (None, None, None) for row in rows]
    return (
        pa.array([value for value, _, _ in parts], pa.binary()),
        pa.array([timestamp for _, timestamp, _ in parts], pa.int64()),
        header_column([headers for _, _, headers in parts]),
    )


def encoded_alone(row: Any, layout: str) -> bytes | None:
    if row is None:
        return None
    value, timestamp, headers = row
    data: bytes
    if layout == "value_and_timestamp":
        data = codec.encode_value_and_timestamp(value, timestamp)
    elif layout == "aggregation_with_headers":
        data = codec.encode_aggregation_with_headers(value, headers)
    else:
        data = codec.encode_value_timestamp_headers(value, timestamp, headers)
    return data


def decoded_alone(row: bytes | None, layout: str) -> tuple[Any, Any, Any]:
    """Value, timestamp and headers as lists of columns show them; None for what is not there."""
    if row is None:
        return None, None, None
    if layout == "value_and_timestamp":
        return *codec.decode_value_and_timestamp(row), None
    if layout == "aggregation_with_headers":
        value, headers = codec.decode_aggregation_with_headers(row)
        return value, None, shown(headers)
    value, timestamp, headers = codec.decode_value_timestamp_headers(row)
    return value, timestamp, shown(headers)


def shown(headers: codec.Headers) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in headers]


def rows_of(decoded: Any) -> list[tuple[Any, Any, Any]]:
    length = len(decoded[0])
    lists = [[None] * length if part is None else part.to_pylist() for part in decoded]
    return list(zip(*lists, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
@given(drawn=ROWS, cut=st.integers(0, 3))
def test_a_column_is_encoded_and_decoded_as_its_records_are(
    layout: Any, drawn: list[Any], cut: int
) -> None:
    values, times, headers = (column.slice(cut) for column in columns([None] * cut + drawn))
    timed, headed = layout != "aggregation_with_headers", layout != "value_and_timestamp"
    encoded = encode_column(
        values, times if timed else None, headers if headed else None, layout=layout
    )
    encoded.validate(full=True)
    assert encoded.type == pa.binary()
    assert encoded.to_pylist() == [encoded_alone(row, layout) for row in drawn]

    padded = pa.concat_arrays([pa.array([b"\xff"] * cut, pa.binary()), encoded]).slice(cut)
    decoded = decode_column(padded, layout=layout)
    for column in decoded:
        assert column is None or column.validate(full=True) is None
    assert decoded[0].equals(values)
    if timed:
        assert decoded[1] is not None
        assert decoded[1].equals(times)
    else:
        assert decoded[1] is None
    if headed:
        assert decoded[2] is not None
        assert decoded[2].type == HEADER_LISTS
        assert (
            decoded[2].to_pylist()
            == header_column([None if row is None else row[2] or [] for row in drawn]).to_pylist()
        )
    else:
        assert decoded[2] is None

    split = split_column(padded, layout=layout)
    assert split[0].equals(decoded[0])
    assert (split[1] is None) == (not timed)
    if headed:
        assert split[2] is not None
        assert split[2].to_pylist() == [
            None if row is None else codec.encode_headers(row[2]) for row in drawn
        ]


SIMPLE: list[Any] = [
    (b"a", 1, [("k", b"v"), ("n", None), ("e", b"")]),
    None,
    (b"", -1, None),
    (b"ccc", 3, []),
    (b"d", 4, [("k", b"v" * 70)]),
]
ENCODED = [encoded_alone(row, "value_timestamp_headers") for row in SIMPLE]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        pa.list_(pa.field("entry", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())])),
        pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
    ],
    ids=str,
)
def test_headers_of_every_shape_are_read(kind: pa.DataType) -> None:
    values, times, _ = columns(SIMPLE)
    headers = header_column([row and row[2] for row in SIMPLE], kind)
    assert encode_column(values, times, headers).to_pylist() == ENCODED
    longer = pa.concat_arrays([headers.slice(4), headers, headers])
    assert encode_column(values, times, longer.slice(1, 5)).to_pylist() == ENCODED


def test_a_list_of_sliced_structs_is_read() -> None:
    keys = pa.array(["unused", "a", "b"]).slice(1)
    inner = pa.StructArray.from_arrays(
        [pa.array(["x", "y", "a", "b"]).slice(1), pa.array([b"0", b"1", None, b"2"]).slice(1)],
        names=["key", "value"],
    ).slice(1)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), inner)
    rows = encode_column(keys.cast(pa.binary()), pa.array([1, 2]), lists)
    decoded = [list(codec.decode_value_timestamp_headers(row)[2]) for row in rows.to_pylist()]
    assert decoded == [[("a", None)], [("b", b"2")]]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str
)
def test_values_of_every_type_are_read(kind: pa.DataType) -> None:
    values, times, headers = columns(SIMPLE)
    rows = encode_column(values.cast(kind), times, headers)
    assert rows.to_pylist() == ENCODED
    large = kind in (pa.large_string(), pa.large_binary())
    assert rows.type == (pa.large_binary() if large else pa.binary())
    again, _, _ = decode_column(rows)
    assert again.type == rows.type
    assert again.to_pylist() == values.to_pylist()


def test_chunks_and_missing_columns_are_read() -> None:
    values, times, headers = (
        pa.chunked_array([column.slice(0, 2), column.slice(2)]) for column in columns(SIMPLE)
    )
    assert encode_column(values, times, headers).to_pylist() == ENCODED
    plain = [row and codec.encode_value_timestamp_headers(row[0], row[1]) for row in SIMPLE]
    assert encode_column(values, times).to_pylist() == plain
    assert encode_column(values, times, pa.nulls(5)).to_pylist() == plain
    assert encode_column(pa.nulls(5), times, headers).null_count == 5
    rows = pa.chunked_array([ENCODED[:1], ENCODED[1:]], pa.binary())
    assert decode_column(rows)[0].to_pylist() == values.to_pylist()


@pytest.mark.parametrize(
    ("unit", "number", "millis"),
    [
        ("s", -2, -2000),
        ("ms", 5, 5),
        ("us", 1999, 1),
        ("us", -1, -1),
        ("us", -1000, -1),
        ("ns", -1_000_001, -2),
        ("ns", 2_000_000, 2),
    ],
)
def test_timestamps_of_every_unit_become_milliseconds(unit: str, number: int, millis: int) -> None:
    for zone in (None, "UTC"):
        times = pa.array([number], pa.timestamp(unit, zone))
        rows = encode_column(pa.array([b""]), times, layout="value_and_timestamp")
        assert codec.decode_value_and_timestamp(rows[0].as_py()) == (b"", millis)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_empty_columns(layout: Any) -> None:
    times = None if layout == "aggregation_with_headers" else pa.array([], pa.int64())
    headers = None if layout == "value_and_timestamp" else header_column([])
    rows = encode_column(pa.array([], pa.binary()), times, headers, layout=layout)
    assert len(rows) == 0
    for column in (*decode_column(rows, layout=layout), *split_column(rows, layout=layout)):
        assert column is None or len(column) == 0


# ---------------------------------------------------------------- what is refused


def test_columns_that_do_not_fit_together_are_refused() -> None:
    values, times, headers = columns(SIMPLE)
    with pytest.raises(ValueError, match="timestamps: 4 rows, but there are 5 values"):
        encode_column(values, times.slice(1), headers)
    with pytest.raises(ValueError, match="headers: 4 rows"):
        encode_column(values, times, headers.slice(1))
    with pytest.raises(ValueError, match="needs timestamps"):
        encode_column(values, None, headers)
    with pytest.raises(ValueError, match="has no timestamps"):
        encode_column(values, times, headers, layout="aggregation_with_headers")
    with pytest.raises(ValueError, match="has no headers"):
        encode_column(values, times, headers, layout="value_and_timestamp")
    for function in (encode_column, decode_column, split_column):
        with pytest.raises(ValueError, match="not 'plain'"):
            function(values, layout="plain")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "column",
    [
        [b"list"],
        None,
        pa.array([1]),
        pa.array([b"x"], pa.binary(1)),
        pa.array([b"x"], pa.binary_view()),
        pa.array([b"x"], pa.binary()).dictionary_encode(),
        pa.table({"a": [b"x"]}),
    ],
    ids=str,
)
def test_columns_of_other_types_are_refused(column: Any) -> None:
    one = pa.array([b"x"], pa.binary())
    for attempt in (
        lambda: encode_column(column, pa.array([1])),
        lambda: encode_column(one, column if column is not None else []),
        lambda: encode_column(one, pa.array([1]), column if column is not None else []),
        lambda: decode_column(column),
        lambda: split_column(column),
    ):
        if isinstance(column, pa.Array) and column.type == pa.int64():
            continue
        with pytest.raises(TypeError):
            attempt()


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.list_(pa.struct([("key", pa.string())])),
        pa.list_(pa.struct([("k", pa.string()), ("v", pa.binary())])),
        pa.list_(pa.struct([("key", pa.int64()), ("value", pa.binary())])),
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
        pa.map_(pa.string(), pa.binary()),
    ],
    ids=str,
)
def test_headers_of_other_types_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="header"):
        encode_column(pa.array([b"x"]), pa.array([1]), pa.array([[]], kind))


def test_a_value_without_a_timestamp_or_a_header_without_a_key_is_named() -> None:
    values = pa.array([b"a", b"b"])
    times = pa.array([1, 2])
    with pytest.raises(ValueError, match="row 1: the value has no timestamp"):
        encode_column(values, pa.array([1, None]))
    with pytest.raises(FormatError, match="row 1: a header key is null"):
        encode_column(values, times, header_column([[], [("k", b""), (None, b"")]]))
    with pytest.raises(FormatError, match="row 1: a header is null"):
        encode_column(values, times, pa.array([[], [None]], HEADER_LISTS))
    with pytest.raises(OverflowError, match="row 1: the timestamp"):
        encode_column(values, pa.array([1, 2**62], pa.timestamp("s")))
    # of a null value neither is looked at
    empty = encode_column(
        pa.array([None], pa.binary()), pa.array([None], pa.int64()), header_column([[(None, b"")]])
    )
    assert empty.to_pylist() == [None]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("count", [65_535, 65_536, 65_551, 200_003])
def test_two_threads_encode_many_rows_as_one_does(layout: Any, count: int) -> None:
    kinds = [
        (b"value", 1, [("k", b"v"), ("none", None)]),
        (b"", -1, []),
        None,
        (b"long" * 20, 2**40, [("", b"x" * 200)]),
        (b"n", 7, None),
    ]
    order = pa.array([number * 7 // 3 % 5 for number in range(count)])
    values, times, headers = (column.take(order) for column in columns(kinds))
    given: dict[str, Any] = {}
    if layout != "aggregation_with_headers":
        given["timestamps"] = times
    if layout != "value_and_timestamp":
        given["headers"] = headers
    found = encode_column(values, **given, layout=layout)
    found.validate(full=True)
    small = {name: column.slice(0, 15) for name, column in given.items()}
    # The first 15 rows have all kinds, and repeat.
    expected = encode_column(values.slice(0, 15), **small, layout=layout)
    assert found.equals(expected.take(pa.array([number % 15 for number in range(count)])))


@pytest.mark.parametrize("bad", [[99_999], [3, 99_999], [49_999, 50_000], [50_000, 99_000]])
def test_the_first_bad_one_of_many_rows_is_named(bad: list[int]) -> None:
    lists: list[Any] = [[("k", b"")]] * 100_000
    for row in bad:
        lists[row] = [(None, b"")]
    times = pa.array([1] * 100_000)
    with pytest.raises(FormatError, match=f"row {bad[0]}: a header key is null"):
        encode_column(pa.array([b"x"] * 100_000), times, header_column(lists))


@pytest.mark.parametrize(
    ("row", "offset"),
    [("", 0), ("80", 0), ("01", 0), ("0400", 1), ("00ffff", 1), ("0402026b000000000000000000", 2)],
)
def test_a_malformed_row_is_named(row: str, offset: int) -> None:
    column = pa.array([ENCODED[0], None, bytes.fromhex(row)], pa.binary())
    with pytest.raises(FormatError, match="row 2: value_timestamp_headers: ") as caught:
        decode_column(column)
    assert caught.value.offset == offset


def test_a_fault_inside_the_headers_does_not_concern_a_split() -> None:
    row = bytes.fromhex("02010000000000000009") + b"v"
    values, times, headers = split_column(pa.array([row]))
    assert (values[0].as_py(), times[0].as_py(), headers[0].as_py()) == (b"v", 9, b"\x01")  # type: ignore[index]
    with pytest.raises(FormatError, match=r"row 0: .* negative header count"):
        decode_column(pa.array([row]))


@given(st.lists(st.binary(max_size=50) | st.none(), max_size=5), st.sampled_from(LAYOUTS))
def test_any_bytes_read_as_one_record_after_the_other_does(rows: list[Any], layout: Any) -> None:
    column = pa.array(rows, pa.binary())
    try:
        expected = [decoded_alone(row, layout) for row in rows]
    except FormatError:
        with pytest.raises(FormatError):
            decode_column(column, layout=layout)
    else:
        assert rows_of(decode_column(column, layout=layout)) == expected


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=6))
def test_keys_that_are_not_utf8_are_repaired_as_python_repairs_them(keys: list[bytes]) -> None:
    data = codec.encode_varint(len(keys))
    for key in keys:
        data += codec.encode_varint(len(key)) + key + b"\x01"
    row = codec.encode_varint(len(data)) + data
    _, _, headers = decode_column(pa.array([row]), layout="aggregation_with_headers")
    assert headers is not None
    headers.validate(full=True)
    found = [header["key"] for header in headers[0].as_py()]
    assert found == [key.decode(errors="replace") for key in keys]


# ---------------------------------------------------------------- memory


def test_memory_is_given_back() -> None:
    """Also that of columns nobody keeps, and of decodes that fail half-way."""
    values, times, headers = columns(SIMPLE * 2000)
    rows = encode_column(values, times, headers)
    bad = pa.concat_arrays([rows, pa.array([b"\x01"])])

    def work() -> None:
        encode_column(values, times, headers)
        decode_column(rows)
        split_column(rows)[2].slice(3)  # type: ignore[union-attr]
        with pytest.raises(FormatError):
            decode_column(bad)
        with pytest.raises(ValueError, match="timestamp"):
            encode_column(values, pa.nulls(len(values), pa.int64()), headers)

    for _ in range(20):
        work()
    gc.collect()
    before, arrow_before = resident_bytes(), pa.total_allocated_bytes()
    for _ in range(300):
        work()
    gc.collect()
    assert pa.total_allocated_bytes() == arrow_before
    assert resident_bytes() - before < 8 * 1024 * 1024  # one round leaked is over 100 MB


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096


def test_results_outlive_everything_they_came_from() -> None:
    column = encode_column(*columns(SIMPLE))
    values, _, headers = decode_column(column)
    del column
    gc.collect()
    assert headers is not None
    first = headers.slice(4)
    del headers
    gc.collect()
    assert first.to_pylist() == [[{"key": "k", "value": b"v" * 70}]]
    assert values.to_pylist()[-1] == b"d"
