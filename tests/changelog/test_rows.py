"""What of a row goes to the log, and the row that comes back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import codec, formats, keys
from kstore_core.arrow import headers_type
from kstore_core.changelog.rows import from_log, row_layout, to_log
from kstore_core.codec import (
    RecordColumns,
    arrow_to_log,
    decode_record_columns,
    encode_record_columns,
    log_to_arrow,
    log_to_packed_rows,
    log_to_rows,
    refuse_null_keys,
    rows_to_log,
)
from kstore_core.engine.packed import PackedBytes
from kstore_core.errors import FormatError, SpecError
from tests.codec.strategies import BYTES, HEADERS, TIMES
from tests.support.vectors import Case, encodable, golden_lines, pairs

_ENCODE: dict[str, Any] = {
    "plain": lambda value, time, headers: value,
    "timestamped": lambda value, time, headers: codec.encode_value_and_timestamp(value, time),
    "timestamped_headers": codec.encode_value_timestamp_headers,
    "session_headers": lambda value, time, headers: codec.encode_aggregation_with_headers(
        value, headers
    ),
    "versioned": lambda value, time, headers: value,
    "versioned_headers": lambda value, time, headers: codec.encode_aggregation_with_headers(
        value, headers
    ),
}
ENCODE = {name: _ENCODE[name.removeprefix("ordered_")] for name in formats.FORMATS}
LAYOUTS = ["plain", "value_and_timestamp", "value_timestamp_headers", "aggregation_with_headers"]
ROWS = st.lists(st.tuples(BYTES, st.none() | BYTES, TIMES, HEADERS), max_size=8)
Row = tuple[bytes, bytes | None, int, list[tuple[str, bytes | None]]]


def logged(records: RecordColumns) -> RecordColumns:
    """Through the bytes of a log."""
    return decode_record_columns(encode_record_columns(records, compression="lz4"))


@pytest.mark.parametrize("name", ENCODE)
@given(rows=ROWS)
def test_a_row_goes_to_the_log_and_comes_back(name: str, rows: list[Row]) -> None:
    value_format = formats.by_name(name)
    encoded = [ENCODE[name](value, time, headers) for _, value, time, headers in rows]
    own_time = value_format.timestamped and not value_format.versioned
    context = [-5 if own_time and value is not None else time for _, value, time, _ in rows]
    records = to_log(
        value_format,
        [key for key, *_ in rows],
        encoded,
        context,
        [headers for *_, headers in rows],
        first_offset=41,
    )
    for number, (record, (key, value, time, headers)) in enumerate(
        zip(logged(records), rows, strict=True)
    ):
        assert (record.offset, record.timestamp) == (41 + number, time)
        assert (record.key, record.value) == (key, value)
        assert record.headers == (headers if value_format.headers else [])
    assert from_log(value_format, logged(records)) == ([key for key, *_ in rows], encoded)


@golden_lines("restore_convert_kv_headers")
def test_golden_key_value(case: Case) -> None:
    check_golden(case, formats.TIMESTAMPED_HEADERS, case["timestamp"])


@golden_lines("restore_convert_session_headers")
def test_golden_session(case: Case) -> None:
    check_golden(case, formats.SESSION_HEADERS, 7)


def check_golden(case: Case, value_format: formats.ValueFormat, timestamp: int) -> None:
    row, value = bytes.fromhex(case["bytes"]), bytes.fromhex(case["value"])
    records = to_log(value_format, [b"k"], [row], [timestamp])
    assert (records[0].value, records[0].timestamp) == (value, timestamp)
    if encodable(case):
        assert records[0].headers == pairs(case["headers"])
        records = RecordColumns()
        records.append(0, timestamp, b"k", value, pairs(case["headers"]))
    assert from_log(value_format, logged(records)) == ([b"k"], [row])


@pytest.mark.parametrize(
    ("schema", "row_key", "log_key"),
    [
        (keys.WINDOW, codec.window_key, codec.window_key),
        (keys.WINDOW_TIME_FIRST, codec.time_first_window_key, codec.window_key),
        (keys.SESSION, codec.session_key, codec.session_key),
        (keys.SESSION_TIME_FIRST, codec.time_first_session_key, codec.session_key),
    ],
    ids=lambda part: getattr(part, "name", ""),
)
@given(rows=ROWS)
def test_keys_of_windows_and_sessions(
    schema: keys.KeySchema, row_key: Any, log_key: Any, rows: list[Row]
) -> None:
    parts = [(key, time, len(key)) for key, _, time, _ in rows]
    row_keys, values = [row_key(*part) for part in parts], [value for _, value, *_ in rows]
    records = logged(to_log(formats.PLAIN, row_keys, values, [0] * len(rows), schema=schema))
    assert records.keys == [log_key(*part) for part in parts]
    assert from_log(formats.PLAIN, records, schema=schema) == (row_keys, values)


def test_an_index_is_not_logged() -> None:
    for schema in (keys.WINDOW_KEY_FIRST, keys.SESSION_KEY_FIRST):
        with pytest.raises(SpecError, match="are index rows, and a changelog has no index rows"):
            to_log(formats.PLAIN, [], [], [], schema=schema)
    with pytest.raises(FormatError, match="time-first window key"):
        to_log(formats.PLAIN, [b"k"], [b"v"], [0], schema=keys.WINDOW_TIME_FIRST)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(rows=ROWS)
def test_arrow_columns_give_the_same_rows(layout: Any, rows: list[Row]) -> None:
    names, values, times, headers = zip(*rows, strict=True) if rows else ((), (), (), ())
    lists = [[{"key": key, "value": value} for key, value in pairs] for pairs in headers]
    for with_headers in (True, False):
        records = arrow_to_log(
            pa.array(names, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array(times, pa.int64()),
            pa.array(lists, headers_type()) if with_headers else None,
            first_offset=5,
        )
        plain = RecordColumns()
        for offset, (key, value, time, own) in enumerate(rows, 5):
            plain.append(offset, time, key, value, own if with_headers else None)
        assert list(records) == list(plain)
        out_keys, out_rows, out_times = log_to_arrow(logged(records), layout)
        assert (out_keys.to_pylist(), out_rows.to_pylist()) == log_to_rows(plain, layout)
        assert out_times.to_pylist() == list(times)
        kept = [row for row in zip(*log_to_rows(plain, layout), strict=True) if row[1] is not None]
        packed_keys, packed_rows, deleted = log_to_packed_rows(plain, layout, 0, 99)
        assert len(rows) < 99
        assert list(zip(packed_keys, packed_rows, strict=True)) == kept
        assert deleted == [key for key, value in zip(names, values, strict=True) if value is None]


def test_packed_rows_are_a_sequence() -> None:
    values = [b"", b"one", b"", b"two" * 100, b"three"]
    plain = RecordColumns()
    for offset, value in enumerate(values):
        plain.append(offset, 0, b"key %d" % offset, value)
    keys, rows, _ = log_to_packed_rows(plain, "plain", 0, 5)
    assert list(keys) == [b"key %d" % number for number in range(5)]
    assert [rows[at] for at in range(-5, 5)] == values * 2
    for start in (None, -9, -2, 0, 1, 5, 9):
        for stop in (None, -9, -1, 0, 3, 5, 9):
            assert list(rows[start:stop]) == values[start:stop]
            assert list(rows[start:stop][1:]) == values[start:stop][1:]
    for index in (5, -6):
        with pytest.raises(IndexError, match="not within 5 packed bytes"):
            rows[index]
    with pytest.raises(ValueError, match="the step 1, not 2"):
        rows[::2]
    assert not PackedBytes()
    assert list(PackedBytes()) == []


def test_a_row_that_is_not_of_its_format_is_named() -> None:
    good = codec.encode_value_timestamp_headers(b"v", 1, [("h", b"x")])
    assert good is not None
    for bad in (b"", b"\x02", good[:4], b"\x04\x02\x00" + bytes(8), b"\x02\x00" + bytes(7)):
        with pytest.raises(FormatError, match="row 1: "):
            to_log(formats.TIMESTAMPED_HEADERS, [b"a", b"b"], [good, bad], [0, 0])
    with pytest.raises(FormatError, match="row 0: a field of 8 bytes is cut short: 7 are left"):
        to_log(formats.TIMESTAMPED, [b"a"], [bytes(7)], [0])


def test_what_is_not_given_is_asked_for() -> None:
    layout = row_layout(formats.TIMESTAMPED_HEADERS)
    with pytest.raises(ValueError, match="row 0 has no timestamp; pass"):
        rows_to_log([b"k"], [None], layout, first_offset=0)
    with pytest.raises(ValueError, match="1 keys and 2 rows"):
        rows_to_log([b"k"], [None, None], layout, first_offset=0)
    with pytest.raises(TypeError, match="row 0: the key is None"):
        rows_to_log([None], [b""], "plain", first_offset=0)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="not 'odd'"):
        rows_to_log([], [], "odd", first_offset=0)  # type: ignore[arg-type]
    binary = pa.array([b"a", b"b"])
    with pytest.raises(ValueError, match="row 1 has no timestamp"):
        arrow_to_log(binary, binary, pa.array([1, None], pa.int64()), first_offset=0)
    with pytest.raises(ValueError, match="the unit must be milliseconds"):
        arrow_to_log(binary, binary, pa.array([1, 2], pa.timestamp("us")), first_offset=0)
    with pytest.raises(ValueError, match="2 keys, 2 values and 1 timestamps"):
        arrow_to_log(binary, binary, pa.array([1], pa.int64()), first_offset=0)


def test_a_record_without_a_key_is_no_row() -> None:
    records = RecordColumns()
    records.append(9, 0, None, b"v")
    for read in (log_to_rows, log_to_arrow):
        with pytest.raises(FormatError, match="the record at offset 9 has no key"):
            read(records, "plain")
    with pytest.raises(FormatError, match="the record at offset 9 has no key"):
        log_to_packed_rows(records, "plain", 0, 1)
    with pytest.raises(FormatError, match="the record at offset 9 has no key"):
        refuse_null_keys(records)


def test_a_delete_keeps_the_headers_of_its_record_only_where_rows_have_some() -> None:
    headers = [[("h", b"x")]]
    for value_format in formats.FORMATS.values():
        (record,) = to_log(value_format, [b"k"], [None], [5], headers)
        assert record.headers == (headers[0] if value_format.headers else [])
        assert (record.timestamp, record.value) == (5, None)
