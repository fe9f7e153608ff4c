"""The window store, in each format and on each engine."""

import datetime as dt
import random

import numpy as np
import pytest

from kstore_core import Headers, Windowed, errors, serdes, stores
from kstore_core.testing.kinds import WINDOW
from kstore_core.typed import ReadOnlySessionStore, ReadOnlyWindowStore, WindowStore
from tests.typed.homes import database_of
from tests.typed.kinds import PAIRS, Tagged

MAX_TIME = 2**63 - 1
SIZE = 10  # of the windows of the kinds, ms


@pytest.fixture(params=WINDOW, ids=str)
def kind(request):
    return request.param


@pytest.fixture
def make(state, kind):
    """Opens a window store of the format; 1000 ms are kept, in segments of 100."""

    def make(name="s", retention=1000, interval=100, **more):
        return state.open(kind.spec(name, retention, interval, **more))

    return make


@pytest.fixture
def store(make):
    return make()


@pytest.fixture
def value(kind):
    """What the store takes and gives for bytes."""
    return lambda data, timestamp=7: kind.value(kind.record(data, timestamp, PAIRS))


def starts(scan):
    return [windowed.start for windowed, _ in scan]


# Putting and fetching.


def test_a_window_holds_one_value(store, value):
    assert store.put(b"k", value(b"1"), window_start=5) is None
    store.put(b"k", value(b"2"), window_start=6)
    assert store.fetch_one(b"k", 5) == value(b"1")
    store.put(b"k", value(b"3"), window_start=5)
    assert store.fetch_one(b"k", 5) == value(b"3")
    assert store.fetch_one(b"k", 7) is None
    assert store.fetch_one(b"other", 5) is None
    assert list(store.fetch(b"k", 0, 100)) == [(5, value(b"3")), (6, value(b"2"))]
    store.put(b"k", None, window_start=5)
    store.put(b"never-there", None, window_start=5)
    assert list(store.all()) == [(Windowed(b"k", 6, 16), value(b"2"))]


def test_the_parts_of_a_value_may_be_spelled_out(state):
    plain, timed, full = (
        state.open(factory(factory.__name__, 100, 10))
        for factory in (
            stores.window,
            stores.timestamped_window,
            stores.timestamped_window_with_headers,
        )
    )
    plain.put(b"k", b"v", window_start=1)
    timed.put(b"k", b"v", window_start=1, timestamp=5)
    full.put(b"k", b"v", window_start=1, timestamp=5, headers=PAIRS)
    assert plain.fetch_one(b"k", 1) == b"v"
    assert (timed.fetch_one(b"k", 1).value, timed.fetch_one(b"k", 1).timestamp) == (b"v", 5)
    record = full.fetch_one(b"k", 1)
    assert (record.value, record.timestamp, list(record.headers)) == (b"v", 5, PAIRS)
    with pytest.raises(errors.ReadOnlyHeadersError):
        record.headers.add("more", b"")


@pytest.mark.parametrize(
    ("factory", "more", "text"),
    [
        (stores.window, {"timestamp": 5}, r"stores\.timestamped_window_with_headers"),
        (stores.window, {"headers": []}, r"stores\.timestamped_window_with_headers"),
        (
            stores.timestamped_window,
            {"timestamp": 5, "headers": []},
            r"stores no headers\. Pass none, or",
        ),
        (stores.timestamped_window, {}, "a timestamp is missing"),
        (stores.timestamped_window_with_headers, {}, "a timestamp is missing"),
    ],
)
def test_what_a_format_does_not_keep_is_refused(state, factory, more, text):
    store = state.open(factory("s", 100, 10))
    with pytest.raises(TypeError, match=text):
        store.put(b"k", b"v", window_start=50, **more)
    assert list(store.all()) == []
    assert store.stream_time == -1


def test_the_input_record_lends_its_time_and_headers(state):
    store = state.open(stores.timestamped_window_with_headers("s", 1000, 10))
    with state.record(topic="t", partition=2, offset=9, timestamp=77, headers=PAIRS):
        store.put(b"k", b"v", window_start=70)
        store.put(b"l", b"v", window_start=70, timestamp=1, headers=[])
    record = store.fetch_one(b"k", 70)
    assert (record.timestamp, list(record.headers)) == (77, PAIRS)
    record = store.fetch_one(b"l", 70)
    assert (record.timestamp, list(record.headers)) == (1, [])
    assert store.position == {"t": {2: 9}}


