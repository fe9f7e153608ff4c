"""The figures of docs/performance.md: the script runs, and fails where results differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from asv_benchmarks import performance
from asv_benchmarks.benchmarks import spark_joins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINE = re.compile(r"^\|(.*)\|$", re.MULTILINE)


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of its own in the same Spark, for views and settings.

    Spark's own ways have few rows here, and a start of Python in each partition of each batch.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


@pytest.mark.slow
@pytest.mark.spark
def test_every_way_of_joining_and_of_keeping_state_gives_the_same(session):
    found = performance.measure(session, performance.SMALL)
    names = [line.split("|")[0].strip() for line in LINE.findall(found)]
    assert {name for name in names if name in spark_joins.OTHERS} == set(spark_joins.OTHERS)
    assert sum("**kstore**" in name for name in names) == 1 + 1 + 5 + 1 + 1
    agreed = re.findall(r"gave ([\d,]+) rows with the checksum `([0-9a-f]{16})`", found)
    assert len(agreed) == 4
    assert agreed[0][0] == f"{performance.SMALL.keys * 10:,}"
    assert agreed[1][0] == f"{performance.SMALL.rows:,}"
    assert "inf" not in found


def test_results_that_differ_end_the_run():
    same = {"one": (10, -5), "other": (10, -5)}
    assert performance.check_same(same) == "10 rows with the checksum `fffffffffffffffb`"
    with pytest.raises(performance.DifferentResultsError, match="other: 10 rows, 0x6"):
        performance.check_same({"one": (10, 5), "other": (10, 6)})
    with pytest.raises(performance.DifferentResultsError, match="one: 11 rows"):
        performance.check_same({"one": (11, 5), "other": (10, 5)})


def test_jobs_are_measured_in_turns():
    order = []
    jobs = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    took = performance.least(jobs, 3)
    assert order == ["a", "b"] * 3
    assert set(took) == {"a", "b"}


def test_the_page_has_its_place_for_figures():
    text = performance.PAGE.read_text(encoding="utf-8")
    assert text.count("<!-- measured: begin -->") == text.count("<!-- measured: end -->") == 1
