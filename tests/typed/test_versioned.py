"""The versioned store, with and without headers, on each engine."""

import contextlib
import datetime as dt

import numpy as np
import pytest

from kstore_core import (
    LATEST,
    NOT_PUT,
    Headers,
    VersionedRecord,
    VersionedRecordWithHeaders,
    open_state,
    stores,
)
from kstore_core.errors import (
    ReadOnlyHeadersError,
)

MAX_TIME = 2**63 - 1
PLAIN, HEADED = stores.versioned_key_value, stores.versioned_key_value_with_headers


@pytest.fixture
def record(factory):
    """Makes the record that a read gives."""
    if factory is PLAIN:
        return VersionedRecord
    return lambda value, timestamp, valid_to: VersionedRecordWithHeaders(
        value, timestamp, valid_to, []
    )


@pytest.fixture
def rates(fx, state):
    """Three versions, of which two are committed."""
    fx.put("EUR", b"a", timestamp=100)
    fx.put("EUR", b"b", timestamp=200)
    state.commit()
    fx.put("EUR", b"c", timestamp=300)
    return fx


def test_a_put_tells_when_its_version_ends(fx):
    assert fx.put("EUR", b"a", timestamp=100) == LATEST
    assert fx.put("EUR", b"c", timestamp=300) == LATEST
    assert fx.put("EUR", b"b", timestamp=200) == 300
    assert fx.put("EUR", b"z", timestamp=5000) == LATEST
    assert fx.put("EUR", b"late", timestamp=3999) == NOT_PUT
    assert fx.put("EUR", b"just in time", timestamp=4000) == 5000


@pytest.mark.parametrize("engine", ["memory"], indirect=True)
@pytest.mark.parametrize(
    ("as_of", "wanted"),
    [(None, 300), (99, None), (100, 100), (199, 100), (200, 200), (299, 200), (300, 300),
     (MAX_TIME, 300), (-(2**63), None), (0, None), (-1, None), (np.int64(150), 100),
     (dt.datetime(1970, 1, 1, 0, 0, 0, 150_999, tzinfo=dt.UTC), 100)],
)  # fmt: skip
def test_get_gives_the_version_that_was_valid(rates, as_of, wanted):
    found = rates.get("EUR", as_of=as_of)
    assert (found and found.timestamp) == wanted
    assert rates.get_many(["EUR", "USD"], as_of=as_of) == [found, None]
    assert list(rates.all(as_of=as_of)) == ([] if found is None else [("EUR", found)])
    assert list(rates.range("E", "F", as_of=as_of, reverse=True)) == list(rates.all(as_of=as_of))


def test_a_version_tells_until_when_it_was_valid(rates, record):
    assert rates.get("EUR") == record(b"c", 300, None)
    assert rates.get("EUR", as_of=250) == record(b"b", 200, 300)
    assert rates.history("EUR") == [
        record(b"a", 100, 200),
        record(b"b", 200, 300),
        record(b"c", 300, None),
    ]


def test_history_takes_bounds_and_both_orders(rates):
    def times(*bounds, **arguments):
        return [version.timestamp for version in rates.history("EUR", *bounds, **arguments)]

    assert times() == [100, 200, 300]
    assert times(reverse=True) == [300, 200, 100]
    assert times(200, 299) == [200]
    assert times(199, 200) == [100, 200]
    assert times(None, 150) == [100]
    assert times(300) == [300]
    assert times(to_ts=99) == []
    assert times(150, 150) == [100]
    assert times(-5, 2**62, reverse=True) == [300, 200, 100]
    moment = dt.datetime(1970, 1, 1, 0, 0, 0, 250_000, tzinfo=dt.UTC)
    assert times(moment, moment) == [200]
    assert rates.history("USD") == []


def test_times_out_of_order_are_an_error(rates):
    with pytest.raises(ValueError, match="from_ts 2 lies after to_ts 1"):
        rates.history("EUR", 2, 1)


