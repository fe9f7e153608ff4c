"""The key-value store, in each format and on each engine."""

import datetime as dt
import itertools

import numpy as np
import pytest

from kstore_core import (
    Headers,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    open_state,
    serdes,
    stores,
)
from kstore_core.errors import FormatError, ReadOnlyHeadersError
from kstore_core.typed.key_value import after_prefix


def test_get_gives_what_was_put(store, kind):
    store.put(b"a", kind.wrap(b"1"))
    assert store.get(b"a") == kind.wrap(b"1")
    assert store.get(b"b") is None
    store.put(b"a", kind.wrap(b"2"))
    assert store.get(b"a") == kind.wrap(b"2")


def test_the_parts_may_be_spelled_out(store, kind):
    store.put(b"a", b"1", **kind.beside)
    assert store.get(b"a") == kind.wrap(b"1")


def test_none_deletes(store, kind):
    store.put(b"a", kind.wrap(b"1"))
    store.put(b"a", None)
    store.put(b"never-there", None)
    assert list(store.all()) == []


def test_a_wrapper_around_nothing_deletes(state):
    for factory, nothing in (
        (stores.timestamped_key_value, ValueAndTimestamp.make_allow_nullable(None, 5)),
        (
            stores.timestamped_key_value_with_headers,
            ValueTimestampHeaders.make_allow_nullable(None, 5, [("a", b"1")]),
        ),
    ):
        store = state.open(factory(factory.__name__))
        store.put(b"a", b"1", timestamp=1)
        store.put(b"a", nothing)
        assert store.get(b"a") is None
        store.put(b"a", b"1", timestamp=1)
        store.put_all([(b"a", nothing)])
        assert store.get(b"a") is None


def test_get_many_keeps_the_order_asked_for(store, state, kind):
    for key in (b"a", b"b", b"c"):
        store.put(key, kind.wrap(key))
    state.commit()
    store.put(b"b", None)
    store.put(b"d", kind.wrap(b"d"))
    found = store.get_many([b"d", b"a", b"b", b"x", b"a", b"c"])
    assert found == [kind.wrap(b"d"), kind.wrap(b"a"), None, None, kind.wrap(b"a"), kind.wrap(b"c")]
    assert store.get_many([]) == []
    assert store.get_many(iter([b"a"])) == [kind.wrap(b"a")]


def test_put_if_absent_gives_the_old_value_and_writes_only_without_one(store, kind):
    assert store.put_if_absent(b"a", kind.wrap(b"1")) is None
    assert store.put_if_absent(b"a", kind.wrap(b"2")) == kind.wrap(b"1")
    assert store.put_if_absent(b"b", b"3", **kind.beside) is None
    assert store.put_if_absent(b"c", None) is None
    assert list(store.all()) == [(b"a", kind.wrap(b"1")), (b"b", kind.wrap(b"3"))]


def test_delete_gives_the_old_value(store, kind):
    store.put(b"a", kind.wrap(b"1"))
    assert store.delete(b"a") == kind.wrap(b"1")
    assert store.delete(b"a") is None
    assert store.get(b"a") is None


def test_put_all_takes_pairs_and_mappings(store, kind):
    store.put(b"c", kind.wrap(b"0"))
    store.put_all([(b"a", kind.wrap(b"1")), (b"b", kind.wrap(b"2")), (b"c", None)])
    store.put_all({b"d": kind.wrap(b"4")})
    store.put_all([])
    store.put_all((key, kind.wrap(key)) for key in (b"e", b"e"))
    assert [key for key, _ in store.all()] == [b"a", b"b", b"d", b"e"]


def test_put_all_writes_nothing_where_one_pair_is_wrong(store, kind, state):
    for bad in (
        (None, kind.wrap(b"1")),
        ("text", kind.wrap(b"1")),
        (b"k", kind.wrap("text")),
        (b"k", kind.wrap(5)),
        (b"only-a-key",),
        5,
        None,
    ):
        with pytest.raises((TypeError, ValueError)):
            store.put_all([(b"a", kind.wrap(b"1")), bad])
    assert list(store.all()) == []
    assert state.staged_bytes == 0


