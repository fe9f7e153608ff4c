"""Commits over segments that have a database each: rows, then what vouches for them."""

from __future__ import annotations

import resource

import pytest

from kstore_core import open_state, stores
from kstore_core.discovery.registry import engine_class
from kstore_core.engine import Rows
from kstore_core.errors import EngineError, SpecError, StateError, StorageFullError
from kstore_core.offsets.entries import STATUS, STREAM_TIME
from kstore_core.tables.segments import children
from kstore_core.testing.faults import Faults, FaultyEngine
from tests.tables.segments.rows import INTERVAL, kafkas_offset, records, row, rows_of, window_spec

PARTITION = ("app-w-changelog", 0)


class Crash(Exception):  # noqa: N818
    """Not an error of the engine: whoever meets it is gone."""


@pytest.fixture
def engine():
    return engine_class("rocksdb")()


def test_a_commit_is_told_to_what_it_touched_and_to_the_newest(tmp_path, engine):
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(window_spec())
        for time in (0, 10, 20, 30):
            store.put(b"k", b"v", window_start=time)
        with state.record(topic="in", partition=2, offset=7):
            store.put(b"k", b"v", window_start=0)
        state.commit({PARTITION: 1})
        store.put(b"k", b"w", window_start=10)
        state.commit({PARTITION: 2})
        assert store.offsets() == {PARTITION: 2}
    found = records(engine, tmp_path)
    assert {start: record.offsets for start, record in found.items()} == {
        0: {PARTITION: 1},
        10: {PARTITION: 2},
        20: {PARTITION: 1},
        30: {PARTITION: 2},
    }
    assert {record.stream_time for record in found.values()} == {30}
    assert all(record.position == {"in": {2: 7}} for record in found.values())
    assert all(record.spec.describes(window_spec()) for record in found.values())
    assert kafkas_offset(engine, tmp_path, PARTITION) == 2


def test_a_commit_within_the_newest_segment_is_one_batch(tmp_path, engine):
    faults = Faults()
    with open_state(tmp_path, engine=FaultyEngine(engine, faults)) as state:
        store = state.open(window_spec())
        for time in (5, 6):
            store.put(b"k", b"v", window_start=time)
            before = faults.counts["write"]
            state.commit({PARTITION: time})
            assert faults.counts["write"] == before + 1
        before = faults.counts["write"]
        state.commit()
        assert faults.counts["write"] == before, "there was nothing to write"


@pytest.mark.parametrize(("time", "name"), [(None, "w.0"), (57, "w.50")])
def test_offsets_of_a_store_without_segments_make_one(tmp_path, engine, time, name):
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(window_spec())
        if time is not None:
            store.clock.advance(time)
        state.commit({PARTITION: 3})
        assert engine.children(tmp_path, "w") == [name]
    with open_state(tmp_path, engine=engine) as state:
        assert state.stores() == ["w"]
        assert state.offsets() == {PARTITION: 3}
        store = state.open(window_spec())
        assert store.offsets() == {PARTITION: 3}
        assert list(store.all()) == []
    assert [path.name for path in (tmp_path / "w").iterdir()] == [name]


def test_offsets_that_are_forgotten_are_forgotten_everywhere(tmp_path, engine):
    other = ("app-w-changelog", 1)
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(window_spec())
        for time in (0, 10, 20):
            store.put(b"k", b"v", window_start=time)
        state.commit({PARTITION: 1, other: 5})
        state.commit({PARTITION: None})
        assert kafkas_offset(engine, tmp_path, PARTITION) is None
        assert kafkas_offset(engine, tmp_path, other) == 5
        assert store.offsets() == {other: 5}
        state.commit({})
    assert kafkas_offset(engine, tmp_path, other) is None
    with open_state(tmp_path, engine=engine) as state:
        assert state.open(window_spec()).offsets() == {}


