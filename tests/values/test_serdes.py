"""Serdes: Kafka's bytes for the built-in ones, and StateSerdes under Kafka's names."""

import datetime as dt
import json
import math
import pickle
import struct
import warnings

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import Headers, serdes
from kstore_core.errors import FormatError, SpecError
from kstore_core.serdes import Serde, StateSerdes

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
VALUES = {
    serdes.BYTES: st.binary(),
    serdes.UTF8: TEXT,
    serdes.JSON: JSON_VALUES,
    serdes.INT32: st.integers(-(2**31), 2**31 - 1),
    serdes.INT64: st.integers(-(2**63), 2**63 - 1),
    serdes.FLOAT64: st.floats(allow_nan=False),
    serdes.BOOLEAN: st.booleans(),
    serdes.DATE: st.dates(),
    serdes.TIMESTAMP: st.datetimes(timezones=st.just(dt.UTC)),
}
NAIVE = dt.datetime(2020, 1, 1)  # noqa: DTZ001 - what is refused
EAST = dt.timezone(dt.timedelta(hours=2))
ALL = list(serdes.BUILT_IN.values())


@pytest.mark.parametrize("serde", ALL)
@settings(deadline=None)
@given(data=st.data())
def test_a_value_reads_back(serde, data):
    value = data.draw(VALUES[serde])
    raw = serde.serialize(value, Headers())
    assert type(raw) is bytes
    assert serde.deserialize(raw, Headers()) == value


@pytest.mark.parametrize(
    ("serde", "value", "raw"),
    [
        (serdes.UTF8, "é", "c3a9"),
        (serdes.INT32, 1, "00000001"),
        (serdes.INT32, -1, "ffffffff"),
        (serdes.INT64, 1, "0000000000000001"),
        (serdes.INT64, -2, "fffffffffffffffe"),
        (serdes.FLOAT64, 1.0, "3ff0000000000000"),
        (serdes.JSON, {"b": [1, None], "a": "é"}, b'{"b":[1,null],"a":"\xc3\xa9"}'.hex()),
        (serdes.BYTES, b"\x00", "00"),
        (serdes.BOOLEAN, True, "01"),
        (serdes.BOOLEAN, False, "00"),
        (serdes.DATE, dt.date(1970, 1, 2), "00000001"),
        (serdes.DATE, dt.date(1969, 12, 31), "ffffffff"),
        (serdes.DATE, dt.date(1, 1, 1), "fff506c6"),
        (serdes.TIMESTAMP, dt.datetime(1970, 1, 1, 2, 0, 0, 1, EAST), "0000000000000001"),
        (
            serdes.TIMESTAMP,
            dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
            "fffffffffff0bdc0",
        ),
    ],
)
def test_the_bytes_are_kafkas(serde, value, raw):
    assert serde.serialize(value, Headers()).hex() == raw


def test_nan_is_a_float():
    assert math.isnan(serdes.FLOAT64.deserialize(serdes.FLOAT64.serialize(math.nan)))


@pytest.mark.parametrize("value", [bytearray(b"ab"), memoryview(b"ab")])
def test_bytes_takes_anything_that_is_bytes(value):
    assert serdes.BYTES.serialize(value) == b"ab"


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (serdes.BYTES, "text"),
        (serdes.BYTES, 5),
        (serdes.BYTES, [1, 2]),
        (serdes.UTF8, b"bytes"),
        (serdes.UTF8, 5),
        (serdes.UTF8, "\ud800"),
        (serdes.JSON, {1, 2}),
        (serdes.JSON, b"bytes"),
        (serdes.JSON, math.nan),
        (serdes.JSON, math.inf),
        (serdes.INT32, 2**31),
        (serdes.INT32, "5"),
        (serdes.INT32, 1.5),
        (serdes.INT64, -(2**63) - 1),
        (serdes.INT64, b"5"),
        (serdes.FLOAT64, "1.5"),
        (serdes.FLOAT64, 10**400),
        (serdes.BOOLEAN, 1),
        (serdes.BOOLEAN, "true"),
        (serdes.BOOLEAN, None),
        (serdes.DATE, "2020-01-01"),
        (serdes.DATE, NAIVE),
        (serdes.DATE, None),
        (serdes.TIMESTAMP, dt.date(2020, 1, 1)),
        (serdes.TIMESTAMP, NAIVE),
        (serdes.TIMESTAMP, 5),
        (serdes.TIMESTAMP, None),
    ],
)
def test_what_a_serde_cannot_hold_is_refused(serde, value):
    with pytest.raises((TypeError, ValueError)):
        serde.serialize(value, Headers())


