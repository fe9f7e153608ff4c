"""A time-ordered table with an index, on each engine, against a dict and its two orders."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from kstore_core import open_state, stores
from kstore_core.clock import segment_id
from kstore_core.codec import key_first_window_key, time_first_window_key
from kstore_core.codec.keys.row_pairs import RowPairs
from kstore_core.discovery.registry import engine_class
from kstore_core.errors import FormatError, KeyTooLongError, UncommittedLimitError, UnsupportedError
from kstore_core.keys import WINDOW_TIME_FIRST, rows_of
from kstore_core.tables import Bounds, Write
from kstore_core.testing import run_machine
from kstore_core.testing.machines.scratch import ScratchMachine
from tests.support.engines import ENGINES, Home
from tests.tables.segments.rows import INTERVAL, window_spec
from tests.tables.segments.rows import rows_of as read

PAIRS = RowPairs(session=False)
KEYS = st.sampled_from([b"", b"a", b"ab", b"b", b"\0", b"\xff\xff"])
ROWS = st.builds(time_first_window_key, KEYS, st.integers(0, 45))
VALUES = st.none() | st.binary(max_size=3)
BOTH = (None, b"\1")
"""From where rows are read, and from where index rows are."""

Rows = list[tuple[bytes, bytes]]


def ordered_spec(**more: Any) -> Any:
    return window_spec(time_ordered=True, **more)


def row(time: int, key: bytes = b"k") -> bytes:
    return time_first_window_key(key, time)


def segment_of(key: bytes) -> int:
    return segment_id(WINDOW_TIME_FIRST.segment_time(key), INTERVAL)


def wanted(rows: dict[bytes, bytes], lo: bytes | None, *, reverse: bool = False) -> Rows:
    """The rows or, from 01 on, the index rows with their values, in order."""
    held = [(segment_of(key), PAIRS.index_of(key) if lo else key, rows[key]) for key in rows]
    return [(key, value) for _, key, value in sorted(held, reverse=reverse)]


class IndexedMachine(ScratchMachine):
    """The life of an indexed table, and a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[bytes, bytes] = {}
        self.stored: dict[bytes, bytes] = {}
        self.expired = 0
        self.begun: list[tuple[Any, Rows]] = []
        self.open()

    def open(self) -> None:
        self.begun.clear()
        self.expired = 0
        self.state = open_state(self.scratch / "0_0", engine=self.engine)
        self.table = self.state.open(ordered_spec()).table

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.rows.pop(key, None)
        elif segment_of(key) >= self.expired:
            self.rows[key] = value

    @rule(key=ROWS, value=VALUES)
    def put_one(self, key: bytes, value: bytes | None) -> None:
        self.table.put_one(key, value)
        self.put(key, value)

    @rule(rows=st.lists(st.tuples(ROWS, VALUES), max_size=6))
    def write(self, rows: list[tuple[bytes, bytes | None]]) -> None:
        self.table.write(Write(key, value) for key, value in rows)
        for key, value in rows:
            self.put(key, value)

    @rule(rows=st.dictionaries(ROWS, st.binary(max_size=3), max_size=6))
    def load(self, rows: dict[bytes, bytes]) -> None:
        self.state.commit()  # rows that are staged stay above those that are loaded
        rows = {key: rows[key] for key in rows if segment_of(key) >= self.expired}
        self.rows |= rows
        self.stored = dict(self.rows)
        ordered = wanted(rows, None)
        chunks = [([key], [value]) for key, value in ordered]
        assert self.table.load(chunks) == len(rows)

    @rule(lo=ROWS, hi=st.none() | ROWS)
    def delete_range(self, lo: bytes, hi: bytes | None) -> None:
        self.table.delete_range(lo, hi)
        for key in [key for key in self.rows if lo <= key and (hi is None or key < hi)]:
            del self.rows[key]

    @rule(first_live=st.integers(0, 4))
    def expire(self, first_live: int) -> None:
        self.table.expire(first_live)
        self.expired = max(self.expired, first_live)
        self.rows = {key: v for key, v in self.rows.items() if segment_of(key) >= self.expired}

    @rule(lo=st.sampled_from(BOTH), reverse=st.booleans())
    def begin_a_scan(self, lo: bytes | None, reverse: bool) -> None:
        scan = self.table.scan(Bounds(lo, None, reverse))
        self.begun.append((scan, wanted(self.rows, lo, reverse=reverse)))

    @rule(which=st.integers(0, 5), closing=st.booleans())
    def end_a_scan(self, which: int, closing: bool) -> None:
        if self.begun:
            scan, rows = self.begun.pop(which % len(self.begun))
            if closing:
                next(scan, None)
                scan.close()
            else:
                found = [pair for keys, values in scan for pair in zip(keys, values, strict=True)]
                assert found == rows, "a scan is as of its call"

    @rule(keys=st.lists(ROWS, max_size=4))
    def look(self, keys: list[bytes]) -> None:
        assert self.table.get_many(keys) == [self.rows.get(key) for key in keys]
        assert [self.table.get(key) for key in keys] == [self.rows.get(key) for key in keys]

    @rule()
    def commit(self) -> None:
        self.state.commit()
        self.stored = dict(self.rows)

    @rule(lose=st.booleans())
    def reopen(self, lose: bool) -> None:
        if lose:
            self.rows = dict(self.stored)
        else:
            self.commit()
        self.state.close()
        self.open()

    @invariant()
    def both_orders_are_the_dicts(self) -> None:
        for lo in BOTH:
            for reverse in (False, True):
                rows = wanted(self.rows, lo, reverse=reverse)
                assert read(self.table, lo=lo, reverse=reverse) == rows
                assert self.table.first(lo, reverse=reverse) == (rows[0] if rows else None)

    def teardown(self) -> None:
        self.state.close()
        super().teardown()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_indexed_table_is_a_dict_in_two_orders(engine: str) -> None:
    run_machine(IndexedMachine, make_engine=engine_class(engine), examples=25, steps=25)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=5), st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_a_row_and_its_index_row_are_made_of_each_other(key: bytes, time: int, other: int) -> None:
    for shape, second in (("window", other), ("session", min(time, other))):
        keys = rows_of(shape, time_ordered=True, indexed=True)
        made = keys.make(key, second, time) if shape == "session" else keys.make(key, time, second)
        pairs = keys.pairs
        assert pairs is not None
        index = pairs.index_of(made)
        assert pairs.row_of(index) == made
        assert keys.schema.split(made) == keys.by_key.split(index) == (key, time, second)
        for either in (made, index):
            assert pairs.split(either) == (key, time, second)
            assert pairs.segment_time(either) == time
        for wrong in (b"", index[:8], b"\2" + made[1:], index):
            with pytest.raises(FormatError, match=f"time-ordered {shape} store"):
                pairs.index_of(wrong)
        with pytest.raises(FormatError):
            pairs.row_of(made)


