"""Threads that write to one window or session store: none loses what another one puts."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable

import pytest

from kstore_core import Windowed, stores

WRITERS = 3


@pytest.fixture(autouse=True)
def frequent_switches():
    """Threads take over from each other wherever they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*works: Callable[[], None], beside: Callable[[], None] | None = None) -> None:
    """Run them in a thread each, and one over and over until these end; the first error counts."""
    errors: list[BaseException] = []
    done = threading.Event()

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    def repeat() -> None:
        while not done.is_set() and beside is not None:
            beside()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    other = threading.Thread(target=run, args=(repeat,))
    for thread in (*threads, other):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    other.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("more", [{}, {"time_ordered": True}], ids=["keys first", "times first"])
def test_duplicates_are_all_kept(home, more):
    count = 1000
    with home.open() as state:
        store = state.open(stores.window("s", 10**6, 1, retain_duplicates=True, **more))

        def write(writer: int) -> Callable[[], None]:
            def work() -> None:
                for number in range(count):
                    store.put(b"k", b"%d-%d" % (writer, number), window_start=5)

            return work

        together(*map(write, range(WRITERS)))
        values = [value for _, value in store.fetch(b"k")]
    assert sorted(values) == sorted(b"%d-%d" % (w, n) for w in range(WRITERS) for n in range(count))
    for writer in range(WRITERS):
        own = [int(value.split(b"-")[1]) for value in values if value.startswith(b"%d-" % writer)]
        assert own == list(range(count)), "each thread's in the order of its puts"


@pytest.mark.parametrize("budget", [-1, 2_000], ids=["staged", "spilling"])
def test_segments_expire_under_writers_and_readers(home, budget):
    steps, retention, interval = 250, 500, 50
    with home.open(uncommitted_max_bytes=budget) as state:
        store = state.open(stores.window("s", retention, 10, segment_interval_ms=interval))

        def write(writer: int) -> Callable[[], None]:
            def work() -> None:
                key = b"k%d" % writer
                for step in range(steps):
                    store.put(key, b"%d" % step, window_start=step * 10)
                    store.fetch_one(key, max(0, step * 10 - 400))

            return work

        def read() -> None:
            times = [window.start for window, _ in store.all()]
            segments = [time // interval for time in times]
            assert segments == sorted(segments)
            expired = store.stream_time - retention
            assert all(start > expired for start, _ in store.fetch(b"k0"))
            state.commit()

        together(*map(write, range(WRITERS)), beside=read)
        assert store.stream_time == (steps - 1) * 10
        horizon = store.stream_time - retention
        last = range(horizon + 10, store.stream_time + 10, 10)
        for writer in range(WRITERS):
            found = [start for start, _ in store.fetch(b"k%d" % writer)]
            assert found == sorted(found)
            assert set(found) <= set(last)
        whole = [w for w in range(WRITERS) if len(list(store.fetch(b"k%d" % w))) == len(last)]
        assert whole, "at least that of the thread which was ahead"
        assert store.table.segments == tuple(
            range(horizon // interval, store.stream_time // interval + 1)
        )
        state.commit()
    with home.open() as state:
        store = state.open(stores.window("s", retention, 10, segment_interval_ms=interval))
        assert store.stream_time == (steps - 1) * 10


def test_what_is_refused_is_counted_once_and_time_only_goes_forward(home):
    with home.open() as state:
        store = state.open(stores.session("s", 200_000, 10_000))
        store.put(Windowed(b"k", 0, 10**6), b"v")
        seen: list[int] = []

        def write() -> None:
            generator = random.Random(threading.get_ident())
            for _ in range(1000):
                store.put(Windowed(b"late", 0, 5), b"v")
                time = 10**6 + generator.randrange(100_000)
                store.put(Windowed(b"k", time, time), b"v")

        together(*[write] * WRITERS, beside=lambda: seen.append(store.stream_time))
        assert seen == sorted(seen)
        assert store.late == 1000 * WRITERS
        assert list(store.fetch(b"late")) == []
        times = [session.end for session, _ in store.fetch(b"k")]
        assert store.stream_time == max(times)