def test_a_read_of_a_time_beyond_64_bits_is_refused(rates):
    for time in (2**63, -(2**63) - 1, 2**70):
        for read, arguments in (
            (rates.get, ("EUR", time)),
            (rates.get_many, (["EUR"], time)),
            (rates.history, ("EUR", time)),
            (rates.history, ("EUR", None, time)),
            (rates.range, ("A", "Z", time)),
            (rates.all, (time,)),
        ):
            with pytest.raises(ValueError, match="64 bits"):
                read(*arguments)


def test_a_delete_gives_what_was_valid_before(rates, record):
    assert rates.delete("EUR", timestamp=400) == record(b"c", 300, None)
    assert rates.get("EUR") is None
    assert rates.get("EUR", as_of=399) == record(b"c", 300, 400)
    assert rates.delete("EUR", timestamp=150) == record(b"a", 100, 200)
    assert rates.get("EUR", as_of=150) is None
    assert rates.get("EUR", as_of=200) == record(b"b", 200, 300)
    assert rates.delete("USD", timestamp=400) is None
    assert [version.timestamp for version in rates.history("EUR")] == [100, 200, 300]


def test_putting_none_is_a_delete(rates):
    assert rates.put("EUR", None, timestamp=400) == LATEST
    assert rates.get("EUR") is None
    assert rates.put("EUR", None, timestamp=250) == 300
    assert rates.get("EUR", as_of=275) is None


def test_a_tombstone_at_the_latest_versions_own_time_holds(home, factory):
    with home.open() as state:
        store = state.open(factory("v", 10**6, 1000))
        store.put(b"k", b"A", timestamp=1000)
        store.delete(b"k", timestamp=1000)
        assert store.put(b"k", b"B", timestamp=500) == 1000
    with home.open() as state:
        store = state.open(factory("v", 10**6, 1000))
        assert store.get(b"k") is None
        assert store.get(b"k", as_of=700).value == b"B"
        assert list(store.all()) == []


def test_history_survives_a_reopen_with_stream_time(home, factory):
    spec = factory("v", 1000, 100)
    with home.open() as state:
        store = state.open(spec)
        assert store.stream_time == -1
        for timestamp in range(0, 3000, 50):
            store.put(b"k", b"%d" % timestamp, timestamp=timestamp)
        before = store.history(b"k")
        latest = store.stream_time
    with home.open() as state:
        store = state.open(spec)
        assert store.stream_time == latest == 2950
        assert store.history(b"k") == before
        assert store.get(b"k", as_of=2010).timestamp == 2000
        assert store.put(b"k", b"late", timestamp=1949) == NOT_PUT
        assert store.clock.dropped_late == 1


def test_a_range_reaches_over_all_segments_in_the_order_of_keys(home, factory):
    spec = factory("v", 10**6, 10)
    with home.open() as state:
        store = state.open(spec)
        for number in range(60):
            store.put(b"%02d" % (number * 7 % 60), b"old", timestamp=number)
        for number in range(0, 60, 2):
            store.put(b"%02d" % number, b"new", timestamp=100 + number)
        for number in range(0, 60, 3):
            store.delete(b"%02d" % number, timestamp=200)
    with home.open() as state:
        store = state.open(spec)
        keys = [b"%02d" % number for number in range(60)]
        for as_of in (None, 0, 30, 59, 130, 199, 200, 10**6):
            wanted = [
                (key, found) for key, found in zip(keys, store.get_many(keys, as_of), strict=True)
                if found is not None
            ]  # fmt: skip
            assert list(store.all(as_of)) == wanted
            assert list(store.all(as_of, reverse=True)) == wanted[::-1]
            some = [pair for pair in wanted if b"10" <= pair[0] <= b"49"]
            assert list(store.range(b"10", b"49", as_of)) == some
            assert list(store.range(b"10", b"49", as_of, reverse=True)) == some[::-1]
        assert list(store.range(b"49", b"10", 59)) == []


def test_a_scan_shows_its_moment(rates, state):
    scans = rates.all(), rates.all(as_of=250), rates.range("A", "Z", as_of=100)
    rates.put("EUR", b"d", timestamp=250)
    rates.delete("EUR", timestamp=400)
    state.commit()
    rates.put("AAA", b"x", timestamp=100)
    assert [[(key, found.timestamp) for key, found in scan] for scan in scans] == [
        [("EUR", 300)],
        [("EUR", 200)],
        [("EUR", 100)],
    ]