def index_rows(table: Any) -> list[bytes]:
    """The index rows that there are, whether or not they have a row."""
    return [key for keys, _ in table.below.scan(Bounds(b"\1")) for key in keys]


DANGLING = key_first_window_key(b"k", 7)


def plant(home: Home) -> None:
    """An index row without a row, as Kafka's deletes leave them, beside one that has its own."""
    with home.open() as state:
        store = state.open(ordered_spec())
        store.put(b"k", b"v", window_start=5)
        store.table.below.put_one(DANGLING, b"")


@pytest.mark.parametrize("moving", [True, False])
def test_an_index_row_without_a_row_is_skipped_and_removed(home: Home, moving: bool) -> None:
    plant(home)
    with home.open(migrate_on_read=moving) as state:
        store = state.open(ordered_spec())
        assert [start for start, _ in store.fetch(b"k")] == [5]
        assert (DANGLING in index_rows(store.table)) != moving, "a mending read writes"
        store.put(b"k", b"w", window_start=7)
        assert [start for start, _ in store.fetch(b"k")] == [5, 7]
    with home.open() as state:
        assert [value for _, value in state.open(ordered_spec()).fetch(b"k")] == [b"v", b"w"]


def test_a_reader_skips_it_and_writes_nothing(home: Home) -> None:
    plant(home)
    with home.open(read_only=True) as state:
        store = state.open(ordered_spec())
        assert [start for start, _ in store.fetch(b"k")] == [5]
        assert DANGLING in index_rows(store.table)
        with pytest.raises(UnsupportedError, match="read_only"):
            store.table.put_one(row(5), b"v")


