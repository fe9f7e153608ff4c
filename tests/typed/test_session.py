"""The session store, with and without headers, on each engine."""

import datetime as dt
import random

import pytest

from kstore_core import AggregationWithHeaders, Windowed, errors, serdes, stores
from kstore_core.testing.kinds import SESSION
from kstore_core.typed import ReadOnlySessionStore, ReadOnlyWindowStore, SessionStore
from tests.typed.homes import database_of
from tests.typed.kinds import PAIRS, Tagged

MAX_TIME = 2**63 - 1


@pytest.fixture(params=SESSION, ids=str)
def kind(request):
    return request.param


@pytest.fixture
def make(state, kind):
    """Opens a session store of the format; 1000 ms are kept, in segments of 100."""
    return lambda name="s", retention=1000, interval=100: state.open(
        kind.spec(name, retention, interval)
    )


@pytest.fixture
def store(make):
    return make()


@pytest.fixture
def value(kind):
    """What the store takes and gives for bytes."""
    return lambda data: kind.value(kind.record(data, 0, PAIRS))


def spans(scan):
    return [(windowed.start, windowed.end) for windowed, _ in scan]


# Putting and finding.


def test_a_session_holds_one_aggregate(store, value):
    session = Windowed(b"k", 5, 20)
    assert store.put(session, value(b"1")) is None
    store.put(session, value(b"2"))
    store.put(Windowed(b"k", 5, 21), value(b"3"))
    assert store.fetch_session(b"k", 5, 20) == value(b"2")
    assert store.fetch_session(b"k", 6, 20) is None
    assert store.fetch_session(b"other", 5, 20) is None
    assert list(store.fetch(b"k")) == [(session, value(b"2")), (Windowed(b"k", 5, 21), value(b"3"))]
    assert store.remove(session) is None
    store.remove(Windowed(b"never-there", 5, 20))
    store.put(Windowed(b"k", 5, 21), None)
    assert list(store.fetch_range(None, None)) == []


def test_the_parts_of_an_aggregate_may_be_spelled_out(state):
    store = state.open(stores.session_with_headers("s", 100))
    store.put(Windowed(b"k", 1, 2), b"v", headers=PAIRS)
    record = store.fetch_session(b"k", 1, 2)
    assert record == AggregationWithHeaders(b"v", PAIRS)
    with pytest.raises(errors.ReadOnlyHeadersError):
        record.headers.add("more", b"")
    store.put(Windowed(b"k", 1, 2), AggregationWithHeaders.make_allow_nullable(None, PAIRS))
    assert store.fetch_session(b"k", 1, 2) is None
    with pytest.raises(TypeError, match="a value that already contains them"):
        store.put(Windowed(b"k", 1, 2), record, headers=PAIRS)
    with pytest.raises(TypeError, match=r"a spec from stores\.session_with_headers"):
        state.open(stores.session("p", 100)).put(Windowed(b"k", 1, 2), b"v", headers=PAIRS)


def test_the_input_record_lends_its_headers(state):
    store = state.open(stores.session_with_headers("s", 1000))
    with state.record(topic="t", partition=2, offset=9, timestamp=77, headers=PAIRS):
        store.put(Windowed(b"k", 1, 2), b"v")
        store.put(Windowed(b"l", 1, 2), b"v", headers=[])
    assert list(store.fetch_session(b"k", 1, 2).headers) == PAIRS
    assert list(store.fetch_session(b"l", 1, 2).headers) == []
    assert store.position == {"t": {2: 9}}


def test_what_comes_too_late_moves_nothing(store, state, value):
    store.put(Windowed(b"k", 0, 5000), value(b"v"))
    with state.record(topic="t", partition=0, offset=1):
        store.put(Windowed(b"k", 0, 3999), value(b"v"))
        store.remove(Windowed(b"k", 0, 3999))
    assert (store.position, store.late, store.stream_time) == ({}, 2, 5000)
    with state.record(topic="t", partition=0, offset=2):
        store.remove(Windowed(b"k", 0, 4000))
    assert (store.position, store.late) == ({"t": {0: 2}}, 2)


