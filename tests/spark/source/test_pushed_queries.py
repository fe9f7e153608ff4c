"""Filters that Spark pushes down: no scan gets the filters of another one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core.spark.source.pushdown import scans_keep_their_filters
from tests.spark.source.filtered import TEXTS, options_of, publish_all
from tests.spark.source.pushing import PushingSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTING = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return publish_all(tmp_path_factory.mktemp("filtered"))


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with the setting on, and with a source that always takes filters."""
    spark.dataSource.register(PushingSource)
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "true")
    yield spark
    spark.conf.set(SETTING, before or "false")


def load(spark: SparkSession, root: Path, name: str = "kstore", **options: str) -> DataFrame:
    return spark.read.format(name).options(**options).load(str(root))


def sorted_rows(df: DataFrame) -> list[Any]:
    return sorted(df.toArrow().to_pylist(), key=str)


CONDITIONS = {
    "texts": [
        "key = 'k1'",
        "'k1' = key and value is not null",
        "key <=> 'é'",
        "key <=> null",
        "key = null",
        "key in ('k1', 'ab', null)",
        "key = 'k1' and key = 'k2'",
        "key = 'k1' or key = 'k2'",
        "key like 'a%' and partition <> 1",
        "not key in ('k1', 'ab')",
        "partition in (0, 2) and timestamp >= timestamp_millis(900)",
        "valid_to > timestamp_millis(800) and timestamp < timestamp_millis(950)",
        "timestamp = timestamp_millis(931)",
        "timestamp > '1970-01-01 00:00:00.9'",
        "upper(key) = 'K1'",
        f"key in ({', '.join(repr(f'k{number}') for number in range(1000))})",
    ],
    "longs": ["key = 7", "key in (7, -1, 99)", "key > 0", f"key = {2**63 - 1}", "key = 7.0"],
    "latest": ["key = X'FF'", "key in (X'', X'00')", "key = 'k1'", "partition = 1"],
    "floats": ["key = 0", "key = -0.0D", "key = 2", "key in (2D, double('NaN'))"],
    "windows": [
        "window_start >= timestamp_millis(600) and window_end < timestamp_millis(800)",
        "window_start = timestamp_millis(700) and key = 'k1'",
        "timestamp > timestamp_millis(900)",
    ],
    "sessions": ["session_end > timestamp_millis(800)", "session_start < timestamp_millis(600)"],
}


@pytest.mark.slow
def test_spark_pushes_what_the_reader_understands(
    pushing: SparkSession, roots: dict[str, Path]
) -> None:
    wrong = []
    for name, conditions in CONDITIONS.items():
        options = options_of(name)
        every = load(pushing, roots[name], **options).cache()
        for condition in conditions:
            got = load(pushing, roots[name], "kstore-pushing", **options).where(condition)
            if sorted_rows(got) != sorted_rows(every.where(condition)):
                wrong.append((name, condition))
        every.unpersist()
    assert wrong == []
    one = load(pushing, roots["texts"], "kstore-pushing", history="true").where("key = 'k1'")
    assert one.rdd.getNumPartitions() == 1
    within = "partition = 1 and key in ('k1', 'k2', 'k3', 'a', 'ab', 'b')"
    assert load(pushing, roots["texts"], "kstore-pushing").where(within).rdd.getNumPartitions() == 1


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["true", "false"])
def test_a_dataframe_is_filtered_in_any_way(
    pushing: SparkSession, roots: dict[str, Path], setting: str
) -> None:
    """No scan gets the filters of another one, whatever the setting is."""
    pushing.conf.set(SETTING, setting)
    every = load(pushing, roots["texts"], history="true").cache()
    first, second = "key = 'k1'", "key in ('k2', 'a') and timestamp > timestamp_millis(700)"
    df = load(pushing, roots["texts"], history="true")
    planned = df.where(second)
    planned.explain()
    for condition in (first, "true", second, first, "partition = 2", "true"):
        assert sorted_rows(df.where(condition)) == sorted_rows(every.where(condition)), condition
    assert sorted_rows(planned) == sorted_rows(every.where(second))
    both = df.where(first).unionAll(df.where(second)).unionAll(df)
    assert both.count() == every.where(first).count() + every.where(second).count() + every.count()
    joined = (
        df.where(first).alias("a").join(df.where(second).alias("b"), on="partition", how="full")
    )
    want = every.where(first).alias("a").join(every.where(second), on="partition", how="full")
    assert joined.count() == want.count()
    kept = df.where(first).cache()
    assert df.where(second).count() == every.where(second).count()
    assert sorted_rows(kept) == sorted_rows(every.where(first))
    kept.unpersist()
    every.createOrReplaceTempView("every_text")
    df.createOrReplaceTempView("pushed_text")
    query = (
        "select (select count(*) from {0} where key = 'a') a, count(*) n from {0} where key > 'b'"
    )
    got, expected = (pushing.sql(query.format(f"{v}_text")).collect() for v in ("pushed", "every"))
    assert got == expected
    every.unpersist()


def test_why_the_reader_of_this_pyspark_takes_no_filters(
    pushing: SparkSession, roots: dict[str, Path]
) -> None:
    """If this fails for a new PySpark, `scans_keep_their_filters` does not know this PySpark."""
    df = load(pushing, roots["texts"], "kstore-pushing", history="true")
    every = load(pushing, roots["texts"], history="true").count()
    assert 0 < df.where("key = 'k1'").count() < every
    assert (df.count() == every) == scans_keep_their_filters()


@pytest.mark.slow
def test_two_threads_filter_one_dataframe(pushing: SparkSession, roots: dict[str, Path]) -> None:
    df = load(pushing, roots["texts"], history="true")
    counts = {key: df.where(f"key = '{key}'").count() for key in TEXTS}
    keys = list(itertools.islice(itertools.cycle(TEXTS), 30))
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(lambda key: df.where(f"key = '{key}'").count(), keys)
        assert list(found) == [counts[key] for key in keys]
