"""Who writes to a window store while another thread is in the middle of it has to wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from kstore_core import stores
from kstore_core.errors import EngineError
from kstore_core.tables import Bounds
from kstore_core.tables.segments.child import Child
from kstore_core.tables.segments.prefixes import _PrefixedSegment
from kstore_core.typed import WindowStore
from tests.tables.segments.rows import INTERVAL, row, rows_of, six_segments, window_spec

PAUSE = 0.3


class Pause:
    """Where a thread stays for a while, so that another one can come in between."""

    def __init__(self) -> None:
        self.reached = threading.Event()

    def __call__(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            time.sleep(PAUSE)

    def run(self, first: Callable[[], object], second: Callable[[], object]) -> list[object]:
        """Call the second while the first is at the pause; what came of each."""
        outcomes: list[object] = [None, None]

        def call(at: int, use: Callable[[], object]) -> None:
            try:
                outcomes[at] = use()
            except BaseException as error:  # noqa: BLE001
                outcomes[at] = error

        threads = [threading.Thread(target=call, args=pair) for pair in enumerate((first, second))]
        threads[0].start()
        assert self.reached.wait(10)
        threads[1].start()
        for thread in threads:
            thread.join()
        return outcomes


@pytest.fixture
def at_open(monkeypatch):
    """Have the opening of a segment pause, and do what it is given."""

    def set_up(number: int, then: Callable[[], None] = lambda: None) -> Pause:
        pause = Pause()
        for segment in (Child, _PrefixedSegment):
            before = segment.open

            def opened(self, before=before):
                if self.id == number:
                    pause()
                    then()
                return before(self)

            monkeypatch.setattr(segment, "open", opened)
        return pause

    return set_up


def test_two_puts_do_not_get_the_same_number(home, monkeypatch):
    pause = Pause()
    highest = WindowStore._highest

    def slow(self, key, start):
        found = highest(self, key, start)
        pause()
        return found

    monkeypatch.setattr(WindowStore, "_highest", slow)
    with home.open() as state:
        store = state.open(stores.window("s", 100, 1, retain_duplicates=True))
        outcomes = pause.run(
            lambda: store.put(b"k", b"first", window_start=5),
            lambda: store.put(b"k", b"second", window_start=5),
        )
        assert outcomes == [None, None]
        assert [value for _, value in store.fetch(b"k")] == [b"first", b"second"]


def test_two_expiries_take_nothing_away_twice(home, at_open):
    with six_segments(home.open) as state:
        table = state.open(window_spec()).table
        scan = table.scan(Bounds())
        pause = at_open(1)
        assert pause.run(lambda: table.expire(2), lambda: table.expire(3)) == [None, None]
        assert table.segments == (3, 4, 5)
        assert table.dropped == 3
        assert [key for key, _ in rows_of(table)] == [row(n * INTERVAL) for n in (3, 4, 5)]
        assert sum(len(keys) for keys, _ in scan) == 6, "as of its call"


def test_a_put_does_not_bring_a_segment_back_that_expires_meanwhile(home, at_open):
    with home.open() as state:
        table = state.open(window_spec()).table
        pause = at_open(1)
        outcomes = pause.run(
            lambda: table.put_one(row(INTERVAL), b"v"),
            lambda: (table.expire(5), state.commit()),
        )
        assert outcomes == [None, (None, None)]
        table.put_one(row(5 * INTERVAL), b"v")
        assert table.segments == (5,)
        assert rows_of(table) == [(row(5 * INTERVAL), b"v")]
        assert table.get(row(INTERVAL)) is None


def test_a_put_that_fails_takes_no_other_ones_time_back(home, at_open):
    def fail() -> None:
        raise EngineError("no database today")

    with home.open() as state:
        store = state.open(window_spec())
        store.put(b"k", b"v", window_start=0)
        pause = at_open(9, fail)
        outcomes = pause.run(
            lambda: store.put(b"k", b"v", window_start=95),
            lambda: store.put(b"k", b"v", window_start=50),
        )
        assert isinstance(outcomes[0], EngineError)
        assert outcomes[1] is None
        assert store.stream_time == 50
        assert [start for start, _ in store.fetch(b"k", 0, 50)] == [0, 50]


@pytest.mark.parametrize("read", ["get", "get_many", "scan"])
def test_a_read_of_a_segment_that_is_dropped_meanwhile_finds_nothing(home, at_open, read):
    with six_segments(home.open) as state:
        table = state.open(window_spec()).table
        key = row(INTERVAL)
        pause = at_open(1)
        use = {
            "get": lambda: table.get(key),
            "get_many": lambda: table.get_many([key])[0],
            "scan": lambda: rows_of(table, segment_lo=1, segment_hi=1) or None,
        }[read]
        outcomes = pause.run(use, lambda: (table.expire(3), state.commit()))
        assert outcomes[0] in (None, b"1", [(key, b"1")])
        assert outcomes[1] == (None, None)
        state.commit()
    with home.open() as state:
        assert state.open(window_spec()).table.segments == (3, 4, 5)