# Keys, values, headers.


def test_a_null_key_is_refused_everywhere(fx):
    for use in (
        lambda: fx.put(None, b"v", timestamp=1),
        lambda: fx.delete(None, timestamp=1),
        lambda: fx.get(None),
        lambda: fx.get(None, as_of=1),
        lambda: fx.get_many(["EUR", None]),
        lambda: fx.history(None),
    ):
        with pytest.raises(TypeError, match="key cannot be None"):
            use()
    assert fx.stream_time == -1


def test_wrong_types_change_nothing(fx, state):
    for use in (
        lambda: fx.put(5, b"v", timestamp=1),
        lambda: fx.put("EUR", 5, timestamp=1),
        lambda: fx.put("EUR", VersionedRecord(b"v", 1, None), timestamp=1),
        lambda: fx.delete(5, timestamp=1),
        lambda: fx.get(b"EUR"),
        lambda: fx.put("EUR", b"v"),
        lambda: fx.delete("EUR"),
        lambda: fx.put("EUR", b"v", 1),
        lambda: fx.range(5, None),
    ):
        with pytest.raises(TypeError):
            use()
    assert fx.stream_time == -1
    assert state.staged_bytes == 0


def test_any_key_has_a_history(fx, state):
    keys = ["", "\0", "\0" * 8, "\uffff" * 8]
    for key in keys:
        fx.put(key, b"", timestamp=1)
        fx.put(key, b"b", timestamp=2)
    state.commit()
    for key in keys:
        assert [version.value for version in fx.history(key)] == [b"", b"b"]
        assert fx.get(key, as_of=1).value == b""
    assert [found for found, _ in fx.all(as_of=1)] == keys


def test_a_store_without_headers_takes_none(state):
    store = state.open(PLAIN("v", 1000))
    store.put(b"k", b"v", timestamp=1, headers=[])
    with pytest.raises(TypeError, match="stores no headers"):
        store.put(b"k", b"v", timestamp=1, headers=[("a", b"1")])


class TestHeaders:
    @pytest.fixture
    def store(self, state):
        return state.open(HEADED("h", 1000, 100))

    def test_each_version_keeps_its_own_wherever_it_lies(self, store, state):
        for timestamp in (100, 200, 300):
            store.put(b"k", b"v", timestamp=timestamp, headers=[("at", b"%d" % timestamp)] * 2)
        state.commit()
        store.put(b"k", b"w", timestamp=150, headers=Headers([("at", None)]))
        found = {version.timestamp: list(version.headers) for version in store.history(b"k")}
        assert found == {
            100: [("at", b"100")] * 2,
            150: [("at", None)],
            200: [("at", b"200")] * 2,
            300: [("at", b"300")] * 2,
        }
        assert list(store.get(b"k").headers) == found[300]
        assert list(store.get(b"k", as_of=160).headers) == found[150]
        ((_, scanned),) = store.all(as_of=120)
        assert list(scanned.headers) == found[100]
        assert list(store.delete(b"k", timestamp=250).headers) == found[200]

    def test_they_are_read_only(self, store):
        store.put(b"k", b"v", timestamp=1, headers=[("a", b"1")])
        store.put(b"k", b"v", timestamp=2)
        ((_, scanned),) = store.all(as_of=1)
        for found in (store.get(b"k", as_of=1), store.history(b"k")[0], scanned):
            with pytest.raises(ReadOnlyHeadersError):
                found.headers.add("b", b"2")

    def test_what_are_no_headers_is_refused(self, store):
        for headers in ({"a": b"1"}, [("a", "text")], 5, [(1, b"a")]):
            with pytest.raises(TypeError):
                store.put(b"k", b"v", timestamp=1, headers=headers)
        assert store.history(b"k") == []
        assert store.stream_time == -1

    def test_what_a_serde_adds_is_kept(self, state):
        class Adding:
            name = "adding"
            arrow_type = None

            def serialize(self, value, headers):
                headers.add("added", value)
                return value

            def deserialize(self, data, headers):
                return data

        store = state.open(HEADED("a", 1000, key=Adding(), value=Adding()))
        given = Headers([("mine", b"0")])
        store.put(b"k", b"v", timestamp=1, headers=given)
        assert list(store.get(b"k").headers) == [("mine", b"0"), ("added", b"k"), ("added", b"v")]
        assert list(given) == [("mine", b"0")]


