"""Readers beside a writer: in threads by ``state.committed()``, in processes read-only."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kstore_core import open_state, stores
from kstore_core.discovery.registry import engine_class
from kstore_core.errors import StoreClosedError, UncommittedLimitError, UnsupportedError
from kstore_core.testing import Faults, FaultyEngine
from kstore_core.testing.kinds import KINDS, LAYERED, Kind
from kstore_core.testing.store_suite.any_kind import get, items, put, spec
from tests.support.engines import Home

EACH_KIND = pytest.mark.parametrize("kind", [*KINDS, *LAYERED], ids=str)
KEYS = [b"%03d" % number for number in range(100)]
SECONDS = 1.5
AT = 50


def fill(kind: Kind, store: Any, keys: list[bytes], data: bytes, at: int = AT) -> None:
    for key in keys:
        put(kind, store, key, kind.record(data, at))


def data_of(kind: Kind, store: Any) -> set[bytes]:
    return {record.data for _, record in items(kind, store) if record is not None}


@EACH_KIND
def test_what_is_committed_is_seen_and_nothing_else(home: Home, kind: Kind) -> None:
    with home.open(transactional=True) as state:
        store = state.open(spec(kind))
        fill(kind, store, KEYS[:3], b"1")
        with state.committed() as view:
            if spec(kind).name in view.stores():
                assert items(kind, view.open(spec(kind))) == []
        state.commit({("t", 0): 1})
        fill(kind, store, KEYS[:4], b"2", AT + 1)
        with state.committed() as view:
            seen = view.open(spec(kind))
            assert [key for key, _ in items(kind, seen)] == KEYS[:3]
            assert data_of(kind, seen) == {b"1"}
            assert get(kind, seen, KEYS[3]) is None
            assert view.offsets() == seen.offsets() == {("t", 0): 1}
            assert len(items(kind, store)) == 4, "the writer reads its writes"
            state.commit({("t", 0): 2})
            assert data_of(kind, seen) == {b"1"}, "a view is one moment"
            assert seen.offsets() == {("t", 0): 1}
            for change in (lambda: put(kind, seen, b"k", kind.record(b"v", 50)), view.commit):
                with pytest.raises(UnsupportedError, match="read_only"):
                    change()
        with state.committed() as view:
            assert data_of(kind, view.open(spec(kind))) == {b"2"}
            assert view.offsets() == {("t", 0): 2}


def test_only_a_transactional_writer_has_committed_views(home: Home) -> None:
    with home.open() as state:
        state.open(stores.key_value("s"))
        with pytest.raises(UnsupportedError, match="transactional=True"):
            state.committed()
    with (
        home.open(read_only=True, transactional=True) as state,
        pytest.raises(UnsupportedError, match="transactional=True"),
    ):
        state.committed()
    with (
        home.open(transactional=True) as state,
        state.committed() as view,
        pytest.raises(UnsupportedError, match="transactional=True"),
    ):
        view.committed()


def test_a_view_of_a_store_that_is_being_upgraded_moves_nothing(home: Home) -> None:
    with home.open() as state:
        store = state.open(stores.key_value("s"))
        for key in KEYS:
            store.put(key, b"old")
    newer = stores.timestamped_key_value_with_headers("s").with_cache(500)
    with home.open(transactional=True) as state:
        store = state.open(newer)
        with state.committed() as view:
            seen = view.open(newer)
            assert {seen.get(key).value for key in KEYS} == {b"old"}
            for key in KEYS[:50]:
                assert store.get(key).timestamp == -1
            store.put(KEYS[0], b"new", timestamp=1)
            state.commit()
            assert [record.value for _, record in seen.all()] == [b"old"] * 100
        with state.committed() as view:
            values = [record.value for _, record in view.open(newer).all(reverse=True)]
            assert values == [b"old"] * 99 + [b"new"]


def test_a_view_ends_with_its_state_and_the_other_way_round_is_fine(home: Home) -> None:
    state = home.open(transactional=True)
    store = state.open(stores.key_value("s"))
    store.put(b"a", b"1")
    state.commit()
    view = state.committed()
    seen = view.open(stores.key_value("s"))
    other = state.committed()
    other.open(stores.key_value("s"))
    other.close()
    other.close()
    assert seen.get(b"a") == b"1"
    state.close()
    with pytest.raises(StoreClosedError):
        seen.get(b"a")
    view.close()
    with pytest.raises(StoreClosedError):
        seen.get(b"a")


def test_a_moment_ends_with_the_last_who_looks_at_it(home: Home) -> None:
    with home.open(transactional=True) as state:
        store = state.open(stores.key_value("s"))
        views = []
        for number in range(5):
            store.put(b"a", b"%d" % number)
            state.commit()
            views.append(state.committed())
        seen = [view.open(stores.key_value("s")) for view in views]
        for number in (3, 0, 4, 1, 2):
            assert seen[number].get(b"a") == b"%d" % number
            views[number].close()
        assert state._snapshots is not None
        assert state._snapshots._newest.users == 1


@EACH_KIND
def test_a_transaction_beyond_its_limit_is_refused_and_can_be_committed(
    home: Home, kind: Kind
) -> None:
    with home.open(transactional=True, uncommitted_max_bytes=2000) as state:
        store = state.open(spec(kind))
        with pytest.raises(UncommittedLimitError, match="uncommitted_max_bytes=2000"):
            fill(kind, store, KEYS, b"v" * 50)
        taken = len(items(kind, store))
        assert 5 < taken < 50
        assert len(items(kind, store)) == taken
        state.commit()
        assert state.staged_bytes == 0
        put(kind, store, KEYS[-1], kind.record(b"v" * 50, AT))
        with state.committed() as view:
            assert len(items(kind, view.open(spec(kind)))) == taken


def run_beside(read: Callable[[], object], write: Callable[[int], object], readers: int = 3) -> int:
    """Read in threads while this one writes; how often it wrote."""
    faults: list[BaseException] = []
    over = threading.Event()

    def loop() -> None:
        try:
            while not over.is_set():
                read()
        except BaseException as error:  # noqa: BLE001 - carried to the test
            faults.append(error)

    threads = [threading.Thread(target=loop) for _ in range(readers)]
    for thread in threads:
        thread.start()
    until, number = time.monotonic() + SECONDS, 0
    try:
        while time.monotonic() < until and not faults:
            number += 1
            write(number)
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
    assert not [thread for thread in threads if thread.is_alive()], "a reader hangs"
    if faults:
        raise faults[0]
    return number


@pytest.mark.slow
def test_threads_see_whole_commits_of_several_stores(home: Home) -> None:
    kinds = {kind: spec(kind, str(kind)) for kind in (*KINDS[:4], KINDS[5], KINDS[8], *LAYERED)}
    # A store of segments with databases of their own is seen segment by segment.
    whole = {
        kind: one
        for kind, one in kinds.items()
        if home.engine != "rocksdb" or kind.shape not in ("window", "session")
    }
    with home.open(transactional=True) as state:
        opened = {kind: state.open(one) for kind, one in whole.items()}

        def write(number: int) -> None:
            for kind, store in opened.items():
                fill(kind, store, KEYS[:10], b"%d" % number, AT + number)
            state.commit({("t", 0): number})

        write(0)
        last: dict[int, int] = {}

        def read() -> None:
            with state.committed() as view:
                seen = {kind: view.open(one) for kind, one in whole.items()}
                found = {data for kind, store in seen.items() for data in data_of(kind, store)}
                points = {
                    record.data
                    for kind, store in seen.items()
                    if (record := get(kind, store, KEYS[7])) is not None
                }
                (number,) = map(int, found)
                assert points == found
                assert view.offsets() == {("t", 0): number}
                assert number >= last.get(threading.get_ident(), 0)
                last[threading.get_ident()] = number

        assert run_beside(read, write) > 3
        assert max(last.values()) > 1


def test_segments_with_databases_are_seen_each_as_committed(tmp_path: Any) -> None:
    kind = LAYERED[2]
    with open_state(tmp_path / "0_0", engine="rocksdb", transactional=True) as state:
        store = state.open(spec(kind))
        fill(kind, store, KEYS, b"0")
        state.commit()

        def write(number: int) -> None:
            fill(kind, store, KEYS, b"%d" % number)
            state.commit()
            fill(kind, store, KEYS, b"not committed")

        def read() -> None:
            with state.committed() as view:
                found: dict[int, set[bytes]] = {}
                for window, value in view.open(spec(kind)).all():
                    found.setdefault(window.start, set()).add(value.value)
                assert len(found) == 3
                assert all(len(data) == 1 and data != {b"not committed"} for data in found.values())

        run_beside(read, write, readers=1)


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", ["memory", "lmdb", "rocksdb"])
def test_a_reader_does_not_wait_for_a_slow_commit(tmp_path: Any, engine_name: str) -> None:
    faults = Faults()
    engine = FaultyEngine(engine_class(engine_name)(), faults)
    with open_state(tmp_path / "0_0", engine=engine, transactional=True) as state:
        store = state.open(stores.key_value("s").with_cache())
        store.put(b"a", b"1")
        state.commit()
        store.put(b"a", b"2")
        faults.delay("write", 1.0)
        writer = threading.Thread(target=state.commit)
        writer.start()
        time.sleep(0.1)
        begin = time.perf_counter()
        with state.committed() as view:
            assert view.open(stores.key_value("s")).get(b"a") == b"1"
        assert time.perf_counter() - begin < 0.5
        writer.join()
        faults.calm()
        with state.committed() as view:
            assert view.open(stores.key_value("s")).get(b"a") == b"2"


READER = """
import sys
from kstore_core import open_state, stores
path, until = sys.argv[1], int(sys.argv[2])
last = seen = 0
while last < until:
    with open_state(path, read_only=True) as state:
        store = state.open(stores.timestamped_key_value_with_headers("s"))
        numbers = {int(record.value) for _, record in store.all()}
        assert len(numbers) == 1, numbers
        (number,) = numbers
        assert store.offsets() == {("t", 0): number}, (store.offsets(), number)
        assert number >= last, (number, last)
        last, seen = number, seen + 1
