"""The benchmarks: a workload does the same on an engine, or a store, as on the binding."""

from itertools import chain

import pytest

from asv_benchmarks.benchmarks.bindings import BATCHES, BINDINGS, SpiTable
from asv_benchmarks.benchmarks.commit import WAYS, CommitWorkload
from asv_benchmarks.benchmarks.engines import FILLS, READS, WORKLOADS, Keys, Pair, cell, markdown
from asv_benchmarks.benchmarks.many_segments import ManySegments
from asv_benchmarks.benchmarks.segmented import KINDS, SESSIONS, WINDOWS, make_workload
from asv_benchmarks.benchmarks.workloads import VALUE
from kstore_core.discovery.registry import installed_engines

ENGINES = [engine.name for engine in installed_engines() if engine.name in BINDINGS]
ROWS = 1200
KEYS = Keys.make(ROWS)


@pytest.fixture(params=chain.from_iterable((name, f"{name} bare") for name in ENGINES))
def table(request, tmp_path):
    name, _, bare = request.param.partition(" ")
    made = BINDINGS[name](tmp_path / "t") if bare else SpiTable(name, tmp_path / "t")
    yield made
    made.close()


@pytest.mark.parametrize("fill", FILLS)
def test_every_table_holds_what_was_filled_in(table, fill):
    assert fill(table, KEYS) == ROWS
    table.settle()
    assert [table.get(key) for key in KEYS.probes] == [VALUE] * ROWS
    assert [table.get(key) for key in KEYS.missing] == [None] * ROWS
    assert table.read(reverse=False) == table.read(reverse=True) == ROWS
    assert table.seek(KEYS.ascending[0], 10) == 10
    assert table.seek(KEYS.ascending[-4], 10) == 4
    assert table.seek(KEYS.missing[0], 1) == 1
    assert [read(table, KEYS) for read in READS] == [ROWS, ROWS, ROWS // 10, ROWS, ROWS]


def test_a_pair_measures_both_sides_and_leaves_nothing_behind():
    pair = Pair("memory", ROWS)
    for workload in WORKLOADS:
        ours, theirs = pair.least(workload, rounds=1)
        assert ours > 0
        assert theirs > 0
    pair.close()
    assert not pair.scratch.exists()


def test_the_table_has_a_line_a_workload():
    lines = markdown(100, ["memory"], rounds=1).splitlines()
    assert len(lines) == 2 + len(WORKLOADS)
    assert cell(1234.4, None) == "1,234"
    assert cell(1234.4, 617.2) == "1,234 (2.00)"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_in_segments_and_the_bare_engine_read_the_same_rows(engine, kind):
    work = make_workload(engine, kind, 20)
    try:
        each = WINDOWS if kind.startswith("window") else SESSIONS
        for key in work.keys:
            get, row = work.one[key]
            assert get(row) in {value for _, _, value in work.rows}
            assert work.bare.scan(work.ranges[key]) == len(list(work.store.fetch(key))) == each
        assert work.bare.scan(work.everything) == len(work.rows) == 20 * each
        work.get(work.keys)
        ratios = work.put_ratio(1), work.put_ratio(1, each=True), work.get_ratio(1)
        assert min(*ratios, work.fetch_ratio(1), work.all_ratio(1), work.in_turn_ratio(1)) > 0
    finally:
        work.close()
    assert not work.scratch.exists()


@pytest.mark.skipif("rocksdb" not in ENGINES, reason="no engine gives a segment a database")
def test_many_segments_are_made_opened_and_read():
    work = ManySegments("rocksdb", 103)
    opened, fetched, most = work.open_and_fetch()
    assert min(work.commit_seconds, work.bare_seconds(), opened, fetched) > 0
    assert 0 < most < 1000
    work.close()


@pytest.mark.parametrize("engine", [name for name in ENGINES if name in BATCHES])
@pytest.mark.parametrize("way", [None, *WAYS])
@pytest.mark.parametrize("rows", [0, 20])
def test_a_commit_and_the_bare_engine_write_the_same(engine, way, rows):
    work = CommitWorkload(engine, "process", rows, way)
    try:
        work.write()
        assert len(work.batches) == len(work.stores) == (2 if way == "two stores" else 1)
        logged = way == "changelog"  # at least what the commit contains of the input
        for bare, batch, store in zip(work.bare, work.batches, work.stores, strict=True):
            written = {name: len(there.keys) for name, there in batch.items()}
            assert written.pop("offsets") == 1 + logged
            assert sum(written.values()) == rows
            for name, there in batch.items():
                values = store.table.rows.database.namespace(name).get
                assert [values(key) for key in there.keys] == there.values
                assert [bare.get(name, key) for key in there.keys] == there.values
        assert work.over_bare(0) > 0
    finally:
        work.close()
    assert not work.scratch.exists()