def test_sessions_that_cannot_be_are_refused(store, value):
    with pytest.raises(ValueError, match="start is -1; it must not be negative"):
        store.fetch_session(b"k", -1, 5)
    with pytest.raises(ValueError, match="end 4 lies before its start 5"):
        store.fetch_session(b"k", 5, 4)
    for use in (store.fetch_session, lambda *w: store.put(Windowed(*w), value(b"v"))):
        with pytest.raises(TypeError, match="key cannot be None"):
            use(None, 1, 2)
        with pytest.raises(ValueError, match="64 bits"):
            use(b"k", 0, 2**63)
    for nothing in (None, (b"k", 1, 2), b"k"):
        with pytest.raises(TypeError, match=r"a session must be a Windowed\(key, start, end\)"):
            store.put(nothing, value(b"v"))
        with pytest.raises(TypeError, match=r"a session must be a Windowed\(key, start, end\)"):
            store.remove(nothing)
    for find in (lambda: store.find_sessions(None, 1, 2), lambda: store.fetch(None)):
        with pytest.raises(TypeError, match="key cannot be None"):
            find()
    assert store.stream_time == -1


def test_expired_lookups_check_their_key_too(store, value):
    store.put(Windowed(b"k", 0, 5000), value(b"v"))
    with pytest.raises(TypeError, match="key cannot be None"):
        store.fetch_session(None, 1, 2)


def test_what_meets_a_span_is_found(store, value):
    for start, end in ((0, 10), (20, 30), (25, 500), (40, 40)):
        store.put(Windowed(b"k", start, end), value(b"v"))
    assert spans(store.find_sessions(b"k", 10, 20)) == [(0, 10), (20, 30), (25, 500)][:2]
    assert spans(store.find_sessions(b"k", 11, 40)) == [(20, 30), (40, 40), (25, 500)]
    assert spans(store.find_sessions(b"k", 31, 30)) == [(25, 500)], "the span may be a gap"
    assert spans(store.find_sessions(b"k", None, 0)) == [(0, 10)]
    assert spans(store.find_sessions(b"k", 41, None)) == [(25, 500)]
    assert spans(store.find_sessions(b"k", None, -1)) == []
    assert spans(store.find_sessions(b"k", -9, 5, reverse=True)) == [(0, 10)]
    assert spans(store.find_sessions_between(30, 40)) == [(20, 30), (40, 40)]
    assert spans(store.find_sessions_between(40, 30)) == []
    assert spans(store.find_sessions_between(None, -3)) == []


def test_sessions_come_by_segment_key_end_and_start(store, value, kind):
    for start, end in ((3, 150), (2, 50), (1, 50), (4, 40)):
        for key in (b"b", b"a"):
            store.put(Windowed(key, start, end), value(b"v"))
    found = [(w.key, w.end, w.start) for w, _ in store.fetch_range(None, None)]
    by_key = [(b"a", 40, 4), (b"a", 50, 1), (b"a", 50, 2),
              (b"b", 40, 4), (b"b", 50, 1), (b"b", 50, 2),
              (b"a", 150, 3), (b"b", 150, 3)]  # fmt: skip
    by_time = sorted(by_key, key=lambda row: (row[1:], row[0]))
    assert found == (by_time if kind.time_ordered else by_key)
    by_index = [(w.key, w.end, w.start) for w, _ in store.fetch_range(b"a", None)]
    assert by_index == (by_time if kind.time_ordered and not kind.indexed else by_key)
    backward = store.find_sessions_between(None, None, reverse=True)
    assert [(w.key, w.end, w.start) for w, _ in backward] == found[::-1]
    assert list(store.fetch_range(b"z", b"a")) == []
    assert [w.key for w, _ in store.fetch_range(b"b", None)] == [b"b"] * 4


