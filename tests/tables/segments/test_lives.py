"""Stores in segments that are read beside a writer, forked, closed and upgraded."""

from __future__ import annotations

import pytest

from kstore_core import ValueTimestampHeaders, stores
from kstore_core.discovery.registry import engine_class
from kstore_core.engine import Rows
from kstore_core.errors import (
    EngineLockedError,
    ForkedHandleError,
    FormatDowngradeError,
    InconsistentStateError,
    SpecError,
    UnsupportedError,
)
from kstore_core.tables import Bounds
from tests.support.fingerprints import fingerprint
from tests.tables.segments.rows import row, rows_of, window_spec
from tests.typed.processes import in_a_child

SPEC = window_spec()
TIMESTAMPED = window_spec(stores.timestamped_window)
HEADERS = window_spec(stores.timestamped_window_with_headers)
STARTS = (0, 10, 20, 30)


def fill(home, spec=SPEC, starts=STARTS):
    with home.open() as state:
        store = state.open(spec)
        for start in starts:
            more = {"timestamp": start} if spec.format.timestamped else {}
            store.put(b"k", b"v%d" % start, window_start=start, **more)
        state.commit({("t", 0): 1})


@pytest.fixture
def rocks(tmp_path):
    from tests.support.engines import Home

    return Home(tmp_path / "0_0", "rocksdb")


def test_reading_writes_nothing(home, few_open):
    fill(home)
    before = fingerprint(home.path) if home.path.exists() else None
    with home.open(read_only=True) as state:
        table = state.open(HEADERS).table
        assert len(rows_of(table)) == 4
        assert table.get(row(0)) is not None
        for write in (
            lambda: table.put_one(row(0), b"v"),
            lambda: table.put_one(row(90), b"v"),
            lambda: table.write([]),
            lambda: table.delete_range(b"", None),
            lambda: table.load([]),
            lambda: state.commit(),
        ):
            with pytest.raises(UnsupportedError):
                write()
        table.expire(2)
        assert len(rows_of(table)) == 2
    assert before == (fingerprint(home.path) if home.path.exists() else None)


def test_a_reader_beside_a_writer_sees_each_segment_as_it_was_when_it_came_to_it(rocks, few_open):
    fill(rocks)
    with rocks.open() as state, rocks.open(read_only=True) as reader:
        store = state.open(SPEC)
        seen = reader.open(SPEC)
        assert seen.fetch_one(b"k", 0) == b"v0"
        store.put(b"k", b"new", window_start=0)
        store.put(b"k", b"new", window_start=10)
        state.commit()
        assert seen.fetch_one(b"k", 0) == b"v0"
        assert seen.fetch_one(b"k", 10) == b"new"


def test_a_segment_that_the_writer_drops_is_empty_to_a_reader(rocks, few_open):
    fill(rocks)
    with rocks.open() as state, rocks.open(read_only=True) as reader:
        seen = reader.open(SPEC).table
        state.open(window_spec(retention_ms=5)).put(b"k", b"v", window_start=100)
        state.commit()
        assert seen.segments == (0, 1, 2, 3)
        assert [key for key, _ in rows_of(seen)][:3] == [row(30)]
        assert seen.get(row(0)) is None


def test_a_segment_that_the_writer_upgrades_meanwhile_is_refused_to_an_older_reader(
    rocks, few_open
):
    fill(rocks)
    with rocks.open(read_only=True) as reader:
        seen = reader.open(SPEC).table
        assert len(rows_of(seen)) == 4
        with rocks.open() as state:
            for start in STARTS:
                state.open(HEADERS).fetch_one(b"k", start)
        with pytest.raises(FormatDowngradeError, match=r"w/w\.0 has"):
            rows_of(seen)


def test_a_second_writer_is_refused(home):
    if home.engine == "memory":
        return
    with home.open() as state:
        state.open(SPEC)
        with pytest.raises(EngineLockedError):
            home.open()


