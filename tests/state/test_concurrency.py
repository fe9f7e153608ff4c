"""Many threads that read one store while another one writes to it and commits."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kstore_core import open_state, stores
from kstore_core.discovery.registry import engine_class
from kstore_core.errors import StoreClosedError
from kstore_core.query import (
    MultiVersionedKeyQuery,
    RangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from kstore_core.testing import Faults, FaultyEngine
from kstore_core.testing.kinds import KEY_VALUE, SESSION, VERSIONED, WINDOW, Kind
from kstore_core.testing.store_suite.any_kind import INTERVAL_MS, get, items, put
from kstore_core.testing.store_suite.any_kind import scan as scan_of
from tests.support.engines import ENGINES, Home

THREADS = 64
SECONDS = 0.25
KEYS = [b"%02d" % number for number in range(12)]
RETENTION_MS = 10**9
KINDS = [KEY_VALUE[0], KEY_VALUE[2], VERSIONED[1], WINDOW[2], WINDOW[4], SESSION[1]]
LAID = [(KINDS[0], False), (KINDS[1], True), (KINDS[2], False), (KINDS[2], True), (KINDS[3], True),
        (KINDS[4], False), (KINDS[4], True), (KINDS[5], False)]  # fmt: skip
EACH = pytest.mark.parametrize("kind", KINDS, ids=str)
EACH_LAID = pytest.mark.parametrize(
    ("kind", "cached"),
    LAID,
    ids=[f"{kind}-{'cached' if cached else 'plain'}" for kind, cached in LAID],
)


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Threads take over from each other wherever they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def spec_of(kind: Kind, *, cached: bool) -> Any:
    times = () if kind.shape == "key_value" else (RETENTION_MS, INTERVAL_MS)
    spec = kind.spec("s", *times)
    return spec.with_cache(3000) if cached else spec


def write_all(kind: Kind, store: Any, number: int) -> None:
    for key in KEYS:
        put(kind, store, key, kind.record(b"%d" % number, number))


@contextmanager
def readers(
    *reads: Callable[[], object], threads: int, pause_s: float = 0
) -> Iterator[threading.Event]:
    """Run each read over and over, in as many threads as that makes, until the block is left."""
    over, failed = threading.Event(), threading.Event()
    faults: list[BaseException] = []

    def loop(read: Callable[[], object]) -> None:
        try:
            while not over.is_set():
                read()
                if pause_s:
                    over.wait(pause_s)
        except BaseException as error:  # noqa: BLE001 - carried to the test
            faults.append(error)
            failed.set()

    running = [
        threading.Thread(target=loop, args=(reads[index % len(reads)],)) for index in range(threads)
    ]
    for thread in running:
        thread.start()
    try:
        yield failed
    finally:
        over.set()
        for thread in running:
            thread.join(60)
    assert not [thread for thread in running if thread.is_alive()], "a reader hangs"
    if faults:
        raise faults[0]


def write_until(failed: threading.Event, write: Callable[[int], object], least: int = 3) -> int:
    """Write with rising numbers for a while."""
    until, number = time.monotonic() + SECONDS, 0
    while (time.monotonic() < until or number < least) and not failed.is_set():
        number += 1
        write(number)
    return number


def data_of(value: Any) -> bytes:
    return bytes(getattr(value, "aggregation", getattr(value, "value", value)))


class Seen(threading.local):
    """The newest number that a thread has seen of each key: it never sees an older one again."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def take(self, key: bytes, number: int) -> int:
        assert number >= self.numbers.get(key, 0), "time goes backward"
        self.numbers[key] = number
        return number


