"""What all shapes share: the record that is worked on, and the position that it moves."""

import datetime as dt

import numpy as np
import pytest

from kstore_core import Headers, ValueTimestampHeaders, stores
from kstore_core.types import RecordContext
from tests.typed.kinds import TIME

HEADERS = stores.timestamped_key_value_with_headers("h")
TIMED = stores.timestamped_key_value("t")
RATES = stores.versioned_key_value_with_headers("r", 10**13)
PLAIN = stores.key_value("p")


def test_a_record_lends_its_time_and_headers_to_a_put_that_has_none(state):
    store = state.open(HEADERS)
    with state.record(timestamp=TIME, headers=[("trace", b"1")]) as context:
        assert isinstance(context, RecordContext)
        store.put(b"lent", b"v")
        store.put(b"own-time", b"v", timestamp=5)
        store.put(b"own-headers", b"v", headers=[("own", b"2")])
        store.put(b"no-headers", b"v", headers=[])
        store.put(b"wrapped", ValueTimestampHeaders(b"v", 6, []))
        store.put_if_absent(b"absent", b"v")
        store.put_all([(b"all", b"v")])
    lent = ValueTimestampHeaders(b"v", TIME, [("trace", b"1")])
    assert dict(store.all()) == {
        b"lent": lent,
        b"own-time": ValueTimestampHeaders(b"v", 5, [("trace", b"1")]),
        b"own-headers": ValueTimestampHeaders(b"v", TIME, [("own", b"2")]),
        b"no-headers": ValueTimestampHeaders(b"v", TIME, []),
        b"wrapped": ValueTimestampHeaders(b"v", 6, []),
        b"absent": lent,
        b"all": lent,
    }


def test_a_timestamped_store_borrows_the_time(state):
    store = state.open(TIMED)
    with state.record(timestamp=dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)):
        store.put(b"k", b"v")
    assert store.get(b"k").timestamp == 1000


def test_after_the_block_nothing_is_lent(state):
    store = state.open(HEADERS)
    with state.record(timestamp=TIME):
        pass
    with pytest.raises(TypeError, match="a timestamp is missing"):
        store.put(b"k", b"v")
    with pytest.raises(ZeroDivisionError), state.record(timestamp=TIME):
        _ = 1 / 0
    with pytest.raises(TypeError, match="a timestamp is missing"):
        store.put(b"k", b"v")


def test_records_may_be_nested(state):
    store = state.open(HEADERS)
    with state.record(timestamp=1, headers=[("outer", b"")], topic="a", partition=0, offset=1):
        with state.record(timestamp=2):
            store.put(b"inner", b"v")
        store.put(b"outer", b"v")
    assert store.get(b"inner") == ValueTimestampHeaders(b"v", 2, [])
    assert store.get(b"outer") == ValueTimestampHeaders(b"v", 1, [("outer", b"")])
    assert store.position == {"a": {0: 1}}


def test_the_records_headers_are_not_changed_by_a_put(state):
    store = state.open(HEADERS)
    headers = Headers([("a", b"1")])
    with state.record(timestamp=1, headers=headers):
        store.put(b"k", b"v")
        headers.add("b", b"2")
    assert list(store.get(b"k").headers) == [("a", b"1")]


def test_a_delete_is_a_write_without_a_time(state):
    store = state.open(HEADERS)
    store.put(b"k", b"v", timestamp=1)
    with state.record(topic="t", partition=0, offset=3, headers=[("why", b"gone")]):
        store.delete(b"k")
    assert store.get(b"k") is None
    assert store.position == {"t": {0: 3}}


# Position.


def test_every_write_moves_the_position_and_no_read_does(state):
    writes = {
        "put": lambda store: store.put(b"k", b"v"),
        "delete": lambda store: store.delete(b"k"),
        "absent": lambda store: store.put_if_absent(b"new", b"v"),
        "all": lambda store: store.put_all([(b"k", b"v")]),
    }
    store = state.open(PLAIN)
    for offset, write in enumerate(writes.values(), start=1):
        with state.record(topic="t", partition=0, offset=offset):
            write(store)
        assert store.position == {"t": {0: offset}}
    with state.record(topic="t", partition=0, offset=100):
        store.get(b"k")
        store.get_many([b"k"])
        list(store.all())
        store.put_all([])
    assert store.position == {"t": {0: 4}}