def test_more_segments_in_one_commit_than_may_be_open(tmp_path, engine, monkeypatch):
    count = children.max_open() + 6
    opened = []
    open_database = children.ChildSegments.open_database

    def counted(home, child):
        opened.append(child.id)
        return open_database(home, child)

    monkeypatch.setattr(children.ChildSegments, "open_database", counted)
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(window_spec())
        for number in range(count):
            store.put(b"k", b"%d" % number, window_start=number * INTERVAL)
        state.commit({PARTITION: 1})
        assert opened == list(range(count)), "none is opened again to be told of the commit"
        assert sum(child.database is not None for child in homes_children(state)) <= 64
        assert [value for _, value in store.all()] == [b"%d" % number for number in range(count)]
    found = records(engine, tmp_path)
    assert len(found) == count
    told = [record.offsets == {PARTITION: 1} for _, record in sorted(found.items())]
    assert told[-1]
    assert sum(told) == children.max_open()
    assert all(record.offsets in ({}, {PARTITION: 1}) for record in found.values())


def test_what_a_scan_kept_open_is_closed_by_the_next_commit(tmp_path, engine, few_open):
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(window_spec())
        for number in range(6):
            for key in range(300):  # more than a scan reads at once
                store.put(b"%d" % key, b"old", window_start=number * INTERVAL)
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(window_spec())
        scan = store.all()
        next(scan)
        for number in range(6):
            store.put(b"k", b"new", window_start=number * INTERVAL)
        assert sum(child.database is not None for child in homes_children(state)) == 6
        scan.close()
        state.commit()
        assert sum(child.database is not None for child in homes_children(state)) == 2
        assert [value for _, value in store.all()].count(b"new") == 6


@pytest.mark.parametrize(
    ("allowed", "wanted"),
    [(64, 4), (256, 8), (1024, 32), (2**20, 64), (resource.RLIM_INFINITY, 64)],
)
def test_fewer_are_open_where_the_process_may_open_few_files(monkeypatch, allowed, wanted):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))
    assert children.max_open() == wanted


def homes_children(state):
    return state._stores["w"]._storage._segments.live.values()


# What is told is never ahead of the rows, wherever it ends.

COMMITS = [(0, 10), (10,), (20, 15), (30, 10), (60, 30), (50,)]
"""The times of the rows of each commit."""


def live(state, faults=None):
    """Commits one after another; the offset of each is the number that its rows hold."""
    store = state.open(window_spec(retention_ms=40))
    for number, times in enumerate(COMMITS, 1):
        for time in times:
            store.put(b"%d" % number, b"v", window_start=time)
        if faults is not None and number == 2:
            state._staging.spill()
        state.commit({PARTITION: number})


def check(engine, root):
    """The rows that the offsets vouch for are there, for kstore and for Kafka."""
    told = kafkas_offset(engine, root, PARTITION) or 0
    with open_state(root, engine=engine, read_only=True) as state:
        if "w" not in state.stores():
            return 0
        ours = state.offsets("w").get(PARTITION, 0)
        store = state.open(window_spec(retention_ms=40))
        there = {(window.key, window.start) for window, _ in store.all()}
    assert told <= ours
    for number, times in enumerate(COMMITS[:ours], 1):
        for time in times:
            if time > store.stream_time - 40:
                assert (b"%d" % number, time) in there
    return ours


def writes_of_a_life(tmp_path, engine, level):
    faults = Faults()
    with open_state(tmp_path, engine=FaultyEngine(engine, faults), durability=level) as state:
        live(state, faults)
        return faults.counts["write"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "error"),
    [("process", Crash), ("process", StorageFullError), ("changelog", Crash)],
)
def test_offsets_are_never_ahead_whichever_write_fails(tmp_path, engine, level, error, few_open):
    seen = set()
    for nth in range(1, writes_of_a_life(tmp_path / "whole", engine, level) + 1):
        root, faults = tmp_path / str(nth), Faults()
        faults.fail("write", nth, error)
        with pytest.raises(error):
            live_and_fail(root, engine, faults, level)
        seen.add(check(engine, root))
        # And it goes on from there.
        with open_state(root, engine=engine, durability=level) as state:
            live(state)
        assert check(engine, root) == len(COMMITS)
    assert seen >= set(range(len(COMMITS)))