print(seen)
"""


@pytest.mark.parametrize("engine_name", ["lmdb", "rocksdb"])
@pytest.mark.parametrize("transactional", [True, False])
def test_other_processes_see_whole_commits(
    tmp_path: Any, engine_name: str, transactional: bool
) -> None:
    path = tmp_path / "0_0"
    described = stores.timestamped_key_value_with_headers("s").with_cache()
    with open_state(path, engine=engine_name, transactional=transactional) as state:
        store = state.open(described)

        def write(number: int) -> None:
            for key in KEYS:
                store.put(key, b"%d" % number, timestamp=number, headers=[("h", b"v")])
            state.commit({("t", 0): number})

        write(0)
        reader = subprocess.Popen(
            [sys.executable, "-c", READER, str(path), "30"], stdout=subprocess.PIPE, text=True
        )
        try:
            number = 0
            while reader.poll() is None and number < 20_000:
                number += 1
                write(number)
                store.put(KEYS[0], b"-1", timestamp=1)
                time.sleep(0.01)
            seen, _ = reader.communicate(timeout=60)
        finally:
            reader.kill()
            reader.communicate()
    assert reader.returncode == 0
    assert int(seen) >= 1


WRITER = """
import os, signal, sys
from kstore_core import open_state, stores
state = open_state(sys.argv[1], engine=sys.argv[2], transactional=True)
orders = state.open(stores.key_value("orders").with_cache(300))
windows = state.open(stores.window("windows", 100_000, 10, segment_interval_ms=100).with_cache(300))
for number in range(3):
    for key in range(50):
        orders.put(b"%03d" % key, b"%d" % number)
        windows.put(b"%03d" % key, b"%d" % number, window_start=key * 10)
    if number < 2:
        state.commit({("t", 0): number})
state.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("engine_name", ["lmdb", "rocksdb"])
def test_what_a_killed_writer_had_not_committed_is_gone(tmp_path: Any, engine_name: str) -> None:
    path = tmp_path / "0_0"
    killed = subprocess.run([sys.executable, "-c", WRITER, str(path), engine_name], check=False)
    assert killed.returncode == -9
    with open_state(path) as state:
        orders = state.open(stores.key_value("orders"))
        windows = state.open(stores.window("windows", 100_000, 10, segment_interval_ms=100))
        assert list(orders.all()) == [(b"%03d" % key, b"1") for key in range(50)]
        assert [value for _, value in windows.all()] == [b"1"] * 50
        assert state.offsets() == {("t", 0): 1}


@EACH_KIND
def test_a_close_without_a_commit_discards(home: Home, kind: Kind) -> None:
    state = home.open(transactional=True)
    store = state.open(spec(kind))
    fill(kind, store, KEYS[:5], b"1")
    state.commit()
    fill(kind, store, KEYS, b"2")
    state.flush()
    state.close()
    with home.open() as state:
        assert data_of(kind, state.open(spec(kind))) == {b"1"}
