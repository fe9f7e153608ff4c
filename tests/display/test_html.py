"""What notebooks show: escaped, shortened, never raising, and no more read than is shown."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import Headers, ValueTimestampHeaders, codec, open_state, serdes, stores
from kstore_core.display import html
from kstore_core.errors import FormatError
from kstore_core.spark import Manifest
from kstore_core.spark.root.manifest import Shard
from kstore_core.types import (
    AggregationWithHeaders,
    ValueAndTimestamp,
    VersionedRecord,
    VersionedRecordWithHeaders,
    Windowed,
)

EVIL = "<script>alert('&\"')</script>"
TAGS = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "code", "span", "br"}


class Reader(HTMLParser):
    """The tags and the text of a piece of HTML; a tag left open, or not known, fails."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.texts: list[str] = []
        self.lines = 0
        self.feed(markup)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        assert {name for name, _ in attrs} <= {"class", "style", "colspan"}
        self.lines += tag == "tr"
        if tag != "br":
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def shown(thing) -> Reader:
    return Reader(thing._repr_html_())


RECORDS = [
    ValueAndTimestamp(EVIL, 1_421_334_000_000),
    ValueTimestampHeaders(EVIL, -1, [(EVIL, EVIL.encode())]),
    AggregationWithHeaders({EVIL: [EVIL]}, [(EVIL, None)]),
    VersionedRecord(EVIL, 0, None),
    VersionedRecordWithHeaders(EVIL, 0, 10**18, [(EVIL, b"")]),
    Windowed(EVIL, 0, 10),
    Headers([(EVIL, EVIL.encode())]),
    codec.LogRecord(7, 0, EVIL.encode(), None, [(EVIL, None)]),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_what_a_record_holds_is_escaped(record):
    there = shown(record)
    assert type(record).__name__ in there.texts
    assert "alert(" in there.text
    assert "<script" not in record._repr_html_()


def test_times_are_spelled_out():
    text = shown(VersionedRecord(1.5, 1_421_334_000_001, None)).text
    assert "2015-01-15T15:00:00.001Z  (1421334000001)" in text
    assert "still valid" in text
    assert "unknown" in shown(ValueAndTimestamp(1, -1)).text
    assert "1000000000000000000 ms" in shown(VersionedRecord(1.5, 0, 10**18)).text


def test_a_huge_value_is_told_by_its_length():
    there = shown(ValueTimestampHeaders(b"x" * 5_000_000, 0, [("a", b"y" * 70_000)]))
    assert f"{b'x' * 32!r}… (5,000,000 bytes)" in there.text
    assert "(70,000 bytes)" in there.text
    assert len(ValueAndTimestamp("x" * 10**6, 0)._repr_html_()) < 1_000


def test_many_headers_are_cut():
    there = shown(Headers([("n", b"%d" % n) for n in range(1000)]))
    assert there.lines == 1 + html.ROWS + 1
    assert "… and more" in there.text
    assert "none" in shown(Headers()).text


def test_headers_that_cannot_be_decoded_are_told_so():
    record = codec.decode_value_timestamp_headers(b"\x04\x02\x09\x00" + bytes(8) + b"v")
    broken = ValueTimestampHeaders(*record)
    with pytest.raises(FormatError):
        len(broken.headers)
    assert "malformed" in shown(broken).text
    assert "malformed" in shown(broken.headers).text


class Watched(list):
    """A list that knows how far it has been read."""

    def __init__(self, *items):
        super().__init__(*items)
        self.read = 0

    def __iter__(self):
        for item in super().__iter__():
            self.read += 1
            yield item


class Silent:
    def __repr__(self):
        raise RuntimeError("<no> repr")


def test_no_more_is_read_than_is_shown():
    values = Watched(range(10**6))
    assert "… 999,994 more]" in html.short(values)
    assert values.read <= 7


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (2.5, "2.5"),
        (1 << 16609, "<int of 16610 bits>"),
        (memoryview(b"abc"), "<memoryview of 3 bytes>"),
        ([[[[1]]]], "[[[[… 1 more]]]]"),
        ({"a": (1, {2})}, "{'a': (1, {2})}"),
        (frozenset(), "{}"),
        ("\u202eevil", "'\\u202eevil'"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_values_are_short(value, text):
    assert html.short(value) == text


def test_what_has_no_repr_does_not_stop_a_page():
    assert shown(ValueAndTimestamp(Silent(), 0)).text == (
        "ValueAndTimestamp cannot be shown: RuntimeError: <no> repr"
    )


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
)


@given(ANYTHING, st.integers(-(2**63), 2**63 - 1), st.lists(st.tuples(st.text(), st.binary())))
def test_any_record_gives_small_whole_html(value, time, headers):
    headers = [(key.encode("utf-8", "replace").decode(), data) for key, data in headers]
    there = ValueTimestampHeaders(value, time, headers)._repr_html_()
    Reader(there)
    assert len(there) < 25_000


@pytest.fixture
def state(tmp_path):
    with open_state(tmp_path / EVIL.replace("/", "_"), engine="lmdb") as state:
        yield state


def test_an_open_store_shows_its_first_rows_and_a_closed_one_reads_nothing(state):
    store = state.open(stores.key_value("orders", key=serdes.UTF8, value=serdes.JSON))
    assert "empty" in shown(store).text
    for number in range(html.ROWS + 5):
        store.put(f"{EVIL}{number:02d}", {"total": number})
    state.commit({(EVIL, 0): 41})
    there = shown(store)
    assert "KeyValueStore orders" in there.texts
    assert "key_value" in there.text
    assert f"{EVIL}-0: 41" in there.text
    assert "{'total': 9}" in there.text
    assert "{'total': 10}" not in there.text
    assert "… and more" in there.text
    state.close()
    there = shown(store)
    assert "no: closed" in there.text
    assert "total" not in there.text


def test_every_shape_shows_its_own_columns(state):
    rates = state.open(stores.versioned_key_value_with_headers("rates", 10**9, key=serdes.UTF8))
    rates.put("CHF", b"1.2", timestamp=1_421_334_000_000, headers=[("source", b"ECB")] * 5)
    windows = state.open(stores.timestamped_window("w", 10**9, 1000, key=serdes.UTF8))
    windows.put("a", ValueAndTimestamp(b"1", 5), window_start=0)
    sessions = state.open(stores.session_with_headers("s", 10**9, key=serdes.UTF8))
    sessions.put(Windowed("a", 3, 9), AggregationWithHeaders(b"1", []))
    there = shown(rates)
    assert {"key", "value", "timestamp", "valid_to", "headers"} <= set(there.texts)
    assert "… 2 more" in there.text
    assert "2015-01-15T15:00:00Z" in there.text
    assert {"start", "end", "timestamp"} <= set(shown(windows).texts)
    assert {"start", "end", "aggregation"} <= set(shown(sessions).texts)


def test_a_row_that_cannot_be_read_leaves_the_rest(state):
    raw = state.open(stores.key_value("numbers", key=serdes.UTF8))
    raw.put("a", b"no number")
    state.commit()
    path = state.path
    state.close()
    with open_state(path, read_only=True) as again:
        store = again.open(stores.key_value("numbers", key=serdes.UTF8, value=serdes.INT64))
        there = shown(store)
    assert "read-only" in there.text
    assert "KeyValueStore cannot be shown: SerdeFormatError" in there.text


def test_a_state_directory_tells_its_stores_and_opens_none(state):
    state.open(stores.key_value("one"))
    store = state.open(stores.session("two", 1000))
    store.put(Windowed(b"k", 0, 1), b"value")
    there = shown(state)
    assert {"one", "two", "session", "lmdb"} <= set(there.texts)
    assert not re.search(r"not committed\s+0 bytes", there.text)
    path = state.path
    state.commit()
    state.close()
    assert "no: closed" in shown(state).text
    with open_state(path) as again:
        there = shown(again)
        assert {"one", "two", "no"} <= set(there.texts)
        assert not again._stores


def test_a_description_tells_what_is_set():
    text = shown(stores.window(EVIL[8:13], 86_400_000, 1000)).text
    assert "1 d  (86,400,000 ms)" in text
    assert "1 s  (1,000 ms)" in text
    assert "7,001 ms" in shown(stores.window("w", 86_400_000, 7001)).text
    assert "history" not in text


def test_a_manifest_tells_its_shards():
    spec = stores.versioned_key_value("rates", 1000).describe()
    shards = tuple(Shard(n, rows=n, records=n, stream_time=n - 1) for n in range(30))
    there = shown(Manifest(3, 0, EVIL, "append", EVIL, 30, spec, shards))
    assert "Version 3" in there.texts
    assert "1970-01-01T00:00:00Z" in there.text
    assert "none yet" in there.text
    assert there.lines == 8 + 1 + html.ROWS + 1


def test_a_thing_of_another_kind_is_told_so():
    from kstore_core.display.reprs import store_html

    assert (
        "SimpleNamespace cannot be shown: AttributeError"
        in Reader(store_html(SimpleNamespace())).text
    )