def live_and_fail(root, engine, faults, level):
    with open_state(root, engine=FaultyEngine(engine, faults), durability=level) as state:
        live(state, faults)


@pytest.mark.parametrize("error", [EngineError, StorageFullError])
def test_a_commit_that_failed_is_made_by_the_next(tmp_path, engine, error, few_open):
    for nth in range(1, 8):
        root, faults = tmp_path / str(nth), Faults()
        with open_state(root, engine=FaultyEngine(engine, faults)) as state:
            store = state.open(window_spec())
            for time in (0, 10, 20, 30):
                store.put(b"k", b"v", window_start=time)
            faults.fail("write", nth, error)
            with pytest.raises(error):
                state.commit({PARTITION: 1})
            assert store.offsets() == {}
            assert len(list(store.all())) == 4
            store.put(b"k", b"w", window_start=20)
            state.commit({PARTITION: 2})
            assert state.staged_bytes == 0
            assert [value for _, value in store.all()] == [b"v", b"v", b"w", b"v"]
        with open_state(root, engine=engine) as state:
            store = state.open(window_spec())
            assert store.offsets() == {PARTITION: 2}
            assert [value for _, value in store.all()] == [b"v", b"v", b"w", b"v"]


def test_without_a_log_rows_elsewhere_are_flushed_before_offsets_vouch_for_them(tmp_path, engine):
    faults = Faults()
    engine = FaultyEngine(engine, faults)
    with open_state(tmp_path, engine=engine, durability="changelog") as state:
        store = state.open(window_spec())
        store.put(b"k", b"v", window_start=0)
        state.commit({PARTITION: 1})
        assert faults.counts["sync"] == 0, "rows and offsets are in one batch"
        store.put(b"k", b"v", window_start=10)
        state.commit({PARTITION: 2})
        assert faults.counts["sync"] == 1, "the rows of the first commit are in another database"
        store.put(b"k", b"v", window_start=0)
        state.commit({PARTITION: 3})
        assert faults.counts["sync"] == 3, "the older one, and the newest before the copy is made"
        assert store.table.load([([row(30), row(40)], [b"v", b"v"])]) == 2
        state.commit({PARTITION: 4})
        assert faults.counts["sync"] == 5, "what was loaded, and the newest before the copy"
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(window_spec())
        store.put(b"k", b"v", window_start=0)
        store.put(b"k", b"v", window_start=10)
        before = faults.counts["sync"]
        state.commit({PARTITION: 5})
        assert faults.counts["sync"] == before, "the write-ahead log keeps the others"


# The record.


def test_a_database_is_marked_while_it_is_written_to(tmp_path, engine):
    def marks():
        found = {}
        for child in engine.children(tmp_path, "w"):
            database = engine.open_child(tmp_path, "w", child, read_only=True)
            mark = database.namespace("offsets").get(STATUS)
            found[child] = None if mark is None else int.from_bytes(mark, "big")
            database.close()
        return found

    with open_state(tmp_path, engine=engine) as state:
        store = state.open(window_spec())
        store.put(b"k", b"v", window_start=0)
        store.put(b"k", b"v", window_start=10)
        state.commit({PARTITION: 1})
        assert marks() == {"w.0": 1, "w.10": 1}
    assert marks() == {"w.0": 0, "w.10": 0}
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(window_spec())
        assert len(list(store.all())) == 2
        assert marks() == {"w.0": 0, "w.10": 0}, "only read"
        store.put(b"k", b"w", window_start=10)
        state.commit()
        assert marks() == {"w.0": 0, "w.10": 1}
        store.table.load([([row(0), row(20)], [b"x", b"x"])])
        assert marks() == {"w.0": 1, "w.10": 1, "w.20": 1}
    with open_state(tmp_path, engine=engine, transactional=True) as state:
        state.open(window_spec()).put(b"k", b"x", window_start=10)
        state.commit()
        assert marks() == {"w.0": 0, "w.10": 0, "w.20": 0}, (
            "Kafka's transactional stores are not marked"
        )