def test_put_all_writes_nothing_where_its_source_fails(store, kind):
    def source():
        yield b"a", kind.wrap(b"1")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.put_all(source())
    assert list(store.all()) == []


def test_the_source_of_put_all_may_use_the_store(store, kind):
    def source():
        for key in (b"a", b"b"):
            assert store.get(key) is None
            store.put(b"x" + key, kind.wrap(b"0"))
            yield key, kind.wrap(b"1")

    store.put_all(source())
    assert [key for key, _ in store.all()] == [b"a", b"b", b"xa", b"xb"]


def test_a_null_key_is_refused_everywhere(store, kind):
    for use in (
        lambda: store.get(None),
        lambda: store.get_many([b"a", None]),
        lambda: store.put(None, kind.wrap(b"1")),
        lambda: store.put(None, None),
        lambda: store.put_if_absent(None, kind.wrap(b"1")),
        lambda: store.put_all([(None, kind.wrap(b"1"))]),
        lambda: store.delete(None),
        lambda: store.prefix_scan(None),
    ):
        with pytest.raises(TypeError, match="key cannot be None"):
            use()


def test_a_key_of_another_type_is_refused_everywhere(store, kind):
    for key in ("text", 5, 1.5, [b"a"], ("a",), object()):
        for use, arguments in (
            (store.get, (key,)),
            (store.get_many, ([key],)),
            (store.put, (key, kind.wrap(b"1"))),
            (store.put_all, ([(key, kind.wrap(b"1"))],)),
            (store.delete, (key,)),
            (store.range, (key, None)),
            (store.range, (None, key)),
            (store.prefix_scan, (key,)),
        ):
            with pytest.raises(TypeError):
                use(*arguments)
    assert list(store.all()) == []


def test_a_value_of_another_type_is_refused(store, kind):
    for value in ("text", 5, object(), [b"a"], Headers()):
        with pytest.raises(TypeError):
            store.put(b"a", value, **kind.beside)
        with pytest.raises(TypeError):
            store.put(b"a", kind.wrap(value))
    assert store.get(b"a") is None


def test_another_formats_wrapper_is_no_value(state, kind):
    with_json = state.open(kind.factory("j", value=serdes.JSON))
    for wrapper in (ValueAndTimestamp(b"v", 1), ValueTimestampHeaders(b"v", 1, [])):
        if type(wrapper) is not type(kind.wrap(b"")):
            with pytest.raises(TypeError):
                with_json.put(b"k", wrapper, **kind.beside)


def test_any_bytes_are_a_value_and_empty_is_not_none(store, state, kind):
    for value in (b"", b"\0", b"x" * 100_000, bytes(range(256))):
        store.put(b"k", kind.wrap(value))
        assert store.get(b"k") == kind.wrap(value)
        state.commit()
        assert store.get(b"k") == kind.wrap(value)
        assert list(store.all()) == [(b"k", kind.wrap(value))]


def test_the_empty_key_is_a_key(store, state, kind):
    store.put(b"", kind.wrap(b"1"))
    state.commit()
    store.put(b"\0", kind.wrap(b"2"))
    assert store.get(b"") == kind.wrap(b"1")
    assert [key for key, _ in store.all()] == [b"", b"\0"]
    assert [key for key, _ in store.range(b"", b"")] == [b""]
    assert [key for key, _ in store.prefix_scan(b"")] == [b"", b"\0"]
    assert store.delete(b"") == kind.wrap(b"1")


def test_bytes_like_keys_are_keys(store, kind):
    store.put(bytearray(b"a"), kind.wrap(b"1"))
    assert store.get(memoryview(b"a")) == kind.wrap(b"1")


# Ranges.

KEYS = [b"a", b"a\0", b"a\xff", b"b", b"\xff", b"\xff\xff", b"\xff\xff\x01"]


@pytest.fixture
def filled(store, state, kind):
    """Half of the keys stored, half of them staged."""
    for key in KEYS[::2]:
        store.put(key, kind.wrap(key))
    state.commit()
    for key in KEYS[1::2]:
        store.put(key, kind.wrap(key))
    return store


def keys(scan):
    with scan:
        return [key for key, _ in scan]


