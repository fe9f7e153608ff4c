"""Crashes and replay: whatever was spilled, a replay from the offsets gives what no crash gives."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kstore_core import open_state, stores
from kstore_memory import MemoryEngine

INPUT = ("input", 0)
KEYS = st.sampled_from([b"a", b"b", b"a\0"])
VALUES = st.none() | st.binary(max_size=6)


def lives(inputs, *, crashes, commits, budget, spec, apply):
    """Work through all inputs, crashing and committing after those of these numbers."""
    engine = MemoryEngine()
    crashes = sorted(crashes)
    while True:
        state = open_state("x", engine=engine, uncommitted_max_bytes=budget)
        store = state.open(spec)
        for offset in range(state.offsets().get(INPUT, -1) + 1, len(inputs)):
            with state.record(topic="input", partition=0, offset=offset, timestamp=offset):
                apply(store, *inputs[offset])
            if offset in commits:
                state.commit({INPUT: offset})
            if crashes and offset >= crashes[0]:
                crashes.pop(0)
                state.close()
                break
        else:
            state.commit({INPUT: len(inputs) - 1})
            return state, store


def put_or_delete(store, key, value):
    if value is None:
        store.delete(key)
    else:
        store.put(key, value)


@settings(deadline=None)
@given(
    inputs=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=30),
    crashes=st.sets(st.integers(0, 30), max_size=3),
    commits=st.sets(st.integers(0, 30), max_size=4),
    budget=st.integers(0, 40),
)
@pytest.mark.parametrize("factory", [stores.key_value, stores.timestamped_key_value_with_headers])
def test_key_value(factory, inputs, crashes, commits, budget):
    arguments = {"commits": commits, "spec": factory("s"), "apply": put_or_delete}
    calm_state, calm = lives(inputs, crashes=(), budget=-1, **arguments)
    state, store = lives(inputs, crashes=crashes, budget=budget, **arguments)
    with calm_state, state:
        assert list(store.all()) == list(calm.all())
        assert store.offsets() == calm.offsets()
        assert store.position == calm.position


def put_version(store, key, value, timestamp):
    if value == b"":
        store.delete(key, timestamp=timestamp)
    else:
        store.put(key, value, timestamp=timestamp)


@settings(max_examples=300, deadline=None)
@given(
    inputs=st.lists(st.tuples(KEYS, VALUES, st.integers(0, 80)), min_size=1, max_size=30),
    crashes=st.sets(st.integers(0, 30), max_size=3),
    commits=st.sets(st.integers(0, 30), max_size=4),
    budget=st.integers(0, 200),
    retention=st.sampled_from([0, 20, 50, 1000]),
    interval=st.sampled_from([1, 7, 100]),
)
@example(  # the version that a put retires, spilled without the put
    inputs=[(b"a", b"1", 0), (b"a", b"2", 50), (b"a", None, 20)],
    crashes={1},
    commits={0},
    budget=1,
    retention=1000,
    interval=7,
)
def test_versioned(inputs, crashes, commits, budget, retention, interval):
    spec = stores.versioned_key_value("s", retention, interval)
    arguments = {"commits": commits, "spec": spec, "apply": put_version}
    calm_state, calm = lives(inputs, crashes=(), budget=-1, **arguments)
    state, store = lives(inputs, crashes=crashes, budget=budget, **arguments)
    with calm_state, state:
        for key in (b"a", b"b", b"a\0"):
            assert store.history(key) == calm.history(key)
        for as_of in range(0, 81, 5):
            assert list(store.all(as_of)) == list(calm.all(as_of))
        assert store.stream_time == calm.stream_time
        assert store.offsets() == calm.offsets()
