"""Threads that read while databases are closed and opened under them, and while another writes."""

from __future__ import annotations

import random
import threading
import time

import pytest

from kstore_core import open_state
from kstore_core.tables.segments import sleeping
from kstore_core.tables.segments.prefixes import _PrefixedSegment
from tests.tables.segments.rows import INTERVAL, row, rows_of, window_spec

SEGMENTS = 8


def test_readers_lose_nothing_while_segments_come_and_go(home, few_open):
    with home.open() as state:
        table = state.open(window_spec()).table
        for number in range(SEGMENTS):
            table.put_one(row(number * INTERVAL), b"0")
        state.commit()
        errors: list[BaseException] = []
        done = threading.Event()

        def read(seed: int) -> None:
            generator = random.Random(seed)
            keys = [row(number * INTERVAL) for number in range(SEGMENTS)]
            try:
                while not done.is_set():
                    key = generator.choice(keys)
                    assert table.get(key) is not None
                    assert None not in table.get_many(generator.sample(keys, 3))
                    assert table.first() is not None
                    assert len(rows_of(table)) == SEGMENTS
            except BaseException as error:  # noqa: BLE001
                errors.append(error)

        readers = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
        for reader in readers:
            reader.start()
        end = time.monotonic() + 3
        count = 0
        while (time.monotonic() < end or count < 4) and not errors:
            count += 1
            for number in random.Random(count).sample(range(SEGMENTS), 3):
                table.put_one(row(number * INTERVAL), b"%d" % count)
            state.commit({("t", 0): count})
        done.set()
        for reader in readers:
            reader.join()
        assert not errors, errors
    with home.open() as state:
        store = state.open(window_spec())
        assert store.offsets() == {("t", 0): count}
        assert len(rows_of(store.table)) == SEGMENTS


def test_a_table_that_a_thread_is_inside_of_is_not_replaced(tmp_path, monkeypatch):
    """Two threads come to a segment first; the table of the one that was quicker stays."""
    with open_state(tmp_path, engine="lmdb") as state:
        state.open(window_spec()).table.put_one(row(0), b"0")
    opens = _PrefixedSegment.open
    slower, quicker = threading.Event(), threading.Event()
    found = []

    def wait_for_the_quicker(segment):
        if threading.current_thread() is late:
            slower.set()
            assert quicker.wait(10)
        found.append(segment)
        return opens(segment)

    with open_state(tmp_path, read_only=True) as state:
        table = state.open(window_spec()).table
        monkeypatch.setattr(_PrefixedSegment, "open", wait_for_the_quicker)
        late = threading.Thread(target=table.get, args=(row(0),))
        late.start()
        assert slower.wait(10)
        assert table.get(row(0)) == b"0"
        by_quicker = found[0].table
        quicker.set()
        late.join()
        assert len(found) == 2
        assert found[0] is found[1]
        assert found[0].table is by_quicker


@pytest.mark.parametrize("engine", ["rocksdb"])  # Its segments are databases of their own.
def test_a_lookup_that_began_before_its_segment_was_dropped(home, few_open, monkeypatch):
    lookup = sleeping._SleepingNamespace.get
    threads: list[threading.Thread] = []

    def switched(namespace, key):
        """Look up as if the interpreter switched threads here."""
        if threads and threads[0].ident is None:
            threads[0].start()
            threads[0].join()
        return lookup(namespace, key)

    def expire():
        store.put(b"k", b"new", window_start=SEGMENTS * INTERVAL)
        state.commit()

    monkeypatch.setattr(sleeping._SleepingNamespace, "get", switched)
    with home.open() as state:
        store = state.open(window_spec(retention_ms=(SEGMENTS - 3) * INTERVAL))
        for number in range(SEGMENTS - 2):
            store.put(b"k", b"%d" % number, window_start=number * INTERVAL)
        state.commit()
        threads.append(threading.Thread(target=expire))
        assert store.fetch_one(b"k", INTERVAL) is None
        assert threads[0].ident is not None
        assert store.table.segments == (3, 4, 5, 8)
    assert [path.name for path in home.path.rglob("*.10")] == []
