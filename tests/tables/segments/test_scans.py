"""Scans over segments: as of their making, one segment open at a time, freed when they end."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path

import pytest

from kstore_core import open_state
from kstore_core.discovery.registry import engine_class
from kstore_core.errors import EngineError, StoreClosedError
from kstore_core.tables import Bounds
from kstore_core.testing import Faults, FaultyEngine
from tests.tables.segments.rows import INTERVAL, row, rows_of, six_segments, window_spec


@pytest.fixture
def state(home):
    with home.open() as state:
        table = state.open(window_spec()).table
        for number in range(6):
            table.put_one(row(number * INTERVAL), b"%d" % number)
        state.commit()
        yield state


WANTED = [(row(number * INTERVAL), b"%d" % number) for number in range(6)]


def rest(scan):
    return [pair for keys, values in scan for pair in zip(keys, values, strict=True)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_a_scan_does_not_see_what_is_written_after_it_was_made(state, reverse, begun, commits):
    table = state.open(window_spec()).table
    scan = table.scan(Bounds(reverse=reverse))
    seen = rest([next(scan)]) if begun else []
    for number in range(8):
        table.put_one(row(number * INTERVAL), b"changed")
        table.put_one(row(number * INTERVAL + 1), b"new")
    table.delete_range(row(20), None)
    if commits:
        state.commit({("t", 0): 1})
    assert seen + rest(scan) == WANTED[:: -1 if reverse else 1]
    assert len(rows_of(table)) == 16 - 12


@pytest.mark.parametrize("commits", [False, True])
def test_a_scan_goes_on_over_segments_that_expire_meanwhile(state, commits):
    table = state.open(window_spec()).table
    scan = table.scan(Bounds())
    next(scan)
    table.expire(4)
    if commits:
        state.commit({("t", 0): 1})
    assert rows_of(table) == WANTED[4:]
    assert rest(scan) == WANTED[1:]
    state.commit()


def test_what_a_scan_still_read_at_the_close_is_dropped_by_it(home, state):
    table = state.open(window_spec()).table
    store = state.open(window_spec())
    store.clock.advance(2**62 + 45)
    scan = table.scan(Bounds())
    table.expire(4)
    state.commit()
    state.close()
    with pytest.raises(StoreClosedError):
        next(scan)
    del scan
    with home.open(read_only=True) as reader:
        assert rows_of(reader.open(window_spec(retention_ms=2**63 - 1)).table) == WANTED[4:]


def test_scans_in_each_other(state):
    table = state.open(window_spec()).table
    pairs = [
        (outer[0], inner[0])
        for keys, values in table.scan(Bounds())
        for outer in zip(keys, values, strict=True)
        for inner in rows_of(table, reverse=True)
    ]
    assert len(pairs) == 36


def test_a_scan_is_bounded_by_segments_and_by_keys(state):
    table = state.open(window_spec()).table
    assert rows_of(table, segment_lo=2, segment_hi=3) == WANTED[2:4]
    assert rows_of(table, segment_lo=2, segment_hi=3, reverse=True) == WANTED[2:4][::-1]
    assert rows_of(table, segment_lo=4) == WANTED[4:]
    assert rows_of(table, segment_hi=-1) == []
    assert rows_of(table, segment_lo=3, segment_hi=2) == []
    assert rows_of(table, lo=row(20), hi=row(40), segment_lo=1) == WANTED[2:4]
    assert rows_of(table, segment_lo=-(2**63), segment_hi=2**63 - 1) == WANTED


def test_a_scan_that_is_left_or_closed_is_forgotten(state):
    table = state.open(window_spec()).table
    for leave in (lambda scan: scan.close(), lambda scan: None):
        scan = table.scan(Bounds())
        next(scan)
        table.put_one(row(40), b"4")
        table.put_one(row(40), b"4")
        leave(scan)
        del scan
        gc.collect()
    closed = table.scan(Bounds())
    closed.close()
    closed.close()
    assert list(closed) == []
    table.expire(5)
    state.commit()
    # Nothing holds them any more: they are gone.
    assert state.engine.children(state.path, "w") in ([], ["w.50"])
    assert rows_of(table) == WANTED[5:]


def put_segments(table, count, value):
    """Put a row into each of the first segments."""
    for number in range(count):
        table.put_one(row(number * INTERVAL), value)


def test_one_segment_is_open_at_a_time_however_many_there_are(tmp_path, few_open):
    engine = engine_class("rocksdb")()
    with open_state(tmp_path / "0_0", engine=engine) as state:
        table = state.open(window_spec()).table
        put_segments(table, 30, b"v")
    with open_state(tmp_path / "0_0", engine=engine) as state:
        table = state.open(window_spec()).table
        before = files()
        assert len(rows_of(table)) == 30
        assert files() - before < 40
        first, second = table.scan(Bounds()), table.scan(Bounds(reverse=True))
        assert next(first)[0] == [row(0)]
        assert next(second)[0] == [row(290)]
        assert len(rest(first)) == len(rest(second)) == 29


def files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_many_scans_at_once_open_more_databases_than_allowed_and_lose_nothing(tmp_path, few_open):
    engine = engine_class("rocksdb")()
    with open_state(tmp_path / "0_0", engine=engine) as state:
        table = state.open(window_spec()).table
        put_segments(table, 8, b"v")
        state.commit()
        scans = [table.scan(Bounds(segment_lo=number)) for number in range(8)]
        put_segments(table, 8, b"changed")
        state.commit()
        assert [len(rest(scan)) for scan in scans] == [8, 7, 6, 5, 4, 3, 2, 1]
        assert {value for _, value in rows_of(table)} == {b"changed"}


@pytest.fixture
def faulty(tmp_path):
    """A table of six segments on an engine that fails on demand, and its faults."""
    faults = Faults()
    engine = FaultyEngine(engine_class("rocksdb")(), faults)
    with six_segments(partial(open_state, tmp_path / "0_0", engine=engine)) as state:
        yield state.open(window_spec()).table, faults


def test_a_scan_that_met_an_error_goes_on_where_it_was_or_raises_again(faulty):
    table, faults = faulty
    scan = table.scan(Bounds())
    faults.fail("open")
    seen = rest([next(scan)])
    with pytest.raises(EngineError, match="planned fault"):
        next(scan)
    faults.fail("scan")
    with pytest.raises(EngineError, match="planned fault"):
        next(scan)
    assert seen + rest(scan) == WANTED
    assert rows_of(table) == WANTED


def test_a_put_that_cannot_have_a_scan_read_first_is_not_made(faulty):
    table, faults = faulty
    scan = table.scan(Bounds())
    faults.fail("open")
    with pytest.raises(EngineError, match="planned fault"):
        table.put_one(row(30), b"changed")
    assert rest(scan) == WANTED
    table.put_one(row(30), b"changed")
    assert table.get(row(30)) == b"changed"
