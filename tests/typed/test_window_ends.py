"""Window and session stores at the ends of time, and after their own: closed, forked, read-only."""

from __future__ import annotations

import pytest

from kstore_core import Windowed, stores
from kstore_core.errors import ForkedHandleError, StoreClosedError, UnsupportedError
from tests.typed.processes import in_a_child

MAX_TIME = 2**63 - 1
NOW = 10**6
WINDOWS = stores.window("w", 10, 1)
SESSIONS = stores.session("s", 10)
DUPLICATES = stores.window("d", 10, 1, retain_duplicates=True)


def open_all(state):
    return state.open(WINDOWS), state.open(SESSIONS), state.open(DUPLICATES)


def filled(state):
    windows, sessions, duplicates = opened = open_all(state)
    windows.put(b"k", b"v", window_start=NOW)
    sessions.put(Windowed(b"k", NOW, NOW), b"v")
    duplicates.put(b"k", b"v", window_start=NOW)
    return opened


def writes(windows, sessions, duplicates):
    return [
        lambda: windows.put(b"k", b"v", window_start=NOW),
        lambda: windows.put(b"k", b"v", window_start=NOW * 2),
        lambda: windows.put(b"k", b"late", window_start=1),
        lambda: sessions.put(Windowed(b"k", 1, 1), b"late"),
        lambda: sessions.remove(Windowed(b"k", 1, 1)),
        lambda: duplicates.put(b"k", b"v", window_start=NOW),
        lambda: duplicates.put(b"k", b"late", window_start=1),
        lambda: duplicates.put(b"k", None, window_start=NOW),
    ]


def reads(windows, sessions, duplicates):
    return [
        lambda: windows.fetch_one(b"k", NOW),
        lambda: windows.fetch_one(b"k", 1),
        lambda: windows.fetch(b"k", 0, 1),
        lambda: windows.fetch_range(b"b", b"a"),
        lambda: sessions.fetch_session(b"k", 1, 1),
        lambda: sessions.find_sessions(b"k", 0, -1),
        lambda: duplicates.fetch_all(0, 1),
    ]


def test_a_closed_store_refuses_what_is_late_and_what_has_expired_too(home):
    with home.open() as state:
        opened = filled(state)
    for use in writes(*opened) + reads(*opened):
        with pytest.raises(StoreClosedError):
            use()
    assert [store.late for store in opened] == [0, 0, 0]


def test_so_does_a_store_in_a_fork(home):
    with home.open() as state:
        opened = filled(state)
        for use in writes(*opened) + reads(*opened):
            assert in_a_child(use) == ForkedHandleError.__name__


def test_so_does_a_read_only_store_what_is_written(home):
    with home.open() as state:
        filled(state)
    with home.open(read_only=True) as state:
        opened = open_all(state)
        for use in writes(*opened):
            with pytest.raises(UnsupportedError, match="read_only"):
                use()
        assert [store.late for store in opened] == [0, 0, 0]
        assert [store.stream_time for store in opened] == [NOW, NOW, NOW]


# The ends of time.


@pytest.mark.parametrize("now", [10_010, MAX_TIME])
def test_without_retention_nothing_is_later_than_the_horizon(home, now):
    with home.open() as state:
        windows = state.open(stores.window("w", 0, 0, segment_interval_ms=1000))
        sessions = state.open(stores.session("s", 0, 1000))
        for time in (now - 5, now):
            windows.put(b"k", b"v", window_start=time)
            sessions.put(Windowed(b"k", time, time), b"v")
        assert windows.fetch_one(b"k", now) is None
        assert sessions.fetch_session(b"k", now, now) is None
        for scan in (
            windows.fetch(b"k"),
            windows.all(),
            windows.fetch_range(b"a", b"z"),
            sessions.fetch(b"k"),
            sessions.find_sessions_between(None, None),
        ):
            assert list(scan) == []


@pytest.mark.parametrize("now", [10_010, MAX_TIME])
@pytest.mark.parametrize("indexed", [True, False])
def test_by_time_a_window_at_the_horizon_is_still_seen(home, now, indexed):
    with home.open() as state:
        spec = stores.window(
            "w", 0, 0, segment_interval_ms=1000, time_ordered=True, indexed=indexed
        )
        store = state.open(spec)
        for time in (now - 5, now):
            store.put(b"k", b"v", window_start=time)
        assert [start for start, _ in store.fetch(b"k")] == [now]
        assert [window.start for window, _ in store.all()] == [now]
        assert store.fetch_one(b"k", now) == b"v"
        assert store.fetch_one(b"k", now - 5) is None


@pytest.mark.parametrize("interval", [1, 1000, MAX_TIME])
@pytest.mark.parametrize("more", [{}, {"time_ordered": True}], ids=["keys first", "times first"])
def test_retention_for_all_of_time_keeps_both_ends_of_it(home, interval, more):
    spec = stores.window("w", MAX_TIME, MAX_TIME, segment_interval_ms=interval, **more)
    session_spec = stores.session("s", MAX_TIME, interval, **more)
    with home.open() as state:
        windows, sessions = state.open(spec), state.open(session_spec)
        for time in (MAX_TIME, 1, MAX_TIME - 1):
            windows.put(b"k", b"%d" % time, window_start=time)
        for start, end in ((0, MAX_TIME), (0, 1), (MAX_TIME, MAX_TIME)):
            sessions.put(Windowed(b"k", start, end), b"%d" % start)
    with home.open() as state:
        windows, sessions = state.open(spec), state.open(session_spec)
        wanted = [1, MAX_TIME - 1, MAX_TIME]
        assert [start for start, _ in windows.fetch(b"k")] == wanted
        assert [start for start, _ in windows.fetch(b"k", reverse=True)] == wanted[::-1]
        assert [window.end for window, _ in windows.all()] == [MAX_TIME] * 3
        assert windows.fetch_one(b"k", MAX_TIME) == b"%d" % MAX_TIME
        found = [(session.start, session.end) for session, _ in sessions.fetch(b"k")]
        assert found == [(0, 1), (0, MAX_TIME), (MAX_TIME, MAX_TIME)]
        assert sessions.fetch_session(b"k", 0, MAX_TIME) == b"0"
        assert (windows.late, sessions.late) == (0, 0)
        assert (windows.stream_time, sessions.stream_time) == (MAX_TIME, MAX_TIME)


def test_a_session_that_cannot_be_is_told_of_as_one(home):
    with home.open() as state:
        store = state.open(SESSIONS)
        with pytest.raises(ValueError, match=r"a session's start is -1; it must not be negative"):
            store.fetch_session(b"k", -1, 1)
        with pytest.raises(ValueError, match=r"a session's end 1 lies before its start 2"):
            store.fetch_session(b"k", 2, 1)
