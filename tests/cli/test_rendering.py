import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from kstore_core import Headers, serdes
from kstore_core.cli.output.rendering import (
    decoded,
    format_duration,
    format_headers,
    format_time,
    format_value,
    json_headers,
    json_text,
    json_value,
    printable,
)


@pytest.mark.parametrize(
    ("data", "as_json", "as_text"),
    [
        (b"abc", "abc", "abc"),
        (b"", "", '""'),
        ("Zürich €".encode(), "Zürich €", "Zürich €"),
        (b"\x00\xff", {"hex": "00ff"}, "0x00ff"),
        (b"a\x1b[31m", {"hex": "611b5b33316d"}, "0x611b5b33316d"),
        (b"line\n", {"hex": "6c696e650a"}, "0x6c696e650a"),
        ("a\u202eb".encode(), {"hex": "61e280ae62"}, "0x61e280ae62"),
    ],
)
def test_bytes_are_text_where_all_of_it_can_be_shown(data, as_json, as_text):
    assert json_value(data) == as_json
    assert format_value(data) == as_text


@pytest.mark.parametrize(
    ("value", "as_json", "as_text"),
    [
        (Decimal("1.50"), "1.50", "1.50"),
        (date(2020, 1, 2), "2020-01-02", "2020-01-02"),
        (datetime(2020, 1, 2, tzinfo=UTC), "2020-01-02T00:00:00Z", "2020-01-02T00:00:00Z"),
        (True, True, "true"),
        (
            {"a": [Decimal("1.5"), None], "raw": b"\xff", "at": {date(2020, 1, 2): 1, 5: 2}},
            {"a": ["1.5", None], "raw": {"hex": "ff"}, "at": {"2020-01-02": 1, "5": 2}},
            '{"a": ["1.5", null], "raw": {"hex": "ff"}, "at": {"2020-01-02": 1, "5": 2}}',
        ),
    ],
)
def test_typed_values_are_shown(value, as_json, as_text):
    assert json_value(value) == as_json
    assert json_text(as_json)
    assert format_value(value) == as_text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain", "plain"),
        ("tab\t", "tab\\x09"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp", "\\u202egnp"),
        ("\u2028", "\\u2028"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("naïve 漢字 🙂", "naïve 漢字 🙂"),
    ],
)
def test_what_a_terminal_would_act_upon_is_escaped(text, escaped):
    assert printable(text) == escaped


def test_json_is_one_line_of_ascii():
    line = json_text({"value": "é\x9b\n"})
    assert line == '{"value": "\\u00e9\\u009b\\n"}'
    assert json.loads(line) == {"value": "é\x9b\n"}


@pytest.mark.parametrize(
    ("value", "word"), [(math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN")]
)
def test_numbers_that_json_cannot_hold_are_words(value, word):
    assert json_value(value) == word
    json_text(json_value(value))


def test_values_for_people():
    assert format_value(None) == "null"
    assert format_value(1.5) == "1.5"
    assert format_value("a\nb") == "a\\x0ab"
    assert format_value({"total": 12, "name": "é"}) == '{"total": 12, "name": "é"}'


def test_headers_keep_order_repeats_and_null():
    headers = Headers([("b", b"1"), ("a", None), ("b", b"\xff")])
    assert json_headers(headers) == [["b", "1"], ["a", None], ["b", {"hex": "ff"}]]
    assert format_headers(headers) == "b=1  a=null  b=0xff"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_421_334_000_000, "2015-01-15T15:00:00Z"),
        (1_421_334_000_001, "2015-01-15T15:00:00.001Z"),
        (-1, "unknown"),
        (2**62, f"{2**62} ms"),
        (None, ""),
    ],
)
def test_times(milliseconds, text):
    assert format_time(milliseconds) == text


def test_what_a_serde_cannot_read_stays_bytes():
    assert decoded(serdes.FLOAT64.encode(1.5), serdes.FLOAT64) == 1.5
    assert decoded(b"123", serdes.FLOAT64) == b"123"
    assert decoded(b"\xff", serdes.UTF8) == b"\xff"
    assert decoded(b"{", serdes.JSON) == b"{"
    assert decoded(None, serdes.JSON) is None


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0ms"), (1, "1ms"), (1500, "1500ms"), (60_000, "1m"), (90_000, "90s"),
     (3_600_000, "1h"), (40 * 86_400_000, "40d")],
)  # fmt: skip
def test_durations_are_shown_as_they_may_be_typed(milliseconds, text):
    assert format_duration(milliseconds) == text