@EACH_LAID
def test_a_store_is_read_beside_its_writer(kind: Kind, cached: bool, home: Home) -> None:
    """Rows are on their way from cache to staging to engine all the time; none is missed."""
    with home.open(uncommitted_max_bytes=1500) as state:
        store = state.open(spec_of(kind, cached=cached))
        write_all(kind, store, 0)
        state.commit()
        seen = Seen()

        def points() -> None:
            for key in KEYS:
                record = get(kind, store, key)
                assert record is not None
                seen.take(key, int(record.data))

        def scan(*, reverse: bool) -> None:
            found = items(kind, store, reverse=reverse)
            if reverse:
                found.reverse()
            assert [key for key, _ in found] == KEYS
            numbers = [seen.take(key, int(record.data)) for key, record in found if record]
            assert len(numbers) == len(KEYS)
            assert max(numbers) - min(numbers) <= 1, "a scan is one moment"
            assert numbers == sorted(numbers, reverse=True), "and its writes came in this order"

        def history() -> None:
            versions = store.history(KEYS[5])
            starts = [version.timestamp for version in versions]
            assert starts == sorted(set(starts))
            assert store.get(KEYS[5], as_of=0).timestamp == 0
            assert len(store.get_many(KEYS, as_of=0)) == len(KEYS)

        def of_one_key() -> None:
            for key in KEYS:
                found = list(store.fetch(key))
                assert len(found) == 1
                seen.take(key, int(data_of(found[0][1])))

        reads = [points, lambda: scan(reverse=False), lambda: scan(reverse=True)]
        if kind.shape in ("window", "session"):
            reads.append(of_one_key)
        if kind.shape == "versioned":
            reads.append(history)
        with readers(*reads, threads=2 * len(reads)) as failed:

            def write(number: int) -> None:
                write_all(kind, store, number)
                if number % 3 == 0:
                    state.commit({("t", 0): number})

            last = write_until(failed, write)
        assert {record.data for _, record in items(kind, store) if record} == {b"%d" % last}


