"""A listener that writes, or raises, within a put, into the store of the put too."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstore_core import open_state, serdes, stores

CACHED = stores.key_value("cached", key=serdes.UTF8, value=serdes.UTF8).with_cache(1_000_000)
VERSIONS = stores.versioned_key_value(
    "versions", 10_000_000, 60_000, key=serdes.UTF8, value=serdes.UTF8
)
WINDOWS = stores.window("windows", 120_000, 1000, False, 60_000, key=serdes.UTF8, value=serdes.UTF8)
LATE = 1_000_000


class Once:
    """A listener that acts at its first call."""

    def __init__(self, act) -> None:
        self.act = act

    def __call__(self, key, new, old) -> None:
        act, self.act = self.act, None
        if act is not None:
            act()


def fail() -> None:
    raise ValueError("the listener fails")


def test_a_spill_whose_listener_puts_a_version_of_the_same_key(tmp_path: Path, engine: str) -> None:
    with open_state(tmp_path / "0_0", engine=engine, uncommitted_max_bytes=1000) as state:
        cached, store = state.open(CACHED), state.open(VERSIONS)
        cached.on_flush(Once(lambda: store.put("x", "two", timestamp=2000)))
        store.put("x", "one", timestamp=1000)
        state.commit()
        cached.put("a", "A" * 200)
        store.put("x", "B" * 900, timestamp=3000)  # does not fit before the cache is flushed
        history = [(r.value[:3], r.timestamp, r.valid_to) for r in store.history("x")]
        assert history == [("one", 1000, 2000), ("two", 2000, 3000), ("BBB", 3000, None)]
        found = store.get("x", as_of=2500)
        assert found is not None
        assert found.value == "two"


def test_a_spill_whose_listener_puts_a_later_window(tmp_path: Path, engine: str) -> None:
    with open_state(tmp_path / "0_0", engine=engine, uncommitted_max_bytes=1000) as state:
        cached, store = state.open(CACHED), state.open(WINDOWS)
        cached.on_flush(Once(lambda: store.put("x", "late", window_start=LATE)))
        cached.put("a", "A" * 200)
        store.put("x", "B" * 900, window_start=10_000)
        assert store.stream_time == LATE
        assert store.fetch_one("x", 10_000) is None
        assert store.fetch_one("x", LATE) == "late"
        assert len(list(store.all())) == 1


def test_an_evicted_row_whose_listener_puts_a_later_window(tmp_path: Path, engine: str) -> None:
    with open_state(tmp_path / "0_0", engine=engine) as state:
        store = state.open(WINDOWS.with_cache(100))
        store.on_flush(Once(lambda: store.put("late", "x", window_start=LATE)))
        for number in range(3):
            store.put(f"k{number}", "v" * 80, window_start=10_000 + number)
        assert store.stream_time == LATE
        store.put("old", "y", window_start=20_000)  # its segment has expired
        assert store.fetch_one("old", 20_000) is None


@pytest.mark.parametrize("value", ["v" * 200, None], ids=["a value", "a delete"])
def test_stream_time_after_the_listener_of_a_window_fails(
    tmp_path: Path, engine: str, value: str | None
) -> None:
    with open_state(tmp_path / "0_0", engine=engine) as state:
        store = state.open(WINDOWS.with_cache(100))
        store.put("k", "v", window_start=1000)
        state.commit()
        store.on_flush(Once(fail))
        with pytest.raises(ValueError, match="the listener fails"):
            store.put("k", "v" * 200, window_start=LATE)
        assert store.fetch_one("k", LATE) == "v" * 200
        assert store.stream_time == LATE
        store.put("k", value, window_start=LATE)
        assert store.fetch_one("k", LATE) == value


def test_stream_time_after_the_listener_of_a_version_fails(tmp_path: Path, engine: str) -> None:
    with open_state(tmp_path / "0_0", engine=engine) as state:
        store = state.open(VERSIONS.with_cache(100))
        store.on_flush(Once(fail))
        with pytest.raises(ValueError, match="the listener fails"):
            store.put("k", "v" * 80, timestamp=LATE)
        found = store.get("k")
        assert found is not None
        assert (found.timestamp, store.stream_time) == (LATE, LATE)
