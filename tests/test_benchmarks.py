"""The engine benchmarks: a workload does the same on an engine as on its binding."""

from itertools import chain

import pytest

from asv_benchmarks.benchmarks.bindings import BINDINGS, SpiTable
from asv_benchmarks.benchmarks.engines import FILLS, READS, WORKLOADS, Keys, Pair, cell, markdown
from asv_benchmarks.benchmarks.workloads import VALUE
from kstore_core.registry import installed_engines

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
