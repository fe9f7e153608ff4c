"""The names of segments: Kafka's, older ones, and what is no segment."""

from __future__ import annotations

import logging

import pytest

from kstore_core import open_state, stores
from kstore_core.discovery.registry import engine_class
from kstore_core.engine import Rows
from kstore_core.errors import InconsistentStateError
from kstore_core.tables.segments.names import name_of, starts
from tests.support.fingerprints import fingerprint
from tests.support.golden import unpack
from tests.tables.segments.rows import row, rows_of, window_spec

ENGINE = engine_class("rocksdb")()
MINUTE = 60_000


def test_names_give_their_starts_in_order():
    names = ["a.60000", "a.0", "a:120000", "a-197001010003", "a.9223372036854775807"]
    assert starts("a", names, "here") == {
        "a.0": 0,
        "a.60000": 60_000,
        "a:120000": 120_000,
        "a-197001010003": 180_000,
        "a.9223372036854775807": 2**63 - 1,
    }
    assert name_of("a", 60_000) == "a.60000"


def test_a_store_may_have_marks_in_its_name():
    assert starts("a.b-c", ["a.b-c.5", "a.b-c-202402290130"], "here") == {
        "a.b-c.5": 5,
        "a.b-c-202402290130": 1_709_170_200_000,
    }


@pytest.mark.parametrize("name", ["a-2024", "a-202413010000", "a-x", "a-", "a.-60000", "a:-1"])
def test_what_names_no_time_is_left_out_with_one_warning(caplog, tmp_path, name):
    with caplog.at_level(logging.WARNING, "kstore_core"):
        for _ in range(2):
            assert starts("a", [name, "a.0"], tmp_path) == {"a.0": 0}
    assert [name in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize(
    "name", ["a.x", "a:", "a", "b.5", "a.9223372036854775808", "a.5.6", "a_5", "lost+found", "a. 5"]
)
def test_what_is_no_segment_is_refused_by_name(name):
    with pytest.raises(InconsistentStateError) as caught:
        starts("a", [name], "here")
    assert repr(name) in str(caught.value)


def spec():
    return window_spec(segment_interval_ms=MINUTE)


def make(root, name, key, value):
    database = ENGINE.open_child(root, "w", name)
    try:
        database.write({"default": Rows([key], [value])})
    finally:
        database.close()


def names(root):
    return sorted(path.name for path in (root / "w").iterdir())


def test_older_names_are_renamed_by_a_writer_and_read_by_a_reader(tmp_path):
    root = tmp_path / "0_0"
    rows = {
        "w-197001010001": row(MINUTE),
        "w:120000": row(2 * MINUTE),
        "w.180000": row(3 * MINUTE),
    }
    for name, key in rows.items():
        make(root, name, key, b"v")
    wanted = [(key, b"v") for key in rows.values()]
    before = fingerprint(root)
    with open_state(root, engine=ENGINE, read_only=True) as state:
        assert rows_of(state.open(spec()).table) == wanted
    assert fingerprint(root) == before
    with open_state(root, engine=ENGINE) as state:
        table = state.open(spec()).table
        assert names(root) == ["w.120000", "w.180000", "w.60000"]
        assert table.segments == (1, 2, 3)
        assert rows_of(table) == wanted


def test_a_date_within_a_segment_is_renamed_to_its_start(tmp_path):
    make(tmp_path, "w-197001010001", row(MINUTE), b"v")
    with open_state(tmp_path, engine=ENGINE) as state:
        assert rows_of(state.open(window_spec(segment_interval_ms=40_000)).table)
    assert names(tmp_path) == ["w.40000"]


@pytest.mark.parametrize("read_only", [False, True])
def test_two_names_of_one_segment_are_refused(tmp_path, read_only):
    make(tmp_path, "w.60000", row(MINUTE), b"v")
    make(tmp_path, "w:60000", row(MINUTE), b"v")
    before = fingerprint(tmp_path)
    with (
        open_state(tmp_path, engine=ENGINE, read_only=read_only) as state,
        pytest.raises(
            InconsistentStateError, match=r"'w.60000' and 'w:60000'.*both stand for the segment"
        ),
    ):
        state.open(spec())
    assert read_only is False or fingerprint(tmp_path) == before
    assert names(tmp_path) == ["w.60000", "w:60000"]


@pytest.mark.parametrize("name", ["w.90000", "w:90000"])
def test_another_interval_is_refused_where_no_spec_tells(tmp_path, name):
    make(tmp_path, name, row(90_000), b"v")
    with (
        open_state(tmp_path, engine=ENGINE) as state,
        pytest.raises(InconsistentStateError, match="multiple of segment_interval_ms=60000"),
    ):
        state.open(spec())
    assert names(tmp_path) == [name]


def test_what_is_no_segment_stops_the_open_and_a_date_that_is_none_does_not(tmp_path):
    make(tmp_path, "w.60000", row(MINUTE), b"v")
    make(tmp_path, "w-yesterday", row(0), b"v")
    with open_state(tmp_path, engine=ENGINE) as state:
        assert rows_of(state.open(spec()).table) == [(row(MINUTE), b"v")]
        assert state.offsets("w") == {}
    assert names(tmp_path) == ["w-yesterday", "w.60000"]
    (tmp_path / "w" / "backup").mkdir()
    with open_state(tmp_path, engine=ENGINE) as state:
        with pytest.raises(InconsistentStateError, match=r"'backup'.*is no segment"):
            state.open(spec())
        with pytest.raises(InconsistentStateError, match="'backup'"):
            state.offsets("w")


@pytest.mark.parametrize("name", ["window_timestamped", "window_headers"])
def test_kafkas_directories_keep_their_names(tmp_path, name):
    root = unpack(name, tmp_path)
    engine = engine_class("rocksdb")()
    before = engine.children(root, name)
    make = {
        "window_timestamped": stores.timestamped_window,
        "window_headers": stores.timestamped_window_with_headers,
    }[name]
    found = starts(name, before, root).values()
    interval = min(later - earlier for earlier, later in zip(found, [*found][1:], strict=False))
    spec = make(name, retention_ms=10**12, window_size_ms=5, segment_interval_ms=interval)
    with open_state(root, engine=engine) as state:
        assert state.stores() == [name]
        assert list(state.open(spec).all())
        assert state.open(spec).stream_time == -1
    assert engine.children(root, name) == before
