"""Rows that are not those of the store they were opened as, where nothing says what they are."""

from __future__ import annotations

import pytest

from kstore_core import Windowed, open_state, stores
from kstore_core.discovery.registry import engine_class
from kstore_core.engine import Rows
from kstore_core.errors import InconsistentStateError
from tests.support.golden import unpack
from tests.tables.segments.rows import FOREVER, forget_commits, window_spec

SPEC = window_spec()
MISTAKES = {
    "a narrower interval": window_spec(segment_interval_ms=5),
    "another shape": stores.session("w", FOREVER, 10),
    "another order": window_spec(time_ordered=True),
}


def forget_spec(home):
    """Take away what tells the store's spec, as a commit of Kafka Streams may."""
    with home.open(read_only=True) as state:
        engine = state.engine
    if engine.capabilities.children:
        names = engine.children(home.path, "w")
        opened = [engine.open_child(home.path, "w", name) for name in names]
    else:
        opened = [engine.open(home.path, "w")]
    for database in opened:
        database.write({"offsets": Rows([b"kstore.spec", b"kstore.stream-time"], [None, None])})
        database.close()


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("read_only", [True, False])
def test_another_description_is_refused_and_the_right_one_opens(home, mistake, read_only):
    starts = [1_000, 1_007, 1_010, 1_019, 1_025]
    with home.open() as state:
        store = state.open(SPEC)
        for start in starts:
            store.put(b"key", b"v", window_start=start)
    forget_spec(home)
    with (
        home.open(read_only=read_only) as state,
        pytest.raises(InconsistentStateError, match="Nothing was changed"),
    ):
        state.open(MISTAKES[mistake])
    with home.open() as state:
        assert state.stored_spec("w") is None
        assert [windowed.start for windowed, _ in state.open(SPEC).all()] == starts


def test_sessions_are_not_windows(home):
    with home.open() as state:
        state.open(stores.session("w", FOREVER, 10)).put(Windowed(b"k", 1_000, 1_003), b"v")
    forget_spec(home)
    with (
        home.open() as state,
        pytest.raises(InconsistentStateError, match=r"a session store would fit"),
    ):
        state.open(SPEC)


@pytest.mark.parametrize("interval", [75_000, 50_000, 30_000, 1])
def test_kafkas_directory_is_not_opened_with_an_interval_that_its_rows_do_not_fit(
    tmp_path, interval
):
    path = unpack("window_headers", tmp_path)
    before = sorted(path.rglob("w*"))
    wrong = stores.timestamped_window_with_headers(
        "window_headers", 150_000, 10_000, segment_interval_ms=interval
    )
    with (
        open_state(path) as state,
        pytest.raises(InconsistentStateError, match="segment_interval_ms=150000 would fit"),
    ):
        state.open(wrong)
    assert sorted(path.rglob("w*")) == before


def test_a_segment_of_another_time_is_refused_when_somebody_comes_to_it(tmp_path):
    with open_state(tmp_path, engine="rocksdb") as state:
        store = state.open(SPEC)
        for start in (10, 20, 30):
            store.put(b"k", b"v", window_start=start)
    forget_commits(engine_class("rocksdb")(), tmp_path)
    (tmp_path / "w" / "w.20").rename(tmp_path / "w" / "w.0")
    with open_state(tmp_path) as state:
        store = state.open(SPEC)
        assert store.fetch_one(b"k", 10) == b"v"
        with pytest.raises(
            InconsistentStateError, match=r"w\.0 .* contains a row with the time 20"
        ):
            store.fetch_one(b"k", 0)