ENDS = [None, b"", b"a", b"a\0", b"a\0\0", b"b", b"\xff", b"\xff\xff", b"\xff\xff\xff"]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_is_inclusive_at_both_ends_and_empty_from_high_to_low(filled, kind, reverse):
    for lo, hi in itertools.product(ENDS, ENDS):
        wanted = [key for key in KEYS if (lo is None or lo <= key) and (hi is None or key <= hi)]
        found = list(filled.range(lo, hi, reverse=reverse))
        assert found == [(k, kind.wrap(k)) for k in (reversed(wanted) if reverse else wanted)]


def test_a_prefix_finds_what_begins_with_it(filled):
    for prefix in (b"", b"a", b"a\xff", b"\xff", b"\xff\xff", b"\xff\xff\xff", b"c"):
        wanted = [key for key in KEYS if key.startswith(prefix)]
        assert keys(filled.prefix_scan(prefix)) == wanted
        assert keys(filled.prefix_scan(bytearray(prefix), reverse=True)) == wanted[::-1]


@pytest.mark.parametrize(
    ("prefix", "after"),
    [(b"", None), (b"a", b"b"), (b"a\xff", b"b"), (b"\xff", None), (b"\xff\xff", None),
     (b"\0", b"\1"), (b"a\xff\xff", b"b"), (b"\xfe\xff", b"\xff")],
)  # fmt: skip
def test_what_comes_after_a_prefix(prefix, after):
    assert after_prefix(prefix) == after


def test_all_both_ways(filled):
    assert keys(filled.all()) == KEYS
    assert keys(filled.all(reverse=True)) == KEYS[::-1]


def test_the_count_is_about_right(filled, state):
    assert filled.approximate_num_entries() == len(KEYS)
    state.commit()
    assert filled.approximate_num_entries() == len(KEYS)


def test_a_text_key_is_in_the_order_of_its_bytes(state, kind):
    store = state.open(kind.factory("t", key=serdes.UTF8))
    for key in ("z", "é", "a", "Z", "💡", "\uffff"):
        store.put(key, kind.wrap(b"1"))
    assert keys(store.all()) == sorted(["z", "é", "a", "Z", "💡", "\uffff"], key=str.encode)
    assert keys(store.prefix_scan("é")) == ["é"]
    assert keys(store.range("a", "z")) == ["a", "z"]
    with pytest.raises(TypeError):
        store.get(b"a")


# Times and headers.


TIMED = [stores.timestamped_key_value, stores.timestamped_key_value_with_headers]


@pytest.mark.parametrize("factory", TIMED)
class TestTimes:
    @pytest.fixture
    def timed(self, factory):
        with open_state("x", engine="memory") as state:
            yield state.open(factory("s"))

    @pytest.mark.parametrize("time", [0, -1, 2**63 - 1, -(2**63), np.int64(5), np.int32(7)])
    def test_a_time_is_milliseconds(self, timed, time):
        timed.put(b"a", b"1", timestamp=time)
        assert timed.get(b"a").timestamp == time
        assert type(timed.get(b"a").timestamp) is int

    def test_a_time_may_be_an_aware_datetime(self, timed):
        zone = dt.timezone(dt.timedelta(hours=2))
        timed.put(b"a", b"1", timestamp=dt.datetime(1970, 1, 1, 2, 0, 1, 500_999, zone))
        assert timed.get(b"a").timestamp == 1500

    @pytest.mark.parametrize(
        "time",
        [True, 1.5, "5", b"5", None, 2**63, -(2**63) - 1, dt.datetime(2020, 1, 1)],  # noqa: DTZ001
    )
    def test_anything_else_is_refused(self, timed, time):
        with pytest.raises((TypeError, ValueError)):
            timed.put(b"a", b"1", timestamp=time)
        assert timed.get(b"a") is None

    def test_a_value_that_carries_its_time_takes_none_beside_it(self, timed, factory):
        value = ValueAndTimestamp(b"1", 5)
        if factory is stores.timestamped_key_value_with_headers:
            value = ValueTimestampHeaders(b"1", 5, [])
            with pytest.raises(TypeError, match="a value that already contains them"):
                timed.put(b"a", value, headers=[])
        with pytest.raises(TypeError, match="a value that already contains them"):
            timed.put(b"a", value, timestamp=5)

    def test_a_missing_time_says_what_to_do(self, timed):
        with pytest.raises(TypeError, match="a timestamp is missing: pass timestamp="):
            timed.put(b"a", b"1")
        timed.put(b"a", None)