@pytest.mark.parametrize(
    ("serde", "raw"),
    [
        (serdes.UTF8, b"\xff"),
        (serdes.JSON, b""),
        (serdes.JSON, b"{"),
        (serdes.JSON, b"\xff"),
        (serdes.JSON, b"1 2"),
        (serdes.JSON, b"[" * 100_000),
        (serdes.INT32, b""),
        (serdes.INT32, b"12345"),
        (serdes.INT64, b"1234"),
        (serdes.FLOAT64, b"123456789"),
        (serdes.BOOLEAN, b""),
        (serdes.BOOLEAN, b"\x02"),
        (serdes.BOOLEAN, b"\x01\x01"),
        (serdes.DATE, b"123"),
        (serdes.DATE, b"\x7f\xff\xff\xff"),
        (serdes.DATE, b"\x80\x00\x00\x00"),
        (serdes.TIMESTAMP, b"1234"),
        (serdes.TIMESTAMP, b"\x7f" + 7 * b"\xff"),
        (serdes.TIMESTAMP, b"\x80" + 7 * b"\x00"),
    ],
    ids=lambda given: repr(given)[:20],
)
def test_bytes_that_a_serde_did_not_write_are_a_format_error(serde, raw):
    with pytest.raises(FormatError):
        serde.deserialize(raw, Headers())


@pytest.mark.parametrize("serde", ALL)
def test_a_built_in_serde_is_found_by_name_and_pickled_by_it(serde):
    assert serdes.by_name(serde.name) is serde
    assert pickle.loads(pickle.dumps(serde)) is serde
    assert repr(serde) == f"serdes.{serde.name.upper()}"
    assert isinstance(serde, Serde)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(SpecError, match=r"no built-in serde 'utf9'.*bytes.*float64"):
        serdes.by_name("utf9")


@pytest.mark.parametrize(
    ("serde", "arrow_type"),
    [
        (serdes.BYTES, pa.binary()),
        (serdes.UTF8, pa.string()),
        (serdes.JSON, pa.string()),
        (serdes.INT32, pa.int32()),
        (serdes.INT64, pa.int64()),
        (serdes.FLOAT64, pa.float64()),
        (serdes.BOOLEAN, pa.bool_()),
        (serdes.DATE, pa.date32()),
        (serdes.TIMESTAMP, pa.timestamp("us", "UTC")),
        (serdes.decimal(10, 2), pa.decimal128(10, 2)),
    ],
)
def test_columns_have_the_type_of_their_values(serde, arrow_type):
    assert serde.arrow_type == arrow_type


class Tagging:
    """Adds a header when it writes and reads it back."""

    name = "tagging"
    arrow_type = pa.string()

    def serialize(self, value, headers):
        headers.add("seen", value.encode())
        return value.encode()

    def deserialize(self, data, headers):
        return data.decode(), headers.value("seen")


@pytest.mark.parametrize(
    ("serde", "value", "message"),
    [
        (
            serdes.DATE,
            NAIVE,
            r"takes datetime.date, not datetime; pass value.date",
        ),
        (serdes.TIMESTAMP, NAIVE, r"aware datetime, not the naive .*pass tzinfo"),
        (serdes.BOOLEAN, 1, r"serdes.BOOLEAN takes bool, not int"),
    ],
)
def test_errors_say_what_to_pass(serde, value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        serde.serialize(value)


def test_state_serdes_pass_the_headers_on():
    both = StateSerdes(Tagging(), Tagging())
    headers = Headers()
    assert both.raw_key("k", headers) == b"k"
    assert both.raw_value("v", headers) == b"v"
    assert list(headers) == [("seen", b"k"), ("seen", b"v")]
    assert both.key_from(b"k", headers) == ("k", b"v")
    assert both.value_from(b"v", headers) == ("v", b"v")


@pytest.mark.parametrize("method", ["raw_key", "raw_value", "key_from", "value_from"])
def test_without_headers_they_are_deprecated(method):
    both = StateSerdes(serdes.BYTES, serdes.BYTES)
    with pytest.warns(DeprecationWarning, match=rf"StateSerdes\.{method}.*KIP-1271") as caught:
        assert getattr(both, method)(b"x") == b"x"
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert getattr(both, method)(b"x", Headers()) == b"x"


def test_json_is_what_the_json_module_reads():
    raw = serdes.JSON.serialize({"a": 1.5})
    assert json.loads(raw) == {"a": 1.5}


def test_numbers_are_big_endian():
    assert serdes.INT64.serialize(258) == struct.pack(">q", 258)
