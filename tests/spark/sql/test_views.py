"""Temporary views of stores: their names, their rows, their versions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import serdes, stores
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark import read_changes, read_metadata, read_store, register_views
from tests.spark.sql.own_serde import Reversed
from tests.spark.support.by_hand import publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RATES = stores.versioned_key_value_with_headers("rates-by-day", 1000, 100, key=serdes.UTF8)
SUMS = stores.timestamped_key_value("sums", key=serdes.UTF8)


def fill(time: int) -> Any:
    def put(store: Any, shard: int) -> None:
        if shard == 0:
            more = {"headers": [("n", None)]} if store.spec.format.headers else {}
            store.put("a", b"%d" % time, timestamp=time, **more)

    return put


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for time in (100, 200):
        publish(tmp_path / "rates", RATES, fill(time), engine="lmdb")
    publish(tmp_path / "sums", SUMS, fill(5), engine="lmdb")
    return tmp_path


def rows(df: DataFrame) -> list[Any]:
    return sorted(df.toArrow().to_pylist(), key=str)


def test_each_view_has_the_rows_of_its_function(spark: SparkSession, base: Path) -> None:
    asked: dict[str, Any] = {"changes_from": 0, "metadata": ["shards", "versions"]}
    names = register_views(spark, base, prefix="v_", timestamps="millis", **asked)
    rates = base / "rates"
    millis: dict[str, Any] = {"timestamps": "millis"}
    expected = {
        "v_rates_by_day": read_store(spark, rates, **millis),
        "v_rates_by_day_history": read_store(spark, rates, history=True, **millis),
        "v_rates_by_day_changes": read_changes(spark, rates, 0, **millis),
        "v_rates_by_day_shards": read_metadata(spark, rates, "shards"),
        "v_rates_by_day_versions": read_metadata(spark, rates, "versions"),
        "v_sums": read_store(spark, base / "sums", **millis),
        "v_sums_changes": read_changes(spark, base / "sums", 0, **millis),
        "v_sums_shards": read_metadata(spark, base / "sums", "shards"),
        "v_sums_versions": read_metadata(spark, base / "sums", "versions"),
    }
    assert sorted(names) == sorted(expected)
    for name, df in expected.items():
        assert rows(spark.table(name)) == rows(df), name
    query = "select cast(value as string) from v_rates_by_day_history where timestamp < 150"
    assert spark.sql(query).collect() == [("100",)]


def test_views_read_one_version_until_they_are_registered_again(
    spark: SparkSession, base: Path
) -> None:
    root = base / "rates"
    assert register_views(spark, root, as_of=150, prefix="p_") == (
        "p_rates_by_day",
        "p_rates_by_day_history",
    )
    old, history = spark.table("p_rates_by_day"), "select count(*) from p_rates_by_day_history"
    publish(root, RATES, fill(300), engine="lmdb")
    assert [row["value"] for row in rows(old)] == [b"100"]
    assert spark.sql(history).collect() == [(2,)]
    register_views(spark, root, prefix="p_")
    assert [row["value"] for row in rows(spark.table("p_rates_by_day"))] == [b"300"]
    assert spark.sql(history).collect() == [(3,)]
    register_views(spark, root, prefix="p_", version=1)
    assert spark.sql(history).collect() == [(1,)]


def test_nothing_is_registered_if_something_is_wrong(spark: SparkSession, base: Path) -> None:
    def refused(error: type[Exception], match: str, **options: Any) -> None:
        before = {table.name for table in spark.catalog.listTables()}
        with pytest.raises(error, match=match):
            register_views(spark, options.pop("root", base), **options)
        assert {table.name for table in spark.catalog.listTables()} == before

    register_views(spark, base / "sums", prefix="r_")
    refused(SpecError, "already a view or table 'r_sums'", prefix="r_", replace=False)
    refused(SpecError, "'1_rates_by_day' is not the name of a view", prefix="1_")
    refused(UnsupportedError, "'sums' has the format", as_of=100)
    refused(SpecError, "metadata must be", metadata=["stores"])
    refused(StateError, "version 9", version=9)
    refused(StateError, "version", root=base / "rates", changes_from=9, prefix="x_")
    refused(SpecError, "no store other, but specs has", specs=[stores.key_value("other")])
    publish(base / "twin", stores.key_value("SUMS"), lambda store, shard: None, engine="lmdb")
    refused(SpecError, "two views would have the name", prefix="t_")


def test_a_serde_that_is_not_built_in_needs_a_spec(spark: SparkSession, tmp_path: Path) -> None:
    spec = stores.timestamped_key_value("own", key=serdes.UTF8, value=Reversed())
    publish(tmp_path, spec, fill(51), engine="lmdb")
    with pytest.raises(SpecError, match="spec"):
        register_views(spark, tmp_path)
    assert register_views(spark, tmp_path, specs=[spec]) == ("own",)
    assert spark.sql("select key, value from own").collect() == [("a", b"51")]


def test_options_of_with_are_ignored_by_spark(spark: SparkSession, base: Path) -> None:
    """What docs/sql.md warns of: Spark does not pass these options to a Python data source."""
    spark.sql(
        f"create or replace temporary view w_rates using kstore options (path '{base / 'rates'}')"
    )
    for options in ("'history' = 'true'", "'key' = 'none'", "'misspelled' = 'x'"):
        found = spark.sql(f"select count(*) from w_rates with ({options})").collect()
        assert found == [(1,)], options
