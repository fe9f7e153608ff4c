"""A table in segments, on each engine, against a dict and its order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstore_core import open_state
from kstore_core.clock import segment_id
from kstore_core.discovery.registry import engine_class
from kstore_core.engine import Engine
from kstore_core.errors import KeyTooLongError, StoreClosedError, UncommittedLimitError
from kstore_core.keys import WINDOW
from kstore_core.tables import Bounds, Layer, Write
from tests.tables.segments.rows import INTERVAL, row, rows_of, window_spec

KEYS = st.sampled_from([b"", b"a", b"ab", b"b", b"\0", b"\xff\xff"])
TIMES = st.integers(0, 85)
ROWS = st.builds(row, TIMES, KEYS)
VALUES = st.none() | st.binary(max_size=3)
ENDS = st.none() | ROWS
IDS = st.none() | st.integers(-1, 9)

OPERATIONS = st.one_of(
    st.tuples(st.just("put"), ROWS, VALUES),
    st.tuples(st.just("write"), st.lists(st.tuples(ROWS, VALUES), max_size=6)),
    st.tuples(st.just("get"), ROWS),
    st.tuples(st.just("get_many"), st.lists(ROWS, max_size=5)),
    st.tuples(st.just("scan"), ENDS, ENDS, IDS, IDS, st.booleans()),
    st.tuples(st.just("first"), ENDS, ENDS, st.booleans()),
    st.tuples(st.just("delete_range"), ROWS, ENDS),
    st.tuples(st.just("expire"), st.integers(0, 8)),
    st.tuples(st.sampled_from(["commit", "spill", "reopen", "crash"])),
)


def segment_of(key: bytes) -> int:
    return segment_id(WINDOW.segment_time(key), INTERVAL)


class Model:
    """A dict, and what was committed of it."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.stored: dict[bytes, bytes] = {}
        self.first_live = -1

    def put(self, key: bytes, value: bytes | None) -> None:
        if segment_of(key) >= self.first_live:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def scan(
        self, lo: Any, hi: Any, first: Any = None, last: Any = None, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        found = [
            (key, value)
            for key, value in self.rows.items()
            if (lo is None or lo <= key)
            and (hi is None or key < hi)
            and (first is None or first <= segment_of(key))
            and (last is None or segment_of(key) <= last)
        ]
        return sorted(found, key=lambda pair: (segment_of(pair[0]), pair[0]), reverse=reverse)

    def expire(self, first_live: int) -> None:
        self.first_live = max(first_live, self.first_live)
        self.rows = {k: v for k, v in self.rows.items() if segment_of(k) >= self.first_live}


def live(engine: Engine, root: Any, operations: list[Any]) -> None:
    """Do the operations to a table and to its model, and compare."""
    model = Model()
    state = open_state(root, engine=engine)
    table = state.open(window_spec()).table
    for name, *given_ in operations:
        match name:
            case "put":
                table.put_one(*given_)
                model.put(*given_)
            case "write":
                table.write([Write(*pair) for pair in given_[0]])
                for pair in given_[0]:
                    model.put(*pair)
            case "get":
                assert table.get(given_[0]) == model.rows.get(given_[0])
            case "get_many":
                assert table.get_many(given_[0]) == [model.rows.get(key) for key in given_[0]]
            case "scan":
                lo, hi, first, last, reverse = given_
                got = rows_of(
                    table, lo=lo, hi=hi, reverse=reverse, segment_lo=first, segment_hi=last
                )
                assert got == model.scan(lo, hi, first, last, reverse)
            case "first":
                lo, hi, reverse = given_
                assert table.first(lo, hi, reverse=reverse) == next(
                    iter(model.scan(lo, hi, reverse=reverse)), None
                )
            case "delete_range":
                table.delete_range(*given_)
                for key, _ in model.scan(*given_):
                    del model.rows[key]
            case "expire":
                table.expire(given_[0])
                model.expire(given_[0])
            case "commit":
                state.commit()
                model.stored = dict(model.rows)
            case "spill":
                state._staging.spill()
                # What has expired is hidden, and there until a commit.
                kept = {k: v for k, v in model.stored.items() if segment_of(k) < model.first_live}
                if engine.capabilities.children:
                    model.stored = model.rows | kept
                else:
                    model.stored = dict(model.rows)
            case "reopen" | "crash":
                if name == "reopen":
                    state.commit()
                    model.stored = dict(model.rows)
                state.close()
                model.rows, model.first_live = dict(model.stored), -1
                state = open_state(root, engine=engine)
                table = state.open(window_spec()).table
        assert set(table.segments) >= {segment_of(key) for key in model.rows}
    assert rows_of(table) == model.scan(None, None)
    state.close()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(operations=st.lists(OPERATIONS, max_size=40))
def test_a_table_in_segments_is_an_ordered_dict(tmp_path_factory, engine, few_open, operations):
    root = tmp_path_factory.mktemp("state") / "0_0"
    live(engine_class(engine)(), root, operations)


def test_an_empty_store_has_no_segments(home):
    with home.open() as state:
        table = state.open(window_spec()).table
        assert table.segments == ()
        assert table.get(row(5)) is None
        assert table.get_many([row(5), row(15)]) == [None, None]
        assert rows_of(table) == []
        assert table.first() is None
        assert table.approximate_count() == 0
        table.expire(3)
        assert table.dropped == 0
    with home.open() as state:
        assert rows_of(state.open(window_spec()).table) == []


def test_looking_makes_no_segment(home):
    with home.open() as state:
        table = state.open(window_spec()).table
        table.put_one(row(15), b"v")
        assert table.get(row(25)) is None
        assert table.segments == (1,)


def test_two_hundred_segments_out_of_order_across_a_reopen(home):
    order = sorted(range(200), key=lambda number: number * 7919 % 200)
    wanted = [(row(number * INTERVAL), b"%d" % number) for number in range(200)]
    with home.open() as state:
        table = state.open(window_spec()).table
        for number in order:
            table.put_one(row(number * INTERVAL), b"%d" % number)
        assert rows_of(table) == wanted
        assert table.approximate_count() == 200
    with home.open() as state:
        table = state.open(window_spec()).table
        assert table.segments == tuple(range(200))
        assert rows_of(table, reverse=True) == wanted[::-1]
        assert rows_of(table, segment_lo=198) == wanted[198:]


@pytest.mark.parametrize("time", [2**63 - 1, 2**63 - INTERVAL, 2**53])
def test_enormous_times(home, time):
    with home.open() as state:
        table = state.open(window_spec()).table
        table.put_one(row(time), b"late")
        table.put_one(row(0), b"early")
    with home.open() as state:
        table = state.open(window_spec()).table
        assert table.get(row(time)) == b"late"
        assert rows_of(table) == [(row(0), b"early"), (row(time), b"late")]
        assert rows_of(table, segment_hi=0) == [(row(0), b"early")]
        table.expire(time // INTERVAL)
        assert rows_of(table) == [(row(time), b"late")]
    with home.open(read_only=True) as state:
        assert rows_of(state.open(window_spec()).table) == [(row(time), b"late")]


def test_the_last_segment_of_all(home):
    last = 2**63 - 1
    with home.open() as state:
        table = state.open(window_spec(segment_interval_ms=1)).table
        table.put_one(row(last), b"v")
        table.delete_range(row(0, b"a"), row(0, b"b"))
        assert rows_of(table) == [(row(last), b"v")]
    with home.open() as state:
        table = state.open(window_spec(segment_interval_ms=1)).table
        assert table.segments == (last,)
        table.delete_range(b"", None)
        assert rows_of(table) == []


def test_negative_times(home):
    with home.open() as state:
        table = state.open(window_spec()).table
        with pytest.raises(ValueError, match="negative time, in segment -1"):
            table.put_one(row(-INTERVAL), b"v")
        assert table.get(row(-INTERVAL)) is None
        table.put_one(row(-3), b"in segment 0, for division truncates")
        assert table.segments == (0,)


def test_what_is_written_to_an_expired_segment_is_gone_with_it(home):
    with home.open() as state:
        table = state.open(window_spec()).table
        table.expire(3)
        table.put_one(row(29), b"v")
        table.write([Write(row(29), b"v"), Write(row(30), b"w")])
        assert table.load([([row(28), row(31)], [b"x", b"y"])]) == 1
        assert rows_of(table) == [(row(30), b"w"), (row(31), b"y")]
        assert table.segments == (3,)
        table.expire(2)
        assert rows_of(table) == [(row(30), b"w"), (row(31), b"y")]
    with home.open() as state:
        assert state.open(window_spec()).table.segments == (3,)


def test_a_load_ascends_by_segment_and_key(home):
    chunks = [
        ([row(1, b"b"), row(12, b"a")], [b"1", b"2"]),
        ([row(13, b"b"), row(55, b"a")], [b"3", b"4"]),
    ]
    with home.open() as state:
        table = state.open(window_spec()).table
        assert table.load(chunks) == 4
        assert table.segments == (0, 1, 5)
        assert [value for _, value in rows_of(table)] == [b"1", b"2", b"3", b"4"]
    with home.open() as state:
        rows = rows_of(state.open(window_spec()).table)
        assert [value for _, value in rows] == [b"1", b"2", b"3", b"4"]


def test_a_load_that_does_not_ascend_is_refused(home):
    with home.open() as state:
        table = state.open(window_spec()).table
        with pytest.raises(ValueError, match="a row of segment 1 comes after a row of segment 2"):
            table.load([([row(25), row(15)], [b"", b""])])
        with pytest.raises(ValueError, match="ascending"):
            table.load([([row(1, b"b"), row(1, b"a")], [b"", b""])])


def test_a_load_through_a_layer_ascends_so_too(home):
    class Writing(Layer):
        def write(self, writes: Any) -> None:
            self.below.write(writes)

    with home.open() as state:
        table = Writing(state.open(window_spec()).table)
        rows = [row(1, b"b"), row(1, b"c"), row(15, b"a")]
        assert table.load([(rows[:2], [b"1", b"2"]), (rows[2:], [b"3"])]) == 3
        assert rows_of(table) == list(zip(rows, [b"1", b"2", b"3"], strict=True))
        with pytest.raises(ValueError, match="not ascending"):
            table.load([([row(15, b"a"), row(1, b"b")], [b"", b""])])


def test_a_write_over_many_segments_is_all_or_nothing(home):
    writes = [Write(row(number * INTERVAL), b"x" * 100) for number in range(5)]
    with home.open(transactional=True, uncommitted_max_bytes=300) as state:
        table = state.open(window_spec()).table
        with pytest.raises(UncommittedLimitError):
            table.write(writes)
        assert rows_of(table) == []
        assert state.staged_bytes == 0
        table.write(writes[:2])
        # A row that shrinks makes the room that another needs, in whichever order they come.
        table.write([Write(row(20), b"x" * 90), Write(row(0), None)])
        assert len(rows_of(table)) == 2
        state.close()


def test_a_key_that_is_refused_refuses_the_whole_write(home):
    limit = engine_class(home.engine).capabilities.max_key_bytes
    if limit is None:
        return
    longest = limit - 8 - len(row(0, b""))  # the segment and the window's start and number
    with home.open() as state:
        table = state.open(window_spec()).table
        for use in (
            lambda: table.write([Write(row(0), b"v"), Write(row(50, b"k" * (longest + 1)), b"v")]),
            lambda: table.put_one(row(50, b"k" * (longest + 1)), b"v"),
        ):
            with pytest.raises(KeyTooLongError, match=str(limit)):
                use()
        assert table.segments == ()
        table.put_one(row(50, b"k" * longest), b"v")
    with home.open() as state:
        assert rows_of(state.open(window_spec()).table) == [(row(50, b"k" * longest), b"v")]


def test_a_spill_in_the_middle_of_puts_loses_nothing(home, few_open):
    with home.open(uncommitted_max_bytes=500) as state:
        table = state.open(window_spec()).table
        for number in range(100):
            table.put_one(row(number * 3), b"x" * 20)
        assert len(rows_of(table)) == 100
        assert state._staging.spills > 3
        state.close()
    with home.open() as state:
        store = state.open(window_spec())
        assert 50 < len(rows_of(store.table)) < 100
        assert store.offsets() == {}


def test_everything_is_refused_after_close(home):
    state = home.open()
    table = state.open(window_spec()).table
    for number in range(3):
        table.put_one(row(number * INTERVAL), b"v")
    state.commit()
    scan = table.scan(Bounds())
    state.close()
    for use in (
        lambda: table.get(row(0)),
        lambda: table.get(row(999)),
        lambda: table.get_many([row(0)]),
        lambda: table.put_one(row(0), b"v"),
        lambda: table.put_one(row(999), b"v"),
        lambda: table.write([Write(row(0), b"v")]),
        lambda: table.delete_range(b"", None),
        lambda: table.scan(Bounds()),
        lambda: table.first(),
        lambda: table.load([]),
        lambda: table.approximate_count(),
        lambda: next(scan),
    ):
        with pytest.raises(StoreClosedError):
            use()
    scan.close()
    assert "3 segments" in repr(table)


def test_a_key_is_bytes(home):
    with home.open() as state:
        table = state.open(window_spec()).table
        for use in (
            table.get,
            lambda key: table.put_one(key, b"v"),
            lambda key: table.get_many([key]),
        ):
            with pytest.raises(TypeError):
                use(None)


def test_rows_lie_where_the_formats_page_says(home):
    key = bytes.fromhex("41 000000000001fbd0 00000000")
    spec = window_spec(name="counts", segment_interval_ms=60_000)
    with home.open() as state:
        state.open(spec).put(b"A", b"v", window_start=130_000)
    engine = home._kept or engine_class(home.engine)()
    if engine.capabilities.children:
        assert engine.children(home.path, "counts") == ["counts.120000"]
        database = engine.open_child(home.path, "counts", "counts.120000")
    else:
        database = engine.open(home.path, "counts")
        key = bytes.fromhex("0000000000000002") + key
    assert list(database.namespace("default").scan()) == [([key], [b"v"])]
    database.close()