@pytest.mark.parametrize("beside", [{"timestamp": 5}, {"headers": []}, {"headers": [("a", b"1")]}])
def test_a_plain_store_keeps_neither_times_nor_headers(beside):
    with open_state("x", engine="memory") as state:
        store = state.open(stores.key_value("s"))
        with pytest.raises(TypeError, match="stores neither"):
            store.put(b"a", b"1", **beside)


def test_a_timestamped_store_keeps_no_headers():
    with open_state("x", engine="memory") as state:
        store = state.open(stores.timestamped_key_value("s"))
        with pytest.raises(TypeError, match="stores no headers"):
            store.put(b"a", b"1", timestamp=5, headers=[])


class TestHeaders:
    @pytest.fixture
    def store(self, state):
        return state.open(stores.timestamped_key_value_with_headers("s"))

    def test_headers_keep_their_order_and_repeats(self, store, state):
        for headers in (
            [],
            [("a", b"1"), ("b", b"2"), ("a", b"3")],
            [("a", None), ("a", b"")],
            [("", b"")],
            [("schlüssel", bytes(range(256)))],
            [(f"h{number}", b"v") for number in range(300)],
        ):
            store.put(b"k", b"v", timestamp=1, headers=iter(headers))
            assert list(store.get(b"k").headers) == headers
            state.commit()
            assert list(store.get(b"k").headers) == headers
            (_, record), *_ = store.all()
            assert list(record.headers) == headers

    def test_what_a_store_hands_out_is_read_only(self, store):
        store.put(b"k", b"v", timestamp=1, headers=[("a", b"1")])
        (_, scanned), *_ = store.all()
        for record in (store.get(b"k"), store.get_many([b"k"])[0], scanned, store.delete(b"k")):
            with pytest.raises(ReadOnlyHeadersError):
                record.headers.add("b", b"2")
            with pytest.raises(TypeError):
                record.headers.remove("a")
            copy = record.headers.copy()
            copy.add("b", b"2")
            assert list(copy) == [("a", b"1"), ("b", b"2")]

    def test_what_was_put_is_not_changed_afterwards(self, store):
        headers = Headers([("a", b"1")])
        store.put(b"k", b"v", timestamp=1, headers=headers)
        headers.add("b", b"2")
        assert list(store.get(b"k").headers) == [("a", b"1")]

    def test_what_are_no_headers_is_refused(self, store):
        bad = {"a": b"1"}, [("a", "text")], [(b"a", b"1")], [("a",)], [("a", 5)], 5, "ab"
        for headers in bad:
            with pytest.raises((TypeError, ValueError)):
                store.put(b"k", b"v", timestamp=1, headers=headers)
        assert store.get(b"k") is None

    def test_a_lone_surrogate_cannot_be_encoded(self, store):
        with pytest.raises(FormatError):
            store.put(b"k", b"v", timestamp=1, headers=[("\ud800", b"1")])
        assert store.get(b"k") is None


def test_stored_bytes_of_another_format_are_a_format_error():
    with open_state("x", engine="memory") as state:
        store = state.open(stores.timestamped_key_value_with_headers("s"))
        for raw in (b"", b"\x01", b"\x7f", b"\0" * 8, b"\xff" * 20):
            store.table.put_one(b"k", raw)
            with pytest.raises(FormatError):
                store.get(b"k")
            with pytest.raises(FormatError):
                list(store.all())
            store.put(b"k", None)
        store.table.put_one(b"k", b"\0" * 9)
        assert store.get(b"k") == ValueTimestampHeaders(b"", 0, [])


def test_a_store_says_what_it_is(store, kind, state):
    assert store.name == "s"
    assert store.spec == kind.factory("s")
    assert "'s'" in repr(store)
    assert store.stream_time is None
    assert state.open(kind.factory("s")) is store
