"""Large keys, values, headers and commits, and several threads."""

import itertools
import threading

import pytest

from kstore_core import ValueTimestampHeaders, open_state, stores
from kstore_core.errors import StoreClosedError

HEADERS = stores.timestamped_key_value_with_headers("h")
PLAIN = stores.key_value("s")


@pytest.mark.parametrize("engine", ["rocksdb"], indirect=True)
def test_a_key_of_a_mebibyte_and_a_value_of_sixteen(home, kind):
    key, value = b"k" * 2**20, bytes(range(256)) * 2**16
    with home.open(uncommitted_max_bytes=2**20) as state:
        store = state.open(kind.factory("s"))
        store.put(key, kind.wrap(value))
        store.put(key + b"x", kind.wrap(b""))
        assert state.staged_bytes < len(value)  # the first was spilled for the second
    with home.open() as state:
        store = state.open(kind.factory("s"))
        assert store.get(key) == kind.wrap(value)
        assert [found for found, _ in store.prefix_scan(key)] == [key, key + b"x"]
        assert store.delete(key) == kind.wrap(value)


@pytest.mark.parametrize("engine", ["rocksdb"], indirect=True)
def test_a_hundred_thousand_headers(home):
    headers = [(f"header-{number % 1000}", b"%d" % number) for number in range(100_000)]
    with home.open() as state:
        state.open(HEADERS).put(b"k", b"v", timestamp=1, headers=headers)
    with home.open() as state:
        record = state.open(HEADERS).get(b"k")
        assert list(record.headers) == headers
        assert len(record.headers.all("header-7")) == 100
        assert record.headers.last("header-999").value == b"99999"


@pytest.mark.parametrize("engine", ["rocksdb"], indirect=True)
def test_one_commit_of_two_hundred_thousand_rows(home):
    count = 200_000
    with home.open(uncommitted_max_bytes=-1) as state:
        store = state.open(PLAIN)
        for number in range(count):
            store.put(b"%07d" % (number * 7919 % count), b"%d" % number)
        assert state._staging.spills == 0
        state.commit({("t", 0): count})
    with home.open(read_only=True) as state:
        keys = [key for key, _ in state.open(PLAIN).all()]
        assert keys == [b"%07d" % number for number in range(count)]
        assert state.offsets() == {("t", 0): count}


def test_threads_read_while_one_writes_and_commits(home):
    """No crash, no torn chunk: rows are put in pairs that are always equal or one put apart."""
    failures = []
    stop = threading.Event()
    with home.open(uncommitted_max_bytes=20_000) as state:
        store = state.open(HEADERS)
        for number in range(500):
            store.put(b"%03d" % number, b"0", timestamp=0)
        state.commit()

        def read(reverse):
            try:
                while not stop.is_set():
                    found = list(store.all(reverse=reverse))
                    keys = [key for key, _ in found]
                    assert keys == sorted(keys, reverse=reverse)
                    assert len(keys) == 500
                    assert all(type(record) is ValueTimestampHeaders for _, record in found)
                    for key in keys[::50]:
                        record = store.get(key)
                        assert record.value == b"%d" % record.timestamp
                    assert None not in store.get_many(keys[::10])
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=read, args=(number % 2 == 0,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for number in range(1, 4000):
            store.put(b"%03d" % (number * 7 % 500), b"%d" % number, timestamp=number)
            if number % 500 == 0:
                state.commit({("t", 0): number})
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []
        latest = {number * 7 % 500: number for number in range(1, 4000)}
        assert {int(k): int(record.value) for k, record in store.all()} == {
            number: latest.get(number, 0) for number in range(500)
        }


def test_closing_while_threads_read_gives_closed_errors_only(home):
    results = []
    state = home.open()
    store = state.open(PLAIN)
    store.put_all((b"%04d" % number, b"v") for number in range(2000))
    state.commit()
    started = threading.Barrier(4)

    def read():
        started.wait()
        try:
            for _ in itertools.count():
                assert len(list(store.all())) == 2000
                assert store.get(b"0001") == b"v"
        except StoreClosedError:
            results.append("closed")
        except Exception as error:  # noqa: BLE001
            results.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    started.wait()
    state.close()
    for thread in threads:
        thread.join(timeout=30)
    assert results == ["closed"] * 3


def test_what_a_thread_puts_while_another_commits_is_not_lost(home):
    with home.open() as state:
        store = state.open(PLAIN)
        stop = threading.Event()

        def commit():
            while not stop.is_set():
                state.commit()

        thread = threading.Thread(target=commit)
        thread.start()
        for number in range(20_000):
            store.put(b"%d" % number, b"v")
        stop.set()
        thread.join()
        assert len(list(store.all())) == 20_000
    with home.open() as state:
        assert len(list(state.open(PLAIN).all())) == 20_000


def test_versions_by_the_thousand_of_one_key():
    with open_state("x", engine="memory") as state:
        store = state.open(stores.versioned_key_value("v", 10**9, 10**9))
        for timestamp in range(5000, 0, -1):
            store.put(b"k", b"%d" % timestamp, timestamp=timestamp)
        assert [version.timestamp for version in store.history(b"k")] == list(range(1, 5001))
        assert store.get(b"k", as_of=1234).value == b"1234"