def test_what_comes_too_late_moves_nothing(store, state, value):
    store.put(b"k", value(b"v"), window_start=5000)
    with state.record(topic="t", partition=0, offset=1):
        store.put(b"k", value(b"v"), window_start=3999)
    assert (store.position, store.late, store.stream_time) == ({}, 1, 5000)
    with state.record(topic="t", partition=0, offset=2):
        store.put(b"k", value(b"v"), window_start=4000)
        store.put(b"k", None, window_start=4000)
    assert (store.position, store.late) == ({"t": {0: 2}}, 1)


def test_a_tombstone_moves_stream_time_too(store, value):
    store.put(b"k", value(b"v"), window_start=100)
    store.put(b"k", None, window_start=5000)
    assert store.stream_time == 5000
    assert list(store.all()) == []


def test_keys_and_starts_that_cannot_be_are_refused(store, value):
    uses = {
        "put": lambda key, start: store.put(key, value(b"v"), window_start=start),
        "fetch_one": lambda key, start: store.fetch_one(key, start),
    }
    for use in uses.values():
        with pytest.raises(TypeError, match="key cannot be None"):
            use(None, 5)
        with pytest.raises(ValueError, match="start is -1; it must not be negative"):
            use(b"k", -1)
        for beyond in (2**63, -(2**63) - 1):
            with pytest.raises(ValueError, match="64 bits"):
                use(b"k", beyond)
        for nothing in (None, 5.0, "5", True):
            with pytest.raises(TypeError, match="int milliseconds or an aware datetime"):
                use(b"k", nothing)
        with pytest.raises(ValueError, match="naive"):
            use(b"k", dt.datetime(2020, 1, 1))  # noqa: DTZ001
    with pytest.raises(TypeError, match="key cannot be None"):
        store.fetch(None)
    assert store.fetch_one(b"k", 0) is None
    assert store.stream_time == -1


def test_expired_lookups_check_their_key_too(store, value):
    store.put(b"k", value(b"v"), window_start=5000)
    with pytest.raises(TypeError, match="key cannot be None"):
        store.fetch_one(None, 5)


def test_times_may_be_datetimes(make, value):
    store = make(retention=10**12)
    begin = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    store.put(b"k", value(b"v"), window_start=begin)
    assert store.fetch_one(b"k", begin) == store.fetch_one(b"k", np.int64(1000)) == value(b"v")
    for lo, hi, found in [
        (begin, begin, [1000]),
        (None, begin - dt.timedelta(milliseconds=1), []),
        (begin, None, [1000]),
    ]:
        assert [start for start, _ in store.fetch(b"k", lo, hi)] == found
        assert starts(store.fetch_range(b"k", b"l", lo, hi)) == found
        assert starts(store.fetch_all(lo, hi)) == found


def test_ranges_the_wrong_way_round(store, value):
    store.put(b"k", value(b"v"), window_start=50)
    for fetch in (
        lambda lo, hi: store.fetch(b"k", lo, hi),
        lambda lo, hi: store.fetch_range(b"a", b"z", lo, hi),
        lambda lo, hi: store.fetch_all(lo, hi),
    ):
        with pytest.raises(ValueError, match="from_ts 51 lies after to_ts 50"):
            fetch(51, 50)
        assert list(fetch(-5, -3)) == []
        assert list(fetch(None, -3)) == []
        assert len(list(fetch(-3, MAX_TIME))) == 1
    assert list(store.fetch_range(b"z", b"a", 0, 100)) == []
    assert list(store.fetch_range(b"z", b"a", 0, 100, reverse=True)) == []


def test_scans_go_both_ways_by_segment_then_key(store, value, kind):
    for start in (150, 20, 10, 110):
        for key in (b"b", b"a"):
            store.put(key, value(b"v"), window_start=start)
    found = [(w.key, w.start) for w, _ in store.all()]
    by_time = [(key, start) for start in (10, 20, 110, 150) for key in (b"a", b"b")]
    by_key = [(b"a", 10), (b"a", 20), (b"b", 10), (b"b", 20),
              (b"a", 110), (b"a", 150), (b"b", 110), (b"b", 150)]  # fmt: skip
    assert found == (by_time if kind.time_ordered else by_key)
    by_index = [(w.key, w.start) for w, _ in store.fetch_range(b"a", None)]
    assert by_index == (by_time if kind.time_ordered and not kind.indexed else by_key)
    assert [(w.key, w.start) for w, _ in store.all(reverse=True)] == found[::-1]
    assert [start for start, _ in store.fetch(b"a", reverse=True)] == [150, 110, 20, 10]