def test_the_position_never_goes_back(state):
    store = state.open(PLAIN)
    for topic, partition, offset in (("a", 0, 5), ("a", 0, 3), ("a", 1, 0), ("b", 0, 9)):
        with state.record(topic=topic, partition=partition, offset=offset):
            store.put(b"k", b"v")
    assert store.position == {"a": {0: 5, 1: 0}, "b": {0: 9}}


def test_without_a_topic_there_is_no_position(state):
    store = state.open(PLAIN)
    store.put(b"k", b"v")
    with state.record(timestamp=5, offset=7, partition=0):
        store.put(b"k", b"v")
    assert store.position == {}


def test_each_store_has_its_own_position_and_keeps_it(home):
    with home.open() as state:
        first, second = state.open(PLAIN), state.open(RATES)
        with state.record(topic="t", partition=0, offset=1):
            first.put(b"k", b"v")
        state.commit()
        with state.record(topic="t", partition=0, offset=2):
            second.put(b"k", b"v", timestamp=1)
    with home.open() as state:
        assert state.open(PLAIN).position == {"t": {0: 1}}
        assert state.open(RATES).position == {"t": {0: 2}}


def test_what_is_not_committed_is_not_in_the_position(home):
    state = home.open()
    store = state.open(PLAIN)
    with state.record(topic="t", partition=0, offset=1):
        store.put(b"k", b"v")
        state.commit()
    with state.record(topic="t", partition=0, offset=2):
        store.put(b"k", b"w")
    assert store.position == {"t": {0: 2}}
    state.close()
    with home.open() as state:
        assert state.open(PLAIN).position == {"t": {0: 1}}


def test_a_position_handed_out_is_a_copy(state):
    store = state.open(PLAIN)
    with state.record(topic="t", partition=0, offset=1):
        store.put(b"k", b"v")
    with pytest.raises(TypeError, match="item assignment"):
        store.position["t"][0] = 99
    assert store.position == {"t": {0: 1}}


def test_a_version_that_is_too_late_moves_the_position_and_its_delete_does_not(state):
    """As in Kafka Streams."""
    store = state.open(stores.versioned_key_value("v", 10))
    store.put(b"k", b"v", timestamp=1000)
    with state.record(topic="t", partition=0, offset=1):
        store.put(b"k", b"late", timestamp=1)
    assert store.position == {"t": {0: 1}}
    with state.record(topic="t", partition=0, offset=2):
        assert store.delete(b"k", timestamp=1) is None
    assert store.position == {"t": {0: 1}}


UNKEEPABLE = [
    {"topic": 5, "partition": 0, "offset": 1},
    {"topic": b"t", "partition": 0, "offset": 1},
    {"topic": "t", "partition": "0", "offset": 1},
    {"topic": "t", "partition": 0, "offset": "1"},
    {"topic": "t", "partition": 0, "offset": None},
    {"topic": "t", "partition": 0, "offset": 2**63},
    {"topic": "t", "partition": 2**31, "offset": 1},
    {"topic": "t", "partition": -1, "offset": 1},
    {"topic": "\ud800", "partition": 0, "offset": 1},
    {"timestamp": "5"},
    {"timestamp": 1.5},
    {"timestamp": True},
    {"timestamp": 2**63},
    {"timestamp": dt.datetime(2020, 1, 1)},  # noqa: DTZ001
    {"headers": {"a": b"1"}},
    {"headers": [("a", "text")]},
    {"headers": 5},
]


def test_a_record_that_could_not_be_kept_is_refused_at_once(state):
    store = state.open(PLAIN)
    for given in UNKEEPABLE:
        with pytest.raises((TypeError, ValueError)):
            state.record(**given).__enter__()
    store.put(b"k", b"v")
    state.commit()
    assert store.position == {}


def test_a_records_numbers_may_be_numpys(state):
    store = state.open(PLAIN)
    with state.record(topic="t", partition=np.int32(1), offset=np.int64(5)):
        store.put(b"k", b"v")
    state.commit()
    assert store.position == {"t": {1: 5}}
