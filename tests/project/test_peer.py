"""The comparison with Kafka Streams: its tables, its page, and what it says without a JDK."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asv_benchmarks.pages import placed
from asv_benchmarks.peer import __main__ as peer
from asv_benchmarks.peer import jvm, tables
from asv_benchmarks.peer.goals import GOALS
from asv_benchmarks.peer.results import best_of, own_command, results_of


def test_a_ratio_below_its_goal_is_bold_and_counted() -> None:
    kafka = {goal.peer: 100.0 for goal in GOALS}
    kstore = {(goal.bench, goal.op): 100 * goal.ratio for goal in GOALS}
    kstore["versioned", "get_latest"] = 129.0
    table = tables.operations(kafka, kstore, {("window_headers", "put"): 150.0})
    assert table.count("\n") == len(GOALS) + 1
    assert "| versioned: get the latest version | 100 | 129 | **1.29** | 1.3 |  |" in table
    assert "| window: put | 100 | 120 | 1.20 | 1.2 | 1.50 |" in table
    assert table.count("**") == 2
    assert tables.missed(kafka, kstore) == 1


def test_operations_that_were_not_measured_are_left_out() -> None:
    kafka, kstore = {("codec", "headers_deserialize"): 2.0}, {("codec", "headers_deserialize"): 2.0}
    assert tables.operations(kafka, kstore, {}).splitlines()[2:] == [
        "| decode three headers | 2 | 2 | 1.00 | 1.0 |  |"
    ]
    assert tables.missed(kafka, {}) == 0


def test_the_best_round_counts() -> None:
    assert best_of([{("a", "b"): 1.0}, {("a", "b"): 3.0, ("c", "d"): 2.0}, {("a", "b"): 2.0}]) == {
        ("a", "b"): 3.0,
        ("c", "d"): 2.0,
    }


def test_the_tables_of_the_scale_have_both_sides() -> None:
    measured = {
        ("records 10", op): 2000.0
        for op in ("put", "get_hit", "scan_all", "commit", "open", "disk", "memory")
    }
    table = tables.records(measured, measured, [10])
    assert "| put, thousand per second | kstore | 2 |" in table
    assert "| open, ms | Kafka Streams | 2,000 |" in table
    found = {("versions 10 segments 5", "as_of"): 8.0}, {("versions 10 segments 5", "as_of"): 4.0}
    assert tables.versions(*found, [(10, 5)]).endswith("| 10 | 5 | 8.0 | 4.0 | 2.00 |")


@pytest.mark.parametrize("name", ["operations", "scale"])
def test_the_page_has_a_place_for_each_table(name: str) -> None:
    text = peer.PAGE.read_text("utf-8")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    assert text.count(begin) == text.count(end) == 1
    once = placed(text, "| first |", name)
    twice = placed(once, "| second |", name)
    assert "| first |" in once
    assert twice.replace("| second |", "| first |") == once
    assert once.startswith(text[: text.index(begin)])
    assert once.endswith(text[text.index(end) :])


def test_the_page_has_the_figures_of_all_goals() -> None:
    text = peer.PAGE.read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| [\d,]+ \| [\d,]+ \| \*{0,2}[\d.]+", text, re.MULTILINE)
    assert set(rows) >= {goal.what for goal in GOALS}


def test_without_a_jdk_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(jvm.PeerUnavailableError, match=r"'java' is not .*apt-get install"):
        jvm.compiled(tmp_path)


def test_an_old_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("java", "javac", "mvn"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(jvm.PeerUnavailableError, match=r"needs Java 17 or newer.*11\.0\.2"):
        jvm.compiled(tmp_path)


def test_a_failed_workload_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"nothing .* failed: (?s:.*)KeyError"):
        results_of(own_command("nothing", "memory", "process", 1), tmp_path)