def test_stream_time_is_at_least_where_the_newest_segment_begins(tmp_path, engine):
    spec = window_spec(retention_ms=30)
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(spec)
        for time in (3, 13):
            store.put(b"k", b"v", window_start=time)
        state.commit({PARTITION: 1})
    # Kafka goes on: it makes a segment, and tells the offset and not the time.
    database = engine.open_child(tmp_path, "w", "w.40")
    database.namespace("offsets")
    offset = {b"app-w-changelog-0": (9).to_bytes(8, "big")}
    database.write(
        {"default": Rows([row(44)], [b"v"]), "offsets": Rows([*offset], [*offset.values()])}
    )
    database.close()
    with open_state(tmp_path, engine=engine) as state:
        assert state.offsets() == {PARTITION: 9}
        assert state.stored_spec("w").describes(spec)
        store = state.open(spec)
        assert store.stream_time == 40
        assert store.offsets() == {PARTITION: 9}
        assert store.table.segments == (1, 4)


def test_without_a_stored_time_stream_time_begins_anew(tmp_path, engine):
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(window_spec())
        store.put(b"k", b"v", window_start=13)
        state.commit({PARTITION: 1})
    database = engine.open_child(tmp_path, "w", "w.10")
    database.write({"offsets": Rows([b"kstore.spec", STREAM_TIME], [None, None])})
    database.close()
    with open_state(tmp_path, engine=engine) as state:
        assert state.stored_spec("w") is None
        store = state.open(window_spec())
        assert store.stream_time == -1
        assert store.offsets() == {PARTITION: 1}


def test_nothing_but_segments_lies_in_the_stores_directory(tmp_path, engine):
    spec = window_spec(retention_ms=20)
    with open_state(tmp_path, engine=engine) as state:
        store = state.open(spec)
        for time in range(0, 200, 5):
            store.put(b"k", b"v", window_start=time)
            state.commit({PARTITION: time})
            names = [path.name for path in (tmp_path / "w").iterdir()]
            assert all(name.startswith("w.") and name[2:].isdecimal() for name in names)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".kstore.lock", "w"]


def test_a_discarded_life_leaves_no_segment(tmp_path, engine):
    state = open_state(tmp_path, engine=engine)
    state.open(window_spec()).put(b"k", b"v", window_start=5)
    state.close()
    assert engine.children(tmp_path, "w") == []
    with open_state(tmp_path, engine=engine, read_only=True) as state:
        assert state.stores() == ["w"]
        assert list(state.open(window_spec()).all()) == []
        with pytest.raises(StateError, match="no store 'x'"):
            state.open(window_spec(name="x"))


def test_two_stores_of_one_name_are_refused(tmp_path, engine):
    plain = stores.key_value("w")
    with open_state(tmp_path / "a", engine=engine) as state:
        state.open(plain).put(b"k", b"v")
    with (
        open_state(tmp_path / "a", engine=engine) as state,
        pytest.raises(SpecError, match=r"'w' without segments.*opened as a window store"),
    ):
        state.open(window_spec())
    with open_state(tmp_path / "b", engine=engine) as state:
        state.open(window_spec()).put(b"k", b"v", window_start=0)
    with open_state(tmp_path / "b", engine=engine) as state:
        with pytest.raises(SpecError, match=r"'w' with segments.*opened as a key_value store"):
            state.open(plain)
        assert rows_of(state.open(window_spec()).table)
