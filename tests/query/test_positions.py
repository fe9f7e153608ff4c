"""How far a store says it has read: through commits, reopenings, caches, and beside them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import open_state, stores
from kstore_core.discovery.registry import engine_class
from kstore_core.query import FailureReason, KeyQuery, PositionBound, RangeQuery
from kstore_core.testing.kinds import KINDS, Kind
from kstore_core.testing.running import quick
from tests.query.filled import fill, spec_of
from tests.support.engines import Home

PLAIN = stores.key_value("s")
ops = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 1)),
        st.sampled_from([("flush",), ("commit",), ("reopen",), ("crash",)]),
    ),
    max_size=40,
)


@quick(150)
@given(ops, st.sampled_from([None, 0, 70, 10_000]))
def test_lives(life: list[Any], cache: int | None) -> None:
    """Whatever is asked, the position is that of exactly the records that show, or of fewer."""
    engine = engine_class("memory")()
    spec = PLAIN if cache is None else PLAIN.with_cache(cache)

    def opened() -> Any:
        return open_state("0_1", engine=engine, transactional=True)

    state = opened()
    store = state.open(spec)
    now: dict[bytes, bytes] = {}
    committed: dict[bytes, bytes] = {}
    position: dict[str, dict[int, int]] = {}
    position_committed: dict[str, dict[int, int]] = {}
    try:
        for offset, (op, *arguments) in enumerate(life):
            if op == "put":
                key, partition = arguments
                with state.record(topic="t", partition=partition, offset=offset):
                    store.put(key, b"%d" % offset)
                now[key] = b"%d" % offset
                position.setdefault("t", {})[partition] = offset
            elif op == "flush":
                state.flush()
            elif op == "commit":
                state.commit()
                committed = dict(now)
                position_committed = {topic: dict(known) for topic, known in position.items()}
            else:
                if op == "reopen":
                    state.commit()
                    committed = dict(now)
                    position_committed = {topic: dict(known) for topic, known in position.items()}
                state.close()
                state = opened()
                store = state.open(spec)
                now = dict(committed)
                position = {topic: dict(known) for topic, known in position_committed.items()}
            result = store.query(RangeQuery())
            assert (store.position, result.position) == (position, position)
            assert dict(result.get()) == now
            below = store.query(RangeQuery(), isolation="committed")
            assert (below.position, dict(below.get())) == (position_committed, committed)
            for key in (b"a", b"b", b"c"):
                result = store.query(KeyQuery(key, skip_cache=True))
                for partition, offset in result.position.get("t", {}).items():
                    assert offset <= position["t"][partition]
                seen = result.get()
                if key in now:
                    last = int(now[key])
                    if result.position.get("t", {}).get(life[last][2], -1) >= last:
                        assert seen == now[key], "what the position says is there"
                if op in ("flush", "commit", "reopen", "crash") or cache is None:
                    assert (result.position, seen) == (position, now.get(key))
    finally:
        state.close()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_keeps_its_position(kind: Kind, home: Home) -> None:
    with home.open() as state:
        store = state.open(spec_of(kind).with_cache())
        with state.record(topic="t", partition=3, offset=5):
            fill(kind, store)
        with state.record(topic="u", partition=3, offset=1):
            fill(kind, store)
        with state.record(topic="t", partition=3, offset=4):
            fill(kind, store)
        with state.record():
            fill(kind, store)
        assert store.position == {"t": {3: 5}, "u": {3: 1}}
    for read_only in (True, False):
        with home.open(read_only=read_only) as state:
            assert state.open(spec_of(kind)).position == {"t": {3: 5}, "u": {3: 1}}


def test_a_cache_is_skipped_where_that_is_asked_and_flushes_nothing(home: Home) -> None:
    with home.open() as state:
        store = state.open(PLAIN.with_cache())
        with state.record(topic="t", partition=0, offset=1):
            store.put(b"k", b"1")
        state.flush()
        with state.record(topic="t", partition=0, offset=2):
            store.put(b"k", b"2")
            store.put(b"new", b"2")
        flushes = store.table.flushes
        for key, seen, below in ((b"k", b"2", b"1"), (b"new", b"2", None)):
            result = store.query(KeyQuery(key))
            assert (result.get(), result.position) == (seen, {"t": {0: 2}})
            result = store.query(KeyQuery(key, skip_cache=True))
            assert (result.get(), result.position) == (below, {"t": {0: 1}})
        bound = PositionBound.at({"t": {0: 2}})
        assert store.query(KeyQuery(b"k"), bound=bound).is_success
        result = store.query(KeyQuery(b"k", skip_cache=True), bound=bound)
        assert result.failure_reason is FailureReason.NOT_UP_TO_BOUND
        assert store.table.flushes == flushes
        state.flush()
        result = store.query(KeyQuery(b"k", skip_cache=True), bound=bound)
        assert (result.get(), result.position) == (b"2", {"t": {0: 2}})


@pytest.mark.parametrize(
    ("task", "bound", "is_reached"),
    [
        ("0_3", {}, True),
        ("0_3", {"t": {3: 5}}, True),
        ("0_3", {"t": {3: 6}}, False),
        ("0_3", {"t": {4: 99}}, True),
        ("0_3", {"t": {3: 5, 4: 99}, "u": {4: 99}}, True),
        ("0_3", {"u": {3: 0}}, False),
        ("orders", {"t": {3: 5}}, True),
        ("orders", {"t": {3: 5, 4: 99}}, False),
    ],
)
def test_a_bound_counts_for_the_tasks_partition(
    tmp_path: Any, task: str, bound: Any, is_reached: bool
) -> None:
    with open_state(tmp_path / task, engine="memory", transactional=True) as state:
        store = state.open(PLAIN)
        with state.record(topic="t", partition=3, offset=5):
            store.put(b"k", b"v")
        state.commit()
        with state.record(topic="t", partition=3, offset=7):
            store.put(b"k", b"w")
        for asked, up_to in (
            (PositionBound.at(bound), is_reached),
            (PositionBound.unbounded(), True),
        ):
            result = store.query(KeyQuery(b"k"), bound=asked, isolation="committed")
            assert result.position == {"t": {3: 5}}
            assert result.is_success is up_to
            if not up_to:
                assert result.failure_reason is FailureReason.NOT_UP_TO_BOUND
                assert "the store is at Position({'t': {3: 5}})" in result.failure_message
        if is_reached or bound == {"t": {3: 6}}:
            assert store.query(KeyQuery(b"k"), bound=PositionBound.at(bound)).get() == b"w"


def test_a_scan_keeps_its_moment_whatever_is_committed(home: Home) -> None:
    with home.open(transactional=True) as state:
        store = state.open(PLAIN)
        for number in range(2000):
            store.put(b"%04d" % number, b"1")
        state.commit()
        result = store.query(RangeQuery(), isolation="committed")
        assert next(result.get()) == (b"0000", b"1")
        for number in range(2000):
            store.put(b"%04d" % number, b"2")
        state.commit()
        again = store.query(RangeQuery(), isolation="committed")
        assert {value for _, value in result.get()} == {b"1"}
        assert list(result.get()) == []
        assert {value for _, value in again.get()} == {b"2"}
        assert state._snapshots is not None
        dropped = store.query(RangeQuery(), isolation="committed").get()
        assert state._snapshots._newest.users > 1
        state._views.forget()
        del dropped
        assert state._snapshots._newest.users == 1, "nobody holds the moment any more"