def test_a_fork_uses_nothing(home):
    fill(home)
    with home.open() as state:
        table = state.open(SPEC).table
        assert table.get(row(0)) == b"v0"
        scan = table.scan(Bounds())
        for use in (
            lambda: table.get(row(0)),
            lambda: table.get(row(10)),
            lambda: table.get(row(999)),
            lambda: table.get_many([row(0)]),
            lambda: table.put_one(row(0), b"v"),
            lambda: table.put_one(row(999), b"v"),
            lambda: table.scan(Bounds()),
            lambda: table.first(),
            lambda: next(scan),
        ):
            assert in_a_child(use) == ForkedHandleError.__name__
        assert in_a_child(state.close) == "None"
        assert len(rows_of(table)) == 4
        table.put_one(row(0), b"after")
    with home.open(read_only=True) as state:
        assert state.open(SPEC).table.get(row(0)) == b"after"


# Upgrades.


@pytest.mark.parametrize(
    ("before", "after"), [(SPEC, TIMESTAMPED), (SPEC, HEADERS), (TIMESTAMPED, HEADERS)]
)
def test_each_segment_is_upgraded_by_itself(home, before, after, few_open):
    fill(home, before)
    with home.open() as state:
        store = state.open(after)
        assert store.fetch_one(b"k", 10).value == b"v10"
        store.put(b"k", b"new", window_start=20, timestamp=5)
        state.commit({("t", 0): 2})
        got = {window.start: record.value for window, record in store.all()}
        assert got == {0: b"v0", 10: b"v10", 20: b"new", 30: b"v30"}
    with home.open() as state:
        store = state.open(after)
        assert store.offsets() == {("t", 0): 2}
        assert len(list(store.all())) == 4
        with pytest.raises(SpecError, match="already open"):
            state.open(before)
    with home.open() as state, pytest.raises(FormatDowngradeError):
        state.open(before)


def namespaces(home, child):
    engine = engine_class(home.engine)()
    database = engine.open_child(home.path, "w", child, read_only=True)
    try:
        return {
            name: [key for keys, _ in database.namespace(name).scan() for key in keys]
            for name in database.namespaces()
            if name != "offsets"
        }
    finally:
        database.close()


def test_what_was_not_touched_is_as_it_was(rocks):
    fill(rocks)
    with rocks.open() as state:
        store = state.open(HEADERS)
        assert store.fetch_one(b"k", 10) == ValueTimestampHeaders(b"v10", -1, [])
    newer = HEADERS.format.namespace
    assert namespaces(rocks, "w.0") == {"default": [row(0)]}
    assert namespaces(rocks, "w.10") == {"default": [], newer: [row(10)]}
    with rocks.open(read_only=True) as state:
        assert state.stored_spec("w").format == HEADERS.format


def test_a_downgrade_is_refused_naming_the_segment(rocks):
    """No spec tells, as in a directory of Kafka's: the namespaces do, segment by segment."""
    fill(rocks, TIMESTAMPED, range(0, 100, 10))
    engine = engine_class("rocksdb")()
    for child in engine.children(rocks.path, "w"):
        database = engine.open_child(rocks.path, "w", child)
        database.write({"offsets": Rows([b"kstore.spec"], [None])})
        if child != "w.10":  # neither among the newest nor the oldest, which an open looks at
            database.drop_namespace(TIMESTAMPED.format.namespace)
        database.close()
    with rocks.open() as state:
        store = state.open(SPEC)
        assert store.fetch_one(b"k", 30) is None
        for use in (lambda: store.fetch_one(b"k", 10), lambda: list(store.all())):
            with pytest.raises(FormatDowngradeError, match=r"w/w\.10 has the format 'timestamp"):
                use()
        state.close()
    fill(rocks, TIMESTAMPED, [100])
    database = engine.open_child(rocks.path, "w", "w.100")
    database.write({"offsets": Rows([b"kstore.spec"], [None])})
    database.close()
    with rocks.open() as state, pytest.raises(FormatDowngradeError, match=r"w/w\.100 has"):
        state.open(SPEC)


def test_two_older_formats_in_one_segment_are_refused_naming_store_and_segment(rocks):
    fill(rocks)
    engine = engine_class("rocksdb")()
    database = engine.open_child(rocks.path, "w", "w.10")
    name = TIMESTAMPED.format.namespace
    database.namespace(name)
    database.write({name: Rows([row(11)], [bytes(8) + b"v"])})
    database.close()
    with rocks.open() as state:
        store = state.open(HEADERS)
        assert store.fetch_one(b"k", 0).value == b"v0"
        with pytest.raises(InconsistentStateError, match=r"w/w\.10 contains .*upgrade PATH w --to"):
            store.fetch_one(b"k", 10)
