"""The cached layer: what goes down when, under which record, and how it merges."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import Header, Headers, open_state, stores
from kstore_core.changelog import ChangelogDirectory
from kstore_core.engine.ordered import OrderedRows
from kstore_core.errors import (
    KeyTooLongError,
    StateError,
    StoreClosedError,
    UncommittedLimitError,
    UnsupportedError,
)
from kstore_core.layers import CacheBudget, Cached
from kstore_core.layers.current_record import CurrentRecord, OpenRecord
from kstore_core.layers.merging import merged_segments
from kstore_core.tables import Bounds, Layer, NamespaceTable, Table, Write
from kstore_core.tables.staging import StagedNamespace, Staging
from kstore_core.testing.running import quick
from kstore_core.types import RecordContext
from kstore_memory import MemoryEngine
from tests.support.engines import Home

EMPTY = 25 + 20
"""What an entry takes beside its key and value."""


class Noting(Layer):
    """A layer that notes what comes down to it: the place of a changelog."""

    def __init__(self, below: Table) -> None:
        super().__init__(below)
        self.batches: list[list[Write]] = []
        self.reads = 0
        self.error: Exception | None = None

    def write(self, writes: Iterable[Write]) -> None:
        batch = list(writes)
        if self.error is not None:
            raise self.error
        self.below.write(batch)
        self.batches.append(batch)

    def get(self, key: bytes) -> bytes | None:
        self.reads += 1
        return self.below.get(key)


class Place:
    """A cache over a noting layer over a staged namespace."""

    def __init__(self, tmp_path: Any, max_bytes: int = 1 << 20, **staging: Any) -> None:
        self.staging = Staging(staging.pop("limit", -1), **staging)
        self.database = MemoryEngine().open(tmp_path, "s")
        self.below = Noting(NamespaceTable(StagedNamespace(self.staging, self.database, "default")))
        self.current_record = CurrentRecord()
        self.budget = CacheBudget(max_bytes)
        self.cache = Cached(self.below, self.budget, self.current_record)

    def work_on(self, record: RecordContext) -> None:
        """Have writes from now on come from a record."""
        OpenRecord(self.current_record, record).enter()


@pytest.fixture
def place(tmp_path: Any) -> Place:
    return Place(tmp_path)


def context(offset: int) -> RecordContext:
    return RecordContext("t", 0, offset, offset * 10, Headers([("h", b"%d" % offset)]))


def rows(table: Any, lo: Any = None, hi: Any = None, *, reverse: bool = False) -> list[Any]:
    chunks = table.scan(Bounds(lo, hi, reverse))
    return [pair for keys, values in chunks for pair in zip(keys, values, strict=True)]


def test_one_row_a_key_goes_down_under_its_last_record_in_last_write_order(place: Place) -> None:
    for offset, key in enumerate([b"a", b"b", b"c", b"a", b"d", b"b"]):
        place.work_on(context(offset))
        place.cache.put_one(key, b"%d" % offset)
    assert place.below.batches == []
    place.work_on(context(99))
    assert place.cache.flush()
    assert [
        [(w.key, w.value, w.context.offset) for w in batch] for batch in place.below.batches
    ] == [[(b"c", b"2", 2), (b"a", b"3", 3), (b"d", b"4", 4), (b"b", b"5", 5)]]
    assert list(place.below.batches[0][0].context.headers) == [("h", b"2")]
    assert not place.cache.flush(), "what was flushed is clean"


def test_a_write_without_a_record_is_not_taken_for_one_of_the_record_that_flushes(
    place: Place,
) -> None:
    place.cache.put_one(b"a", b"1")
    place.cache.write([Write(b"b", b"2", context(7)), Write(b"c", b"3")])
    place.work_on(context(8))
    place.cache.write([Write(b"d", b"4")])
    place.cache.flush()
    assert [w.context.offset for w in place.below.batches[0]] == [-1, 7, -1, 8]
    assert place.below.batches[0][0].context.topic is None


def test_sizes_are_kafkas(place: Place) -> None:
    place.cache.put_one(b"key", b"value")
    assert place.budget.used_bytes == 3 + 5 + EMPTY
    place.work_on(RecordContext("topic", 0, 1, 2, Headers([("name", b"12"), ("n", None)])))
    place.cache.put_one(b"key", b"longer value")
    assert place.budget.used_bytes == 3 + 12 + EMPTY + 5 + 4 + 2 + 1
    place.cache.put_one(b"key", None)
    assert place.budget.used_bytes == 3 + EMPTY + 5 + 4 + 2 + 1
    place.cache.flush()
    assert place.budget.used_bytes == 0, "a tombstone that is flushed is not kept"
    place.below.put_one(b"x", b"12")
    place.cache.get(b"x")
    assert place.budget.used_bytes == 1 + 2 + EMPTY


def test_the_one_used_longest_ago_makes_room_and_all_dirty_ones_are_flushed(tmp_path: Any) -> None:
    entry = 1 + 1 + EMPTY
    place = Place(tmp_path, 3 * entry)
    for key in (b"a", b"b", b"c"):
        place.cache.put_one(key, b"1")
    place.cache.get(b"a")
    assert place.below.batches == []
    place.cache.put_one(b"d", b"1")
    assert [[w.key for w in batch] for batch in place.below.batches] == [[b"a", b"b", b"c", b"d"]]
    assert place.budget.used_bytes == 3 * entry
    reads = place.below.reads
    for key in (b"c", b"a", b"d"):
        assert place.cache.get(key) == b"1"
    assert place.below.reads == reads, "these have stayed"
    assert place.cache.get(b"b") == b"1"
    assert place.below.reads == reads + 1, "b made room, for a had been read"


def test_clean_reads_are_cached_and_misses_are_not(place: Place) -> None:
    place.below.put_one(b"a", b"1")
    assert [place.cache.get(b"a") for _ in range(3)] == [b"1"] * 3
    assert [place.cache.get(b"b") for _ in range(3)] == [None] * 3
    assert place.below.reads == 1 + 3
    assert (place.cache.hits, place.cache.misses) == (2, 4)
    place.cache.put_one(b"a", None)
    assert place.cache.get(b"a") is None
    assert place.below.reads == 4, "a tombstone is cached"
    assert place.cache.get_many([b"a", b"b"]) == [None, None]


def test_what_fails_below_stays_dirty(place: Place) -> None:
    place.cache.put_one(b"a", b"1")
    place.below.error = StateError("full")
    with pytest.raises(StateError, match="full"):
        place.cache.flush()
    assert place.cache.get(b"a") == b"1"
    assert place.cache.dirty_bytes == place.staging.staged_bytes == 2
    assert not place.staging.admitted
    place.below.error = None
    place.cache.flush()
    assert place.below.below.get(b"a") == b"1"
    assert place.cache.dirty_bytes == 0
    assert place.staging.staged_bytes == 2, "counted once, in the staging"


def test_flushes_of_two_threads_take_turns(place: Place, monkeypatch: Any) -> None:
    """Else an older row of a key could go down after a newer one."""
    write = place.below.write

    def slow(writes: Iterable[Write]) -> None:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.3)
        write(writes)

    monkeypatch.setattr(place.below, "write", slow)
    place.cache.put_one(b"a", b"1")
    other = threading.Thread(target=place.cache.flush)
    other.start()
    time.sleep(0.1)
    place.cache.put_one(b"a", b"2")
    place.cache.flush()
    other.join()
    assert place.below.below.get(b"a") == place.cache.get(b"a") == b"2"


def test_a_limit_holds_after_two_caches_were_flushed_at_once(
    place: Place, monkeypatch: Any
) -> None:
    """What is flushed is admitted, until each of the threads has ended."""
    other = Noting(NamespaceTable(StagedNamespace(place.staging, place.database, "other")))
    cache = Cached(other, place.budget, place.current_record)
    begun, ended = threading.Event(), threading.Event()
    monkeypatch.setattr(other, "write", lambda writes: begun.set() or ended.wait(10))
    monkeypatch.setattr(
        place.below, "write", lambda writes: cache_flushes.start() or begun.wait(10)
    )
    cache_flushes = threading.Thread(target=cache.flush)
    cache.put_one(b"b", b"1")
    place.cache.put_one(b"a", b"1")
    place.cache.flush()
    assert place.staging.admitted
    ended.set()
    cache_flushes.join()
    assert not place.staging.admitted


def test_writes_are_refused_when_they_are_made(tmp_path: Any) -> None:
    place = Place(tmp_path, limit=100, transactional=True, max_key_bytes=10)
    with pytest.raises(KeyTooLongError):
        place.cache.put_one(bytes(11), b"")
    with pytest.raises(KeyTooLongError):
        place.cache.write([Write(b"a", b"1"), Write(bytes(11), b"")])
    with pytest.raises(UncommittedLimitError):
        place.cache.write([Write(b"a", b"1"), Write(b"b", bytes(99))])
    with pytest.raises(UncommittedLimitError):
        place.cache.put_one(b"b", bytes(100))
    with pytest.raises(TypeError):
        place.cache.put_one(None, b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        place.cache.get(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        place.cache.write([Write(b"a", b"1"), Write(b"b", "text")])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        place.cache.write([Write(b"a", b"1"), Write("text", b"2")])  # type: ignore[arg-type]
    assert rows(place.cache) == []
    place.cache.put_one(b"b", bytes(99))
    place.cache.put_one(b"b", bytes(98))
    assert place.staging.staged_bytes == 99
    place.cache.flush()
    assert place.staging.staged_bytes == 99


def test_a_key_that_segments_lengthen_is_refused_when_it_is_written(tmp_path: Any) -> None:
    with open_state(tmp_path / "0_0", engine="lmdb") as state:
        store = state.open(stores.window("w", 1000, 10).with_cache())
        longest = 511 - 8 - 12  # the segment before it, the window's start and number behind it
        with pytest.raises(KeyTooLongError):
            store.put(bytes(longest + 1), b"v", window_start=0)
        store.put(bytes(longest), b"v", window_start=0)
        state.commit()
        assert store.fetch_one(bytes(longest), 0) == b"v"


@given(
    below=st.dictionaries(st.binary(max_size=2), st.binary(max_size=2), max_size=20),
    upper=st.dictionaries(st.binary(max_size=2), st.none() | st.binary(max_size=2), max_size=20),
    lo=st.none() | st.binary(max_size=2),
    hi=st.none() | st.binary(max_size=2),
    reverse=st.booleans(),
)
@quick(150)
def test_a_scan_merges_both_ways(
    tmp_path_factory: Any, below: Any, upper: Any, lo: Any, hi: Any, reverse: bool
) -> None:
    place = Place(tmp_path_factory.mktemp("cached"))
    place.below.write([Write(key, value) for key, value in below.items()])
    for key in list(below)[::2]:
        place.cache.get(key)
    place.cache.write([Write(key, value) for key, value in upper.items()])
    model = {key: value for key, value in {**below, **upper}.items() if value is not None}
    wanted = [
        (key, model[key])
        for key in sorted(model, reverse=reverse)
        if (lo is None or lo <= key) and (hi is None or key < hi)
    ]
    scan = place.cache.scan(Bounds(lo, hi, reverse))
    for key in upper:
        place.cache.put_one(key, b"later")
    place.cache.flush()
    found = [pair for keys, values in scan for pair in zip(keys, values, strict=True)]
    assert found == wanted, "a scan is a moment"
    place.cache.delete_range(b"", None)
    assert rows(place.cache) == []
    assert place.cache.first() is None
    assert place.budget.used_bytes == 0


def test_deletes_of_ranges_and_loads_leave_nothing_stale(place: Place) -> None:
    place.cache.write([Write(b"%d" % number, b"dirty") for number in range(5)])
    place.cache.flush()
    place.cache.put_one(b"2", b"dirtier")
    place.cache.delete_range(b"1", b"4")
    assert rows(place.cache) == [(b"0", b"dirty"), (b"4", b"dirty")]
    assert place.cache.get(b"2") is None
    place.cache.put_one(b"3", b"put")
    # Staged rows stay above what is loaded, cached or not.
    place.cache.load([([b"3", b"5", b"6"], [b"l3", b"l5", b"l6"])])
    assert place.cache.get(b"5") == b"l5"
    assert place.cache.get(b"3") == b"put"
    place.cache.load([([b"5"], [b"again"])])
    assert place.cache.get(b"5") == b"again", "what was read before the load is not kept"
    assert place.cache.approximate_count() >= 4


def test_a_reader_that_was_overtaken_caches_nothing(place: Place) -> None:
    place.below.put_one(b"a", b"old")
    below, cache = place.below.below, place.cache

    def get(key: bytes) -> bytes | None:
        found = below.get(key)
        cache.put_one(key, b"new")
        cache.put_one(key, None)
        cache.flush()
        return found

    place.below.get = get  # type: ignore[method-assign]
    cache = Cached(place.below, place.budget, place.current_record)
    assert cache.get(b"a") == b"old"
    place.below.get = below.get  # type: ignore[method-assign]
    assert cache.get(b"a") is None


def test_a_shared_budget_evicts_from_the_store_that_is_written_to(home: Home) -> None:
    with home.open(cache_max_bytes=20 * (4 + 4 + EMPTY)) as state:
        first = state.open(stores.key_value("first").with_cache())
        second = state.open(stores.key_value("second").with_cache())
        own = state.open(stores.key_value("own").with_cache(1 << 20))
        for number in range(15):
            first.put(b"%04d" % number, b"1234")
            own.put(b"%04d" % number, b"1234")
        assert first.table.flushes == 0
        for number in range(15):
            second.put(b"%04d" % number, b"1234")
        assert first.table.flushes == 0
        assert second.table.flushes > 0
        assert first.table.budget is second.table.budget is not own.table.budget
        assert first.table.budget.used_bytes <= first.table.budget.max_bytes
        assert own.table.flushes == 0
        state.commit()
        assert own.table.flushes == 1
        for store in (first, second, own):
            assert len(list(store.all())) == 15


def test_a_budget_of_nothing_writes_through(home: Home) -> None:
    with home.open() as state:
        store = state.open(stores.key_value("s").with_cache(0))
        told: list[Any] = []
        store.on_flush(lambda *change: told.append(change))
        for value in (b"1", b"2", None):
            store.put(b"a", value)
        assert told == [(b"a", b"1", None), (b"a", b"2", b"1"), (b"a", None, b"2")]
        assert store.table.budget.used_bytes == 0


def test_a_read_only_store_has_no_cache(home: Home) -> None:
    spec = stores.key_value("s").with_cache()
    with home.open() as state:
        state.open(spec).put(b"a", b"1")
    with home.open(read_only=True) as state:
        store = state.open(spec)
        assert store.get(b"a") == b"1"
        assert not isinstance(store.table, Cached)
        with pytest.raises(UnsupportedError, match="no cache"):
            store.on_flush(print)


def test_a_close_discards_and_everything_says_so_afterwards(home: Home) -> None:
    state = home.open()
    store = state.open(stores.key_value("s").with_cache())
    store.put(b"a", b"1")
    cache = store.table
    state.close()
    for use in (
        lambda: cache.get(b"a"),
        lambda: cache.put_one(b"a", b"2"),
        lambda: cache.get_many([b"a"]),
        lambda: cache.scan(Bounds()),
        lambda: cache.write([Write(b"a", b"1")]),
        lambda: cache.delete_range(b"", None),
        lambda: cache.load([]),
        lambda: state.flush(),
    ):
        with pytest.raises(StoreClosedError):
            use()
    with home.open() as state:
        assert state.open(stores.key_value("s")).get(b"a") is None


def test_a_read_flushes_nothing(tmp_path: Any) -> None:
    place = Place(tmp_path, 2 * (1 + 1 + EMPTY))
    place.below.write([Write(key, b"1") for key in (b"a", b"b", b"c")])
    place.below.batches.clear()
    place.cache.put_one(b"x", b"1")
    for key in (b"a", b"b", b"c"):
        assert place.cache.get(key) == b"1"
    assert place.below.batches == []
    assert place.cache.get(b"x") == b"1"
    assert place.budget.used_bytes <= place.budget.max_bytes
    place.cache.put_one(b"y", b"1")
    assert place.cache.get(b"a") == b"1"
    assert place.below.batches == []
    assert rows(place.cache) == [(key, b"1") for key in (b"a", b"b", b"c", b"x", b"y")]


def test_a_close_gives_back_what_a_shared_budget_held(home: Home) -> None:
    state = home.open()
    store = state.open(stores.window("w", 1000, 10).with_cache())
    for number in range(50):
        store.put(b"%d" % number, b"v", window_start=number * 10)
    budget = store.table.budget
    assert budget.used_bytes > 0
    state.close()
    assert budget.used_bytes == 0
    assert state.staged_bytes == 0


def test_what_came_and_went_is_written_only_where_nobody_listens(place: Place) -> None:
    told: list[Any] = []
    for listener, rows_down in ((lambda *change: told.append(change), 1), (None, 2)):
        place.cache.listen(listener)
        place.cache.write([Write(b"gone", b"1"), Write(b"kept", b"1"), Write(b"gone", None)])
        place.cache.flush()
        assert len(place.below.batches[-1]) == rows_down
    assert told == [(b"kept", b"1", None)]


def test_a_listener_may_end_itself(place: Place) -> None:
    told: list[bytes] = []

    def listener(key: bytes, new: Any, old: Any) -> None:
        told.append(key)
        place.cache.listen(None)

    place.cache.listen(listener)
    place.cache.write([Write(b"a", b"1"), Write(b"b", b"1")])
    place.cache.flush()
    assert told == [b"a"]


@pytest.mark.slow
@pytest.mark.parametrize("spec", [
    stores.key_value("s"), stores.window("s", 100_000, 10, segment_interval_ms=50),
], ids=lambda spec: spec.shape)  # fmt: skip
def test_threads_read_a_small_cache_while_it_is_written_to(home: Home, spec: Any) -> None:
    keys = [b"%03d" % number for number in range(60)]
    with home.open() as state:
        store = state.open(spec.with_cache(1500))
        windows = spec.shape == "window"

        def put(key: bytes, number: int) -> None:
            if windows:
                store.put(key, b"%d" % number, window_start=int(key) * 5)
            else:
                store.put(key, b"%d" % number)

        def get(key: bytes) -> int:
            return int(store.fetch_one(key, int(key) * 5) if windows else store.get(key))

        for key in keys:
            put(key, 0)
        over = threading.Event()
        faults: list[BaseException] = []

        def read() -> None:
            last = dict.fromkeys(keys, 0)
            try:
                while not over.is_set():
                    for key in random.sample(keys, 20):
                        number = get(key)
                        assert number >= last[key], "a reader goes back"
                        last[key] = number
                    assert len(list(store.all(reverse=True))) == len(keys)
            except BaseException as error:  # noqa: BLE001 - carried to the test
                faults.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        until, number = time.monotonic() + 1.5, 0
        while time.monotonic() < until and not faults:
            number += 1
            for key in keys:
                put(key, number)
            if number % 3 == 0:
                state.commit()
        over.set()
        for thread in threads:
            thread.join(60)
        if faults:
            raise faults[0]
        assert number > 3
        assert {get(key) for key in keys} == {number}


def test_a_cache_says_what_it_is(place: Place) -> None:
    place.cache.put_one(b"a", b"secret")
    assert repr(place.cache).startswith("<Cached, 1 rows not flushed, over ")
    assert "secret" not in repr(place.cache)


class TestMergedSegments:
    """Rows over those of segments, which lie in any order of keys."""

    @given(
        below=st.dictionaries(st.integers(0, 40), st.binary(max_size=1), max_size=25),
        upper=st.dictionaries(st.integers(0, 40), st.none() | st.binary(max_size=1), max_size=25),
        cuts=st.lists(st.integers(1, 4), max_size=10),
        reverse=st.booleans(),
    )
    @quick(300)
    def test_rows_come_in_the_order_of_both(
        self, below: Any, upper: Any, cuts: list[int], reverse: bool
    ) -> None:
        def key_of(number: int) -> bytes:
            return b"%d/%02d" % (number * 7 % 5, number)  # the segment is not the key's prefix

        def segment_of(key: bytes) -> int:
            return int(key[2:]) // 10

        def order(key: bytes) -> Any:
            return segment_of(key), key

        lower = sorted(((key_of(n), v) for n, v in below.items()), key=lambda r: order(r[0]))
        if reverse:
            lower.reverse()
        chunks, begin = [], 0
        for size in [*cuts, 99]:
            part = lower[begin : begin + size]
            begin += size
            if part:
                chunks.append(([k for k, _ in part], [v for _, v in part]))
        dirty: dict[int, OrderedRows] = {}
        for number, value in upper.items():
            part_of = dirty.setdefault(number // 10, OrderedRows())
            part_of.put(key_of(number), value)
        scans = [(s, dirty[s].view().scan(None, None, reverse)) for s in sorted(dirty)]
        model = {key_of(n): v for n, v in {**below, **upper}.items() if v is not None}
        wanted = [(key, model[key]) for key in sorted(model, key=order, reverse=reverse)]
        merged = merged_segments(scans, iter(chunks), segment_of, reverse)
        found = [pair for keys, values in merged for pair in zip(keys, values, strict=True)]
        assert found == wanted


def test_a_delete_is_logged_with_the_headers_of_its_time(tmp_path: Path) -> None:
    """Headers that are changed after the delete, before the flush, do not change the record."""
    spec = stores.timestamped_key_value_with_headers("s").with_cache()
    with open_state(tmp_path / "0_0", engine="memory", changelog=tmp_path / "logs") as state:
        store, headers = state.open(spec), Headers([("trace", b"1")])
        store.put(b"k", b"v", timestamp=1)
        state.commit()
        with state.record(topic="in", partition=0, offset=1, timestamp=2, headers=headers):
            store.delete(b"k")
            headers.add("later", b"2")
        state.commit()
    logs = ChangelogDirectory(tmp_path / "logs")
    with contextlib.closing(logs.changelog_of(spec, tmp_path / "0_0")) as log:
        records = [record for columns in log.read() for record in columns]
    deletes = [record for record in records if record.key == b"k" and record.value is None]
    assert [list(record.headers) for record in deletes] == [[Header("trace", b"1")]]
