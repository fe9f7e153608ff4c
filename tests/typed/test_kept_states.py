"""A state directory lives as long as somebody holds it, a store of it or a scan; no longer."""

from __future__ import annotations

import gc
import re
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from kstore_core.query import RangeQuery
from kstore_core.testing.kinds import KINDS, LAYERED, Kind
from kstore_core.testing.store_suite import any_kind
from kstore_core.testing.store_suite.base import records

NEVER_CLOSED = "<StateDirectory .* was never closed"


@pytest.fixture(params=[*KINDS, *LAYERED], ids=str)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(autouse=True)
def _without_a_collector() -> Iterator[None]:
    """What is dropped goes at once, with no cycle that the collector has to find."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_store_keeps_its_state(home: Any, kind: Kind) -> None:
    store = home.open().open(any_kind.spec(kind))
    gc.collect()
    wanted = records(kind, 5)
    for key, record in wanted.items():
        any_kind.put(kind, store, key, record)
    assert dict(any_kind.items(kind, store)) == wanted
    alive = weakref.ref(store._state)
    alive().commit({("t", 0): 1})
    assert store.offsets() == {("t", 0): 1}
    with pytest.warns(ResourceWarning, match=NEVER_CLOSED):
        del store
    assert alive() is None
    with home.open() as state:  # the lock is free
        assert dict(any_kind.items(kind, state.open(any_kind.spec(kind)))) == wanted


def test_a_scan_keeps_its_state(home: Any, kind: Kind) -> None:
    wanted = records(kind, 5)
    with home.open() as state:
        for key, record in wanted.items():
            any_kind.put(kind, state.open(any_kind.spec(kind)), key, record)
    uses = (list, True), (lambda scan: scan.close(), True), (next, False)
    for use, ends_it in uses:
        scan = any_kind.scan(kind, home.open().open(any_kind.spec(kind)))
        gc.collect()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ResourceWarning)
            found = use(scan)
            assert bool(caught) == ends_it
            del scan
        assert [bool(re.search(NEVER_CLOSED, str(warning.message))) for warning in caught] == [True]
        assert use is not list or len(found) == 5


def test_a_read_of_one_key_keeps_its_state(home: Any) -> None:
    kind = LAYERED[2]
    with home.open() as state:
        any_kind.put(kind, state.open(any_kind.spec(kind)), b"k", kind.record(b"v", 1))
    scan = home.open().open(any_kind.spec(kind)).fetch(b"k", 0, 10**6)
    gc.collect()
    with pytest.warns(ResourceWarning, match=NEVER_CLOSED):
        assert len(list(scan)) == 1


def test_a_store_with_a_listener_is_let_go_at_once(home: Any) -> None:
    store = home.open().open(any_kind.spec(KINDS[0]).with_cache())
    told: list[Any] = []
    store.on_flush(lambda *change: told.append(change))
    store.put(b"k", b"v")
    store._state.commit()
    assert told == [(b"k", b"v", None)]
    with pytest.warns(ResourceWarning, match=NEVER_CLOSED):
        del store


def test_a_query_and_a_view_keep_their_states(home: Any) -> None:
    spec = any_kind.spec(KINDS[0])
    with home.open(transactional=True) as state:
        state.open(spec).put_all([(b"%d" % number, b"v") for number in range(5)])
        state.commit()
        store = state.committed().open(spec)
        gc.collect()
        assert store.get(b"3") == b"v"
        with pytest.warns(ResourceWarning, match=NEVER_CLOSED):
            del store
    result = home.open().open(spec).query(RangeQuery()).result
    gc.collect()
    with pytest.warns(ResourceWarning, match=NEVER_CLOSED):
        assert len(list(result)) == 5


def test_the_same_store_is_given_while_somebody_holds_it(home: Any, kind: Kind) -> None:
    spec = any_kind.spec(kind)
    with home.open() as state:
        store = state.open(spec)
        assert state.open(spec) is store
        any_kind.put(kind, store, b"k", kind.record(b"v", 1))
        del store
        assert any_kind.keys(kind, state.open(spec)) == [b"k"], "another face of the same"


def test_a_state_that_was_closed_is_not_warned_of(home: Any, kind: Kind) -> None:
    with home.open() as state:
        store = state.open(any_kind.spec(kind))
        scan = any_kind.scan(kind, store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del state, store, scan


def test_a_method_keeps_its_state(home: Any, kind: Kind) -> None:
    """Those of a store that is measured are functions of their own."""
    name = "put" if kind.shape == "session" else "get" if kind.shape != "window" else "fetch_one"
    arguments = [None, 0] if kind.shape != "key_value" else [None]
    method = getattr(home.open().open(any_kind.spec(kind)), name)
    gc.collect()
    with pytest.raises(TypeError, match=r"key cannot be None|a session must be a Windowed"):
        method(*arguments)
    with pytest.warns(ResourceWarning, match=NEVER_CLOSED):
        del method