@EACH_LAID
def test_a_commit_is_seen_whole_or_not_at_all(kind: Kind, cached: bool, home: Home) -> None:
    """All rows of a commit have one number; who asks for what is committed sees one number."""
    in_segments = home.engine == "rocksdb" and kind.shape in ("window", "session")
    with home.open(transactional=True) as state:
        spec = spec_of(kind, cached=cached)
        store = state.open(spec)
        seen = Seen()

        def write(number: int) -> None:
            with state.record(topic="t", partition=0, offset=number):
                write_all(kind, store, number)
            state.commit({("t", 0): number})

        write(0)

        def check(numbers: set[int]) -> None:
            assert len(numbers) == 1, f"half a commit: {numbers}"
            seen.take(b"", *numbers)

        def check_segments(found: list[tuple[Any, int]]) -> None:
            """Each has a database, and is seen as committed when it is first looked at."""
            by_segment: dict[int, set[int]] = {}
            for windowed, number in found:
                time = windowed.end if kind.shape == "session" else windowed.start
                by_segment.setdefault(time // INTERVAL_MS, set()).add(number)
            assert all(len(numbers) == 1 for numbers in by_segment.values()), by_segment

        def view() -> None:
            with state.committed() as whole:
                opened = whole.open(spec)
                found = [(key, int(data_of(value))) for key, value in scan_of(kind, opened)]
                offset = opened.offsets()["t", 0]
            if in_segments:
                check_segments(found)
            else:
                check({number for _, number in found})
                assert found[0][1] == offset

        def queried() -> None:
            result = store.query(queries[kind.shape], isolation="committed")
            position = result.position["t"][0]
            if kind.shape == "versioned":
                versions = [int(version.value) for version in result.get()]
                assert versions == list(range(position, -1, -1))
                return
            found = [(key, int(data_of(value))) for key, value in result.get()]
            if in_segments:
                check_segments(found)
            else:
                check({number for _, number in found})
                assert found[0][1] == position

        queries: dict[str, Any] = {
            "key_value": RangeQuery(),
            "versioned": MultiVersionedKeyQuery(KEYS[0]),
            "window": WindowRangeQuery.with_window_start_range(0, 10**6),
            "session": WindowRangeQuery.with_key(KEYS[0]),
        }
        with readers(view, queried, threads=6) as failed:
            write_until(failed, write)
        assert state._snapshots is not None
        assert state._snapshots._newest.users <= 2


def test_a_store_is_read_beside_its_writer_while_it_is_upgraded(home: Home) -> None:
    """Lookups move rows to the new format while another thread replaces and deletes them."""
    with home.open() as state:
        state.open(stores.key_value("s")).put_all([(key, b"0") for key in KEYS])
    with home.open(uncommitted_max_bytes=800) as state:
        store = state.open(stores.timestamped_key_value_with_headers("s"))
        seen = Seen()

        def look(keys: list[bytes]) -> None:
            for key in keys:
                if (record := store.get(key)) is not None:
                    seen.take(key, int(record.value))

        def scan() -> None:
            found = list(store.all())
            assert [key for key, _ in found if key != KEYS[0]] == KEYS[1:]
            numbers = [seen.take(key, int(record.value)) for key, record in found]
            assert max(numbers) - min(numbers) <= 1, "a scan is one moment"

        with readers(lambda: look(KEYS[:4]), scan, threads=6) as failed:

            def write(number: int) -> None:
                for key in KEYS:
                    store.put(key, b"%d" % number, timestamp=number)
                if number % 3 == 0:
                    store.delete(KEYS[0])
                    state.commit()

            write_until(failed, write)


@pytest.mark.slow
def test_whatever_may_be_called_by_any_thread_is(home: Home) -> None:
    kinds = [KEY_VALUE[2], VERSIONED[1], WINDOW[2], SESSION[1]]
    specs = {kind: kind.spec(str(kind), *((RETENTION_MS, INTERVAL_MS) if kind.shape != "key_value"
             else ())).with_cache().with_metrics() for kind in kinds}  # fmt: skip
    with home.open(transactional=True, uncommitted_max_bytes=-1) as state:
        opened = {kind: state.open(spec) for kind, spec in specs.items()}
        for kind, store in opened.items():
            write_all(kind, store, 0)
        state.commit({("t", 0): 0})

        def says() -> None:
            assert state.open(specs[kinds[0]]) is opened[kinds[0]]
            assert state.stores() == sorted(map(str, kinds))
            assert set(state.offsets()) <= {("t", 0)}
            assert state.staged_bytes >= 0
            assert {metric.name for metric in state.measure()} >= {"uncommitted-bytes"}
            for kind, store in opened.items():
                assert store.offsets()["t", 0] >= 0
                assert set(store.position) <= {"t", "u"}
                assert (store.stream_time is None) is (kind.shape == "key_value")

        def reads() -> None:
            for kind, store in opened.items():
                assert len(items(kind, store)) >= len(KEYS)
                assert get(kind, store, KEYS[3]) is not None

        def asks() -> None:
            plain, versioned, window, session = opened.values()
            for query, store in (
                (RangeQuery(KEYS[2], KEYS[4]), plain),
                (VersionedKeyQuery(KEYS[2], 0), versioned),
                (WindowKeyQuery(KEYS[2], 0, 10**6), window),
                (WindowRangeQuery.with_key(KEYS[2]), session),
            ):
                result = store.query(query).get()
                assert result is not None
                if hasattr(result, "peek"):
                    assert list(result)
            assert versioned.query(VersionedKeyQuery(KEYS[2]), isolation="committed").get()
            with state.committed() as view:
                spec = specs[kinds[0]]
                assert len(view.open(spec).get_many(KEYS)) == len(KEYS)
                assert view.offsets()["t", 0] == view.open(spec).offsets()["t", 0]

        def puts() -> None:
            for kind, store in opened.items():
                key = b"of thread %d" % threading.get_ident()
                if kind.shape == "key_value":
                    store.put(key, b"v", timestamp=1)
                    assert store.get(key).value == b"v"
                    store.delete(key)
                    assert store.get(key) is None

        # They all begin at once; without a pause then the writer would hardly get a turn.
        with readers(says, reads, asks, puts, threads=THREADS, pause_s=0.1) as failed:

            def write(number: int) -> None:
                topic = "t" if number % 2 else "u"
                with state.record(topic=topic, partition=number % 7, offset=number, timestamp=1):
                    for kind, store in opened.items():
                        write_all(kind, store, number)
                state.commit({("t", 0): number})

            write_until(failed, write, least=20)


@EACH
def test_what_many_threads_put_is_all_there(kind: Kind, home: Home) -> None:
    """Of each key the writes of one thread; of a versioned store the versions of all of them."""
    spec = spec_of(kind, cached=False)
    threads, count = 8, 40
    with home.open(uncommitted_max_bytes=3000) as state:
        store = state.open(spec)
        begin = threading.Barrier(threads)

        def write(number: int) -> None:
            begin.wait()
            for at in range(count):
                if kind.shape == "versioned":
                    store.put(b"k", b"%d" % number, timestamp=at * threads + number)
                put(kind, store, b"%02d" % number, kind.record(b"%d" % at, at))

        running = [threading.Thread(target=write, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        state.commit()
    with home.open() as state:
        store = state.open(spec)
        for number in range(threads):
            record = get(kind, store, b"%02d" % number)
            assert record is not None
            assert record.data == b"%d" % (count - 1)
        if kind.shape == "versioned":
            versions = store.history(b"k")
            assert [v.timestamp for v in versions] == list(range(count * threads))
            assert store.stream_time == count * threads - 1


def test_commits_of_two_threads_take_turns(tmp_path: Any) -> None:
    faults = Faults()
    engine = FaultyEngine(engine_class("memory")(), faults)
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(stores.key_value("s"))
        store.put(b"a", b"1")
        faults.delay("write", 0.3)
        other = threading.Thread(target=state.commit, args=({("t", 0): 1},))
        other.start()
        time.sleep(0.1)
        store.put(b"b", b"2")
        faults.delay("write", 0)
        state.commit({("t", 0): 2})
        other.join()
        assert state.staged_bytes == 0
        assert list(store.all()) == [(b"a", b"1"), (b"b", b"2")]
        assert state.offsets() == {("t", 0): 2}


@pytest.mark.parametrize("engine_name", ["memory", "rocksdb"])
@pytest.mark.parametrize("shape", ["key_value", "window"])
def test_a_close_waits_for_a_commit_of_another_thread(
    tmp_path: Any, engine_name: str, shape: str
) -> None:
    """Else offsets could be written without the rows, which a close forgets."""
    faults = Faults()
    inner = engine_class(engine_name)()
    spec = stores.key_value("s") if shape == "key_value" else stores.window("s", 9, 2)
    state = open_state(tmp_path, engine=FaultyEngine(inner, faults))
    store = state.open(spec)
    if shape == "key_value":
        store.put(b"a", b"1")
    else:
        store.put(b"a", b"1", window_start=0)
    faults.delay("write", 0.2)
    other = threading.Thread(target=state.commit, args=({("t", 0): 1},))
    other.start()
    time.sleep(0.1)
    state.close()
    assert not state._staging.staged_bytes
    other.join()
    with open_state(tmp_path, engine=inner) as again:
        assert len(list(again.open(spec).all())) == 1
        assert again.offsets() == {("t", 0): 1}


def test_a_closed_segment_is_not_opened_again(tmp_path: Any) -> None:
    """By a thread that was about to: nobody would close it."""
    with open_state(tmp_path, engine="rocksdb") as state:
        state.open(stores.window("s", 9, 2)).put(b"a", b"1", window_start=0)
        segment = state._stores["s"]._storage._segments.segment(0)
    with pytest.raises(StoreClosedError):
        segment.wake()


CLOSING = """
import sys, threading
from kstore_core import open_state, stores
from kstore_core.errors import EngineError
from kstore_core.query import RangeQuery, WindowRangeQuery
path, engine = sys.argv[1:]
faults = []
for round in range(6):
    state = open_state(path, engine=engine, transactional=True)
    store = state.open(stores.key_value("s").with_cache(500))
    windows = state.open(stores.window("w", 100_000, 10, segment_interval_ms=100))
    for number in range(400):
        store.put(b"%04d" % number, b"v")
        windows.put(b"k", b"v", window_start=number)
    state.commit()

    def read():
        try:
            while True:
                assert store.get(b"0007") == b"v"
                assert len(list(store.range(b"0100", b"0200"))) == 101
                assert len(list(windows.fetch(b"k", 0, 99))) == 100
                assert len(list(store.query(RangeQuery(), isolation="committed").get())) == 400
                with state.committed() as view:
                    assert view.open(stores.key_value("s")).get(b"0007") == b"v"
        except EngineError as error:
            ended.append(error)
        except BaseException as error:
            faults.append(error)
            raise

    ended = []
    threads = [threading.Thread(target=read) for _ in range(16)]
    for thread in threads:
        thread.start()
    threading.Event().wait(0.1)
    state.close()
    for thread in threads:
        thread.join(30)
    assert not [thread for thread in threads if thread.is_alive()], "a reader hangs"
    assert not faults, faults
    assert len(ended) == 16
print({type(error).__name__ for error in ended})
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", ENGINES)
def test_a_store_that_is_closed_under_its_readers_says_so(tmp_path: Any, engine_name: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CLOSING, str(tmp_path / "0_0"), engine_name],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "{'StoreClosedError'}"