def test_serdes_see_the_headers_of_their_record(state):
    spec = stores.timestamped_window_with_headers("s", 100, 10, key=Tagged(), value=Tagged())
    store = state.open(spec)
    store.put("k", "v", window_start=5, timestamp=1)
    [(windowed, record)] = store.all()
    assert windowed == Windowed("k<k,v>", 5, 15)
    assert record.value == "v<k,v>"
    assert store.fetch_one("k", 5).value == "v<k,v>"
    [(start, record)] = store.fetch("k")
    assert (start, record.value) == (5, "v<k,v>")
    assert store.all().to_arrow().column_names == [
        "key", "start", "end", "value", "timestamp", "headers"
    ]  # fmt: skip
    assert store.all().to_arrow()["key"].to_pylist() == ["k<k,v>"]


# Scans.


def test_a_scan_is_an_iterator_that_peeks_and_closes(store, value):
    for start in range(5):
        store.put(b"k", value(b"%d" % start), window_start=start)
    with store.fetch(b"k") as scan:
        assert iter(scan) is scan
        assert scan.peek() == next(scan) == (0, value(b"0"))
        assert scan.peek() == (1, value(b"1"))
    for use in (scan.__next__, scan.peek, scan.to_arrow):
        with pytest.raises(errors.StoreClosedError):
            use()
    empty = store.fetch(b"nothing")
    with pytest.raises(StopIteration):
        empty.peek()
    empty.close()


@pytest.mark.parametrize("committed", [False, True], ids=["staged", "committed"])
def test_a_scan_becomes_an_arrow_table(state, kind, committed):
    spec = kind.spec("s", 1000, 100)
    store = state.open(spec)
    assert store.all().to_arrow().num_rows == 0
    assert store.fetch_range(b"z", b"a").to_arrow().num_rows == 0
    for key, start in ((b"a", 5), (b"b", 105), (b"a", 7)):
        store.put(key, kind.value(kind.record(b"v-" + key, 3, PAIRS)), window_start=start)
    if committed:
        state.commit()
    table = store.all().to_arrow()
    more = ["timestamp"] * kind.format.timestamped + ["headers"] * kind.format.headers
    assert table.column_names == ["key", "start", "end", "value", *more]
    assert table["key"].to_pylist() == [b"a", b"a", b"b"]
    assert table["start"].to_pylist() == [5, 7, 105]
    assert table["end"].to_pylist() == [15, 17, 115]
    assert table["value"].to_pylist() == [b"v-a", b"v-a", b"v-b"]
    scan = store.fetch(b"a")
    next(scan)
    table = scan.to_arrow()
    assert table.column_names == ["start", "value", *more]
    assert table["start"].to_pylist() == [7]
    assert store.all().to_arrow().schema == store.fetch_all(900, 901).to_arrow().schema


def test_damaged_rows_are_named_when_they_are_read(home, kind):
    spec = kind.spec("s", 1000, 100)
    if not kind.format.timestamped:
        pytest.skip("every value is a plain one")
    with home.open() as state:
        store = state.open(spec)
        store.table.put_one(store._keys.make(b"k", 0), b"\x01")
    with home.open() as state:
        store = state.open(spec)
        for read in (lambda: store.fetch_one(b"k", 0), lambda: list(store.all())):
            with pytest.raises(errors.FormatError):
                read()


# Corners of time.


def test_a_window_at_the_end_of_time_ends_with_it(make, value, kind):
    store = make(retention=MAX_TIME, interval=2**62)
    for start in (MAX_TIME, MAX_TIME - SIZE, MAX_TIME - SIZE + 1, MAX_TIME - SIZE - 1, 0):
        store.put(b"k", value(b"v"), window_start=start)
    ends = {windowed.start: windowed.end for windowed, _ in store.all()}
    first = {0: SIZE} if kind.time_ordered else {}
    assert ends == first | {
        MAX_TIME - SIZE - 1: MAX_TIME - 1,
        MAX_TIME - SIZE: MAX_TIME,
        MAX_TIME - SIZE + 1: MAX_TIME,
        MAX_TIME: MAX_TIME,
    }, "and the window from 0 has just expired, or is the first that has not"
    assert store.all().to_arrow()["end"].to_pylist() == list(ends.values())
    assert store.fetch_one(b"k", MAX_TIME) == value(b"v")
    assert [start for start, _ in store.fetch(b"k", MAX_TIME, MAX_TIME)] == [MAX_TIME]