def test_times_may_be_datetimes(make, value):
    store = make(retention=10**12)
    begin = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    end = begin + dt.timedelta(milliseconds=5)
    store.put(Windowed(b"k", begin, end), value(b"v"))
    assert store.fetch_session(b"k", begin, end) == value(b"v")
    for scan in (
        store.find_sessions(b"k", end, begin),
        store.find_sessions_range(b"a", b"z", end, begin),
        store.find_sessions_between(end, end),
    ):
        assert spans(scan) == [(1000, 1005)]
    with pytest.raises(ValueError, match="naive"):
        Windowed(b"k", dt.datetime(2020, 1, 1), end)  # noqa: DTZ001


def test_a_scan_becomes_an_arrow_table(state, kind):
    store = state.open(kind.spec("s", 1000, 100))
    assert store.fetch(b"a").to_arrow().num_rows == 0
    for key, start, end in ((b"a", 5, 9), (b"b", 7, 105)):
        store.put(Windowed(key, start, end), kind.value(kind.record(b"v-" + key, 0, PAIRS)))
    table = store.fetch_range(None, None).to_arrow()
    assert table.column_names == [
        "key",
        "start",
        "end",
        "value",
        *["headers"] * kind.format.headers,
    ]
    assert table.select(["key", "start", "end", "value"]).to_pylist() == [
        {"key": b"a", "start": 5, "end": 9, "value": b"v-a"},
        {"key": b"b", "start": 7, "end": 105, "value": b"v-b"},
    ]
    assert table.schema == store.fetch(b"z").to_arrow().schema


def test_serdes_see_the_headers_of_their_record(state):
    store = state.open(stores.session_with_headers("s", 100, key=Tagged(), value=Tagged()))
    store.put(Windowed("k", 1, 2), "v")
    [(session, record)] = store.fetch("k")
    assert (session.key, record.aggregation) == ("k<k,v>", "v<k,v>")
    assert store.fetch_session("k", 1, 2).aggregation == "v<k,v>"


# Corners.


def test_sessions_at_the_end_of_time(make, value):
    store = make(retention=MAX_TIME, interval=2**62)
    for start, end in ((0, MAX_TIME), (MAX_TIME, MAX_TIME), (5, 2**62)):
        store.put(Windowed(b"k", start, end), value(b"v"))
    assert spans(store.fetch(b"k")) == [(5, 2**62), (0, MAX_TIME), (MAX_TIME, MAX_TIME)]
    assert spans(store.find_sessions(b"k", MAX_TIME, 4)) == [(0, MAX_TIME)]
    assert spans(store.find_sessions_between(MAX_TIME, MAX_TIME, reverse=True)) == [
        (MAX_TIME, MAX_TIME),
        (0, MAX_TIME),
    ]
    assert store.fetch_session(b"k", MAX_TIME, MAX_TIME) == value(b"v")


