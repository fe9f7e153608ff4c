"""The function of SQL that looks up versions, against temporal_join row by row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kstore_core import serdes, stores
from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spark import register_as_of, temporal_join, write_store
from kstore_core.spark.join.tasks import JoinTask
from kstore_core.spark.join.versions import Source
from kstore_core.spark.sql.as_of import AsOf
from tests.spark.support.logs import SHARDS, SPEC, log_frame, make_log
from tests.spark.support.shards import put_shards, source_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = make_log(17, 600, SHARDS)
PLAIN = stores.versioned_key_value("plain", 300, 40)
Columns = list[tuple[pa.Array, pa.Array]]


@pytest.fixture(scope="module", params=[SPEC, PLAIN], ids=["headers", "plain"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Source:
    root = tmp_path_factory.mktemp("as-of")
    shards = put_shards(root, LOG, request.param, SHARDS)
    return source_of(root, shards, request.param, cache_bytes=10**9)


def columns_of(dice: random.Random, kind: str) -> Columns:
    """Batches of keys and times, also empty ones, with nulls and keys that no record has."""
    columns = []
    for _ in range(dice.randrange(4)):
        rows = dice.choice([0, 1, 2, 30])
        keys = [None if dice.random() < 0.1 else b"k%d" % dice.randrange(25) for _ in range(rows)]
        times = [None if dice.random() < 0.1 else dice.randrange(1500, 2200) for _ in range(rows)]
        if kind == "millis":
            at = pa.array(times, pa.int64())
        else:
            micros = [
                None if time is None else time * 1000 + dice.randrange(1000) for time in times
            ]
            at = pa.array(micros, pa.timestamp("us", tz="UTC"))
        columns.append((pa.array(keys, pa.binary()), at))
    return columns


def joined(source: Source, columns: Columns) -> list[dict[str, Any]]:
    """What temporal_join makes of the rows."""
    added = ["value", "timestamp", "valid_to", *(["headers"] if source.headers else [])]
    options: dict[str, Any] = {"inner": False, "tolerance_ms": None, "refuse_expired": False}
    task = JoinTask(source, 0, 1, ("key", "time", *added), **options)
    rows = [pa.RecordBatch.from_arrays(list(each), ["key", "time"]) for each in columns]
    return [row for batch in task.join(iter(rows)) for row in batch.select(added).to_pylist()]


@pytest.mark.parametrize("kind", ["millis", "timestamps"])
@pytest.mark.parametrize("cache_bytes", [10**9, 0], ids=["cached", "not cached"])
def test_each_row_gets_what_temporal_join_gives(
    source: Source, kind: str, cache_bytes: int
) -> None:
    source = replace(source, cache_bytes=cache_bytes)
    matched = 0
    for seed in range(40):
        columns = columns_of(random.Random(seed), kind)
        found = list(AsOf(source, "f", as_millis=kind == "millis").evaluate(iter(columns)))
        assert all(array.type == found[0].type for array in found)
        got = [row for array in found for row in array.to_pylist()]
        want = joined(source, columns)
        assert got == [None if row["timestamp"] is None else row for row in want]
        matched += sum(row is not None for row in got)
    assert matched > 50


def test_times_have_the_type_of_the_registration(source: Source) -> None:
    keys = pa.array([*(b"k%d" % number for number in range(20)), None], pa.binary())
    millis = pa.array([1950] * 21, pa.int64())
    stamps = pa.array([1_950_000] * 21, pa.timestamp("us", tz="UTC"))
    for as_millis in (True, False):
        function = AsOf(source, "f", as_millis=as_millis)
        (one,) = function.evaluate(iter([(keys, millis)]))
        (two,) = function.evaluate(iter([(keys, stamps)]))
        assert one == two
        assert one.type == two.type == function.result
        assert one.null_count < len(one)


def test_arguments_of_wrong_types_are_named(source: Source) -> None:
    function = AsOf(source, "rate_at", as_millis=False)
    keys, times = pa.array([b"k1"], pa.binary()), pa.array([1400], pa.int64())
    text = pa.array(["k1"])
    with pytest.raises(SpecError, match="the key of rate_at is string, but it must be binary"):
        list(function.evaluate(iter([(text, times)])))
    day = times.cast(pa.timestamp("ms")).cast(pa.date32())
    with pytest.raises(
        SpecError, match=r"the time of rate_at is date, .* timestamp or bigint; cast"
    ):
        list(function.evaluate(iter([(keys, day)])))


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sql") / "rates"
    write_store(log_frame(spark, LOG), root, SPEC, partitions=SHARDS)
    return root


@pytest.fixture
def facts(spark: SparkSession) -> Iterator[None]:
    spark.range(300).selectExpr(
        "id", "cast(concat('k', id % 25) as binary) k", "timestamp_millis(900 + id * 4) t"
    ).createOrReplaceTempView("facts")
    yield
    spark.catalog.dropTempView("facts")


def test_sql_answers_as_temporal_join(spark: SparkSession, written: Path, facts: None) -> None:
    function = register_as_of(spark, written)
    fields = ("value", "timestamp", "valid_to", "headers")
    table = temporal_join(spark.table("facts"), written, key="k", timestamp="t", prefix="t_")
    want = table.selectExpr("id", *(f"t_{name}" for name in fields)).orderBy("id").collect()
    inner = "select id, kstore_as_of(k, t) v from facts"
    names = ", ".join(f"v.{name}" for name in fields)
    assert spark.sql(f"select id, {names} from ({inner}) order by id").collect() == want
    assert any(row.t_value is not None for row in want)
    by_column = spark.table("facts").select("id", function("k", "t").alias("v"))
    assert by_column.selectExpr("id", "v.value").orderBy("id").collect() == [
        (row.id, row.t_value) for row in want
    ]
    kind = spark.sql(inner).schema["v"].dataType.simpleString()
    assert kind == (
        "struct<value:binary,timestamp:timestamp,valid_to:timestamp,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    nothing = spark.sql("select kstore_as_of(null, null) v")
    assert nothing.collect() == [(None,)]


def test_a_filter_on_the_result_evaluates_it_twice(
    spark: SparkSession, written: Path, facts: None
) -> None:
    """What docs/sql.md warns of, and the way around it."""
    register_as_of(spark, written, "rate_at", headers=False, timestamps="millis")

    def evaluations(query: str) -> int:
        plan = spark.sql(f"explain {query}").collect()[0][0]
        return sum("ArrowEvalPython" in line for line in plan.splitlines())

    inner = "select id, rate_at(k, t) v from facts"
    assert evaluations(f"select id, v.value from ({inner})") == 1
    assert evaluations(f"select id, v.value from ({inner}) where v.value is not null") == 2
    assert evaluations(f"select id from ({inner})") == 0
    register_as_of(spark, written, "rate_once", deterministic=False)
    once = inner.replace("rate_at", "rate_once")
    assert evaluations(f"select id, v.value from ({once}) where v.value is not null") == 1


def test_filters_on_other_columns_come_first(
    spark: SparkSession, written: Path, facts: None
) -> None:
    register_as_of(spark, written, "rate_at")
    spark.table("facts").write.mode("overwrite").saveAsTable("stored_facts")
    query = "select v.value from (select id, rate_at(k, t) v from stored_facts) where id < 3"
    plan = spark.sql(f"explain {query}").collect()[0][0]
    spark.sql("drop table stored_facts")
    assert plan.index("ArrowEvalPython") < plan.index("LessThan(id,3)") < plan.index("ReadSchema")


def test_the_value_has_the_type_of_the_serde(spark: SparkSession, tmp_path: Path) -> None:
    spec = stores.versioned_key_value("longs", 10**9, key=serdes.INT64, value=serdes.FLOAT64)
    log = spark.sql("select 7L key, 1.5D value, timestamp_millis(1000) timestamp")
    write_store(log, tmp_path / "longs", spec, partitions=2)
    register_as_of(spark, tmp_path / "longs", "long_at", timestamps="millis")
    rows = spark.sql("select long_at(7L, 1000L) a, long_at(7, timestamp_millis(999)) b").collect()
    assert rows == [((1.5, 1000, None), None)]


def test_what_cannot_be_registered_is_refused(
    spark: SparkSession, written: Path, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=r"have [0-9]+ bytes, .* use temporal_join"):
        register_as_of(spark, written, cache_bytes=1)
    with pytest.raises(SpecError, match="'rate-at' is not the name of a function"):
        register_as_of(spark, written, "rate-at")
    with pytest.raises(SpecError, match="timestamps"):
        register_as_of(spark, written, timestamps="seconds")  # type: ignore[arg-type]
    latest = stores.key_value("latest", key=serdes.UTF8, value=serdes.UTF8)
    write_store(spark.sql("select 'a' key, 'b' value"), tmp_path / "l", latest, partitions=1)
    with pytest.raises(UnsupportedError, match="has no history"):
        register_as_of(spark, tmp_path / "l")
    register_as_of(spark, written)
    with pytest.raises(Exception, match="the key of kstore_as_of is string") as caught:
        spark.sql("select kstore_as_of('k1', 1000L)").collect()
    assert "Traceback" not in str(caught.value)