def test_a_serde_that_makes_nothing_is_a_tombstone(state, factory):
    class Picky:
        name = "picky"
        arrow_type = None

        def serialize(self, value, headers):
            return None if value == "nothing" else value.encode()

        def deserialize(self, data, headers):
            return data.decode()

    store = state.open(factory("v", 1000, value=Picky()))
    store.put(b"k", "v", timestamp=1)
    store.put(b"k", "nothing", timestamp=2)
    assert store.get(b"k") is None
    assert store.get(b"k", as_of=1).value == "v"


def test_late_versions_are_counted(fx):
    fx.put("EUR", b"v", timestamp=5000)
    for _ in range(3):
        fx.put("EUR", b"late", timestamp=1)
    fx.delete("EUR", timestamp=1)
    assert fx.clock.dropped_late == 4
    assert [version.timestamp for version in fx.history("EUR")] == [5000]


@pytest.mark.parametrize("engine", ["rocksdb"], indirect=True)
def test_a_thousand_segments_open_again(home, factory):
    spec = factory("v", 10**6, 10)
    with home.open() as state:
        store = state.open(spec)
        for timestamp in range(0, 10_001, 10):
            store.put(b"k", b"v", timestamp=timestamp)
    with home.open() as state:
        store = state.open(spec)
        assert len(store.table.segments) == 1000
        assert len(store.history(b"k")) == 1001
        assert store.get(b"k", as_of=4321).timestamp == 4320


def test_the_aliases_name_what_they_say():
    from kstore_core.typed.versioned import VersionedKeyValueStore, VersionedStore

    assert VersionedKeyValueStore[str, float].__origin__ is VersionedStore
    with open_state("x", engine="memory") as state:
        assert isinstance(state.open(PLAIN("v", 5)), VersionedStore)


def test_the_record_lends_its_time_and_headers(home, factory):
    pairs = [("a", b"1"), ("a", None)]
    keeps = factory is HEADED
    with home.open() as state:
        store = state.open(factory("fx", 1000))
        with state.record(topic="t", partition=0, offset=1, timestamp=50, headers=pairs):
            assert store.put(b"k", b"lent") == LATEST
            assert store.put(b"own time", b"v", timestamp=40) == LATEST
            assert store.put(b"none", b"v", headers=()) == LATEST
            if keeps:
                store.put(b"own headers", b"v", headers=[("b", b"")])
        with state.record(timestamp=dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)):
            assert store.delete(b"none").timestamp == 50
            assert store.put(b"none", b"late", timestamp=60) == 1000
        found = dict(store.all(as_of=60))
        times = {b"k": 50, b"none": 60, b"own time": 40, **({b"own headers": 50} if keeps else {})}
        assert {key: record.timestamp for key, record in found.items()} == times
        if keeps:
            assert list(found[b"k"].headers) == list(found[b"own time"].headers) == pairs
            assert list(found[b"own headers"].headers) == [("b", b"")]
            assert list(store.get(b"none", as_of=50).headers) == []
        assert store.position == {"t": {0: 1}}


@pytest.mark.parametrize("within", [False, True])
def test_a_time_that_nobody_gives_is_missing(fx, state, within):
    with state.record(topic="t", partition=0, offset=1) if within else contextlib.nullcontext():
        for use in (fx.put, lambda key, value: fx.delete(key)):
            with pytest.raises(TypeError, match=r"a timestamp is missing: pass timestamp="):
                use("EUR", b"a")
        assert fx.put("EUR", b"b", timestamp=1) == LATEST
    assert fx.history("EUR")[0].value == b"b"


def test_a_record_with_a_time_before_1970_makes_no_version(fx, state):
    with state.record(timestamp=-1), pytest.raises(ValueError, match="must not be negative"):
        fx.put("EUR", b"a")
    assert fx.get("EUR") is None