def test_a_read_does_not_fail_where_there_is_no_room_to_mend(home: Home) -> None:
    plant(home)
    with home.open(transactional=True, uncommitted_max_bytes=20) as state:
        store = state.open(ordered_spec())
        assert [start for start, _ in store.fetch(b"k")] == [5]
        assert DANGLING in index_rows(store.table)


def test_what_is_refused_leaves_neither_row(home: Home) -> None:
    with home.open(transactional=True, uncommitted_max_bytes=50) as state:
        store = state.open(ordered_spec())
        store.put(b"k", b"v", window_start=5)
        with pytest.raises(UncommittedLimitError):
            store.put(b"l", b"v", window_start=6)
        assert [w.key for w, _ in store.all()] == [b"k"]
        assert index_rows(store.table) == [key_first_window_key(b"k", 5)]
        for wrong in (b"", b"k" + bytes(12), key_first_window_key(b"k", 5)):
            with pytest.raises(FormatError):
                store.table.put_one(wrong, b"v")
        with pytest.raises(FormatError):
            store.table.write([Write(row(5), b"x"), Write(b"", b"v")])
        assert store.fetch_one(b"k", 5) == b"v", "a write is made whole or not at all"


def test_a_key_that_is_too_long_leaves_neither_row(tmp_path: Any) -> None:
    with open_state(tmp_path, engine="lmdb") as state:
        store = state.open(ordered_spec())
        with pytest.raises(KeyTooLongError):
            store.put(b"k" * 600, b"v", window_start=5)
        assert state.staged_bytes == 0


def test_a_spill_takes_both_rows(home: Home) -> None:
    with home.open(uncommitted_max_bytes=100) as state:
        store = state.open(ordered_spec())
        for number in range(40):
            store.put(b"k", b"v%d" % number, window_start=number)
            assert state.staged_bytes <= 100
        assert [start for start, _ in store.fetch(b"k")] == list(range(40))
        assert len(index_rows(store.table)) == len(list(store.all())) == 40


def test_about_how_many_rows_there_are(home: Home) -> None:
    with home.open() as state:
        table = state.open(ordered_spec()).table
        for number in range(20):
            table.put_one(row(number), b"v")
        assert (table.approximate_count(), table.segments, table.dropped) == (20, (0, 1), 0)
        table.expire(1)
        assert (table.segments, table.dropped) == ((1,), 1)


@pytest.mark.slow
def test_a_reader_loses_no_row_that_another_thread_writes_over(home: Home, few_open: None) -> None:
    with home.open() as state:
        store = state.open(ordered_spec())
        for number in range(60):
            store.put(b"k", b"0", window_start=number)
        state.commit()
        errors: list[BaseException] = []
        done = threading.Event()

        def look() -> None:
            try:
                while not done.is_set():
                    values = [value for _, value in store.fetch(b"k")]
                    assert len(values) == 60
            except BaseException as error:  # noqa: BLE001
                errors.append(error)

        readers = [threading.Thread(target=look) for _ in range(2)]
        for reader in readers:
            reader.start()
        until = time.monotonic() + 3
        for count in range(40):
            for number in range(0, 60, 7):
                store.put(b"k", b"%d" % count, window_start=number)
            state.commit()
            if time.monotonic() > until:
                break
        done.set()
        for reader in readers:
            reader.join()
        assert not errors, errors


def test_headers_of_a_key_come_by_its_index(home: Home) -> None:
    with home.open() as state:
        spec = window_spec(stores.timestamped_window_with_headers, time_ordered=True)
        store = state.open(spec)
        store.put(b"k", b"v", window_start=5, timestamp=3, headers=[("h", None)])
        [(start, record)] = store.fetch(b"k")
        assert (start, record.timestamp, list(record.headers)) == (5, 3, [("h", None)])
        table = store.fetch_range(b"a", b"z").to_arrow()
        assert table["key"].to_pylist() == [b"k"]
        assert (table["start"].to_pylist(), table["end"].to_pylist()) == ([5], [10])
        scan = store.fetch(b"k")
        assert scan.peek() == next(scan)