def test_enormous_times_expire_what_lies_before(store, state, value):
    for start in range(0, 1000, 100):
        store.put(b"k", value(b"v"), window_start=start)
    state.commit()
    store.put(b"k", value(b"late"), window_start=MAX_TIME)
    assert starts(store.all()) == [MAX_TIME]
    store.put(b"k", value(b"late"), window_start=950)
    assert store.late == 1
    state.commit()
    assert starts(store.all()) == [MAX_TIME]
    assert store.table.segments == (MAX_TIME // 100,)


def test_a_window_of_no_size_ends_where_it_starts(state):
    store = state.open(stores.window("s", 100, 0))
    store.put(b"k", b"v", window_start=5)
    assert list(store.all()) == [(Windowed(b"k", 5, 5), b"v")]


def test_no_retention_keeps_no_window_in_sight_for_long(state):
    store = state.open(stores.window("s", 0, 0, segment_interval_ms=1))
    store.put(b"k", b"v", window_start=5)
    assert store.fetch_one(b"k", 5) is None, "seen while later than stream time less nothing"
    store.put(b"k", b"v", window_start=4)
    assert store.late == 1


# Corners of size.


def test_out_of_order_over_many_segments(home, kind):
    spec = kind.spec("s", 70 * 100, 100)
    order = list(range(0, 70 * 100, 50))
    random.Random(4).shuffle(order)
    with home.open() as state:
        store = state.open(spec)
        for number, start in enumerate(order):
            store.put(b"k%d" % (start % 3), kind.value(kind.record(b"v", 1)), window_start=start)
            if number % 90 == 0:
                state.commit({("t", 0): number})
        state.commit()
        assert len(store.table.segments) == 70
        assert sorted(starts(store.all())) == sorted(order)
    with home.open() as state:
        store = state.open(spec)
        for reverse in (False, True):
            found = [start for start, _ in store.fetch(b"k0", reverse=reverse)]
            assert found == sorted((s for s in order if s % 3 == 0), reverse=reverse)
        assert sorted(starts(store.fetch_all(4_990, 5_110))) == [5_000, 5_050, 5_100]
        assert store.late == 0


def test_many_duplicates_of_one_window(home, kind):
    spec = kind.spec("s", 1000, 100, duplicates=True)
    values = [kind.value(kind.record(b"%d" % number, number)) for number in range(10_000)]
    with home.open() as state:
        store = state.open(spec)
        for value in values[:6000]:
            store.put(b"k", value, window_start=5)
    with home.open() as state:
        store = state.open(spec)
        for value in values[6000:]:
            store.put(b"k", value, window_start=5)
        assert [value for _, value in store.fetch(b"k", 5, 5)] == values
        assert [value for _, value in store.fetch(b"k", reverse=True)] == values[::-1]


def test_empty_keys_are_keys(store, value):
    for key in (b"", b"\x00", b"\x00" * 12):
        store.put(key, value(key), window_start=5)
    assert store.fetch_one(b"", 5) == value(b"")
    assert list(store.fetch(b"")) == [(5, value(b""))]
    assert [w.key for w, _ in store.fetch_range(None, b"")] == [b""]
    assert len(list(store.fetch_range(b"", None))) == 3


def test_a_long_key_is_held_or_refused_before_anything_is_written(store, state, value, engine):
    long = b"k" * 65_536
    if engine == "lmdb":
        with pytest.raises(errors.KeyTooLongError, match=r"511|bytes"):
            store.put(long, value(b"v"), window_start=5000)
        assert (store.stream_time, list(store.all())) == (-1, [])
        assert store.fetch_one(long, 0) is None
        return
    store.put(long, value(b"v"), window_start=5)
    store.put(long[:-1], value(b"w"), window_start=5)
    state.commit()
    assert store.fetch_one(long, 5) == value(b"v")
    assert list(store.fetch(long)) == [(5, value(b"v"))]
    found = store.fetch_range(long[:-1], long)
    assert sorted(len(windowed.key) for windowed, _ in found) == [65_535, 65_536]


# Duplicates.


def test_duplicates_are_kept_in_their_order(make, value):
    store = make(duplicates=True)
    for number in range(3):
        store.put(b"k", value(b"%d" % number), window_start=5)
        store.put(b"l", value(b"x"), window_start=5)
    store.put(b"k", None, window_start=5)
    store.put(b"k", None, window_start=900)
    assert store.stream_time == 5, "a null adds nothing, and nothing moves"
    assert list(store.fetch(b"k", 5, 5)) == [(5, value(b"%d" % n)) for n in range(3)]
    with pytest.raises(errors.UnsupportedError, match=r"fetch\(key, window_start, window_start\)"):
        store.fetch_one(b"k", 5)


def test_the_first_number_is_kafkas(home, kind):
    spec = kind.spec("s", 1000, 100, duplicates=True)
    with home.open() as state:
        store = state.open(spec)
        store.put(b"k", kind.value(kind.record(b"v", 1)), window_start=5)
        store.put(b"l", kind.value(kind.record(b"v", 1)), window_start=5)
        numbers = [
            int.from_bytes(key[-4:], "big")
            for keys, _ in store._keys.schema.fetch(100, None, None, 0, 99).scan(store.table)
            for key in keys
        ]
    assert numbers == [1, 2]


def test_a_failed_put_moves_no_stream_time(home, kind):
    with home.open(transactional=True, uncommitted_max_bytes=300) as state:
        store = state.open(kind.spec("s", 1000, 100))
        store.put(b"k", kind.value(kind.record(b"v", 1)), window_start=5)
        with pytest.raises(errors.UncommittedLimitError):
            store.put(b"k", kind.value(kind.record(b"v" * 400, 1)), window_start=5000)
        assert store.stream_time == 5
        assert starts(store.all()) == [5]


# The store.


def test_it_says_what_it_is(store):
    assert isinstance(store, WindowStore)
    assert isinstance(store, ReadOnlyWindowStore)
    assert not isinstance(store, ReadOnlySessionStore)
    assert repr(store).startswith("<WindowStore 's' (")
    assert (store.name, store.stream_time, store.late) == ("s", -1, 0)


def test_after_close_everything_says_so(home, kind):
    with home.open() as state:
        store = state.open(kind.spec("s", 1000, 100))
        value = kind.value(kind.record(b"v", 1))
        for start in range(900):
            store.put(b"k", value, window_start=start)
        scan = store.all()
        next(scan)
    for use in (
        lambda: store.put(b"k", value, window_start=1),
        lambda: store.fetch_one(b"k", 1),
        lambda: list(store.fetch(b"k")),
        lambda: list(store.all()),
        lambda: list(scan),
    ):
        with pytest.raises(errors.StoreClosedError):
            use()


def test_a_read_only_store_refuses_to_be_written(home, kind):
    spec = kind.spec("s", 1000, 100)
    value = kind.value(kind.record(b"v", 1))
    with home.open() as state:
        state.open(spec).put(b"k", value, window_start=5)
    with home.open(read_only=True) as state:
        store = state.open(spec)
        for start in (5, 6, 500, 5000):
            with pytest.raises(errors.UnsupportedError, match="read_only"):
                store.put(b"k", value, window_start=start)
        assert (store.stream_time, list(store.fetch(b"k"))) == (5, [(5, value)])


def test_text_keys_and_json_values(state):
    spec = stores.timestamped_window("s", 1000, 10, key=serdes.UTF8, value=serdes.JSON)
    store = state.open(spec)
    store.put("straße", {"n": [1]}, window_start=5, timestamp=6)
    [(windowed, record)] = store.fetch_range("straße", "straße")
    assert (windowed, record.value) == (Windowed("straße", 5, 15), {"n": [1]})


def test_rows_lie_where_kafka_puts_them(home, kind):
    spec = kind.spec("s", 1000, 100)
    with home.open() as state:
        state.open(spec).put(b"A", kind.value(kind.record(b"v", 1)), window_start=10)
    if home.engine == "rocksdb":
        assert (home.path / "s" / "s.0" / "CURRENT").exists()
        return
    with database_of(home, "s") as database:
        [keys, _] = next(database.namespace(kind.format.namespace).scan())
    wanted = ["41 000000000000000a 00000000"]
    if kind.time_ordered:
        wanted = ["00 000000000000000a 41 00000000", "01 41 000000000000000a 00000000"]
    if not kind.indexed:
        wanted = wanted[:1]
    assert keys == [bytes(8) + bytes.fromhex(row) for row in wanted]


def test_headers_objects_are_stored_as_they_are(state):
    store = state.open(stores.timestamped_window_with_headers("s", 1000, 10))
    headers = Headers([("a", b"1")])
    store.put(b"k", b"v", window_start=5, timestamp=1, headers=headers)
    headers.add("later", b"")
    assert list(store.fetch_one(b"k", 5).headers) == [("a", b"1")]