def test_out_of_order_over_many_segments(home, kind):
    spec = kind.spec("s", 70 * 100, 100)
    order = [(end // 2, end) for end in range(0, 70 * 100, 50)]
    random.Random(4).shuffle(order)
    with home.open() as state:
        store = state.open(spec)
        for number, (start, end) in enumerate(order):
            store.put(Windowed(b"k", start, end), kind.value(kind.record(b"v", 0)))
            if number % 90 == 0:
                state.commit({("t", 0): number})
    with home.open() as state:
        store = state.open(spec)
        assert len(store.table.segments) == 70
        assert spans(store.fetch(b"k")) == sorted(order, key=lambda span: span[::-1])
        found = spans(store.find_sessions(b"k", 4_990, 2_510, reverse=True))
        assert found == [(2_500, 5_000)]


def test_empty_keys_are_keys(store, value):
    for key in (b"", b"\x00", b"\x00" * 16):
        store.put(Windowed(key, 0, 5), value(key))
    assert store.fetch_session(b"", 0, 5) == value(b"")
    assert [w.key for w, _ in store.fetch(b"")] == [b""]
    assert [w.key for w, _ in store.fetch_range(None, b"")] == [b""]


def test_a_long_key_is_held_or_refused_before_anything_is_written(store, state, value, engine):
    session = Windowed(b"k" * 65_536, 0, 5)
    if engine == "lmdb":
        with pytest.raises(errors.KeyTooLongError, match=r"511|bytes"):
            store.put(session, value(b"v"))
        assert (store.stream_time, list(store.fetch_range(None, None))) == (-1, [])
        return
    store.put(session, value(b"v"))
    state.commit()
    assert list(store.fetch(session.key)) == [(session, value(b"v"))]


def test_a_failed_put_moves_no_stream_time(home, kind):
    with home.open(transactional=True, uncommitted_max_bytes=300) as state:
        store = state.open(kind.spec("s", 1000, 100))
        store.put(Windowed(b"k", 0, 5), kind.value(kind.record(b"v", 0)))
        with pytest.raises(errors.UncommittedLimitError):
            store.put(Windowed(b"k", 0, 5000), kind.value(kind.record(b"v" * 400, 0)))
        assert (store.stream_time, spans(store.fetch(b"k"))) == (5, [(0, 5)])


# The store.


def test_it_says_what_it_is(store):
    assert isinstance(store, SessionStore)
    assert isinstance(store, ReadOnlySessionStore)
    assert not isinstance(store, ReadOnlyWindowStore)
    assert repr(store).startswith("<SessionStore 's' (")


def test_after_close_everything_says_so(home, kind):
    value = kind.value(kind.record(b"v", 0))
    with home.open() as state:
        store = state.open(kind.spec("s", 1000, 100))
        for end in range(900):
            store.put(Windowed(b"k", 0, end), value)
        scan = store.fetch(b"k")
        next(scan)
    for use in (
        lambda: store.put(Windowed(b"k", 0, 5), value),
        lambda: store.remove(Windowed(b"k", 0, 5)),
        lambda: store.fetch_session(b"k", 0, 5),
        lambda: list(store.fetch(b"k")),
        lambda: list(scan),
    ):
        with pytest.raises(errors.StoreClosedError):
            use()


def test_a_read_only_store_refuses_to_be_written(home, kind):
    spec, value = kind.spec("s", 1000, 100), kind.value(kind.record(b"v", 0))
    with home.open() as state:
        state.open(spec).put(Windowed(b"k", 0, 5), value)
    with home.open(read_only=True) as state:
        store = state.open(spec)
        for end in (5, 6, 500, 5000):
            with pytest.raises(errors.UnsupportedError, match="read_only"):
                store.put(Windowed(b"k", 0, end), value)
        assert (store.stream_time, spans(store.fetch(b"k"))) == (5, [(0, 5)])


def test_text_keys_and_json_aggregates(state):
    spec = stores.session_with_headers("s", 1000, key=serdes.UTF8, value=serdes.JSON)
    store = state.open(spec)
    store.put(Windowed("straße", 5, 6), {"n": 1}, headers=PAIRS)
    [(session, record)] = store.fetch_range("straße", "straße")
    assert (session, record.aggregation) == (Windowed("straße", 5, 6), {"n": 1})


def test_rows_lie_where_kafka_puts_them(home, kind):
    spec = kind.spec("s", 1000, 100)
    with home.open() as state:
        state.open(spec).put(Windowed(b"A", 5, 120), kind.value(kind.record(b"v", 0)))
    if home.engine == "rocksdb":
        assert (home.path / "s" / "s.100" / "CURRENT").exists()
        return
    with database_of(home, "s") as database:
        [keys, _] = next(database.namespace(kind.format.namespace).scan())
    times = "0000000000000078 0000000000000005"
    wanted = [f"41 {times}"]
    if kind.time_ordered:
        wanted = [f"00 {times} 41", f"01 41 {times}"]
    if not kind.indexed:
        wanted = wanted[:1]
    assert keys == [bytes(7) + b"\x01" + bytes.fromhex(row) for row in wanted]
