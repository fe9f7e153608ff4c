"""``format("kstore")`` within Spark: found by itself, typed, pinned, and clear about mistakes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import serdes, stores
from kstore_core.codec import partition
from kstore_core.spark import read_changes, read_metadata, read_store, read_streams_dir
from tests.spark.support.by_hand import publish
from tests.support.golden import manifest, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARDS = 2
SPEC = stores.versioned_key_value_with_headers("rates", 1000, 100, key=serdes.UTF8)
WINDOWS = stores.timestamped_window_with_headers(
    "sums", 1000, 10, segment_interval_ms=100, key=serdes.UTF8, value=serdes.INT64
)
KEYS = [f"k{number}" for number in range(6)]
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


def fill(round_: int) -> Any:
    def put(store: Any, shard: int) -> None:
        for number, key in enumerate(KEYS):
            if partition(key.encode(), SHARDS) == shard:
                time = 100 * round_ + number
                store.put(key, b"%d" % time, timestamp=time, headers=[("n", None)])

    return put


def fill_windows(store: Any, shard: int) -> None:
    for number, key in enumerate(KEYS):
        if partition(key.encode(), SHARDS) == shard:
            store.put(key, number, window_start=number * 10, timestamp=number, headers=[])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of two roots: the rates, of two versions, and the sums."""
    base = tmp_path_factory.mktemp("source") / "all"
    publish(base / "rates", SPEC, fill(0))
    publish(base / "rates", SPEC, fill(1))
    publish(base / "sums", WINDOWS, fill_windows)
    return base


def load(spark: SparkSession, path: Path | str, **options: Any) -> DataFrame:
    return spark.read.format("kstore").options(**options).load(str(path))


def rows(df: DataFrame) -> list[Any]:
    return sorted(df.toArrow().to_pylist(), key=str)


def test_the_same_as_the_function(spark: SparkSession, base: Path) -> None:
    root = base / "rates"
    df = load(spark, root, history=True, to=104, timestamps="millis")
    assert [f"{field.name} {field.dataType.simpleString()}" for field in df.schema] == [
        "key string",
        "value binary",
        "timestamp bigint",
        "valid_to bigint",
        "headers array<struct<key:string,value:binary>>",
        "partition int",
    ]
    asked: dict[str, Any] = {"history": True, "to_ts": 104, "timestamps": "millis"}
    assert rows(df) == rows(read_store(spark, root, **asked))
    assert df.rdd.getNumPartitions() == SHARDS
    assert {row["timestamp"] for row in rows(df)} == {*range(6), *range(100, 105)}


def test_one_shard_of_a_window_store_by_name(spark: SparkSession, base: Path) -> None:
    df = load(spark, base, store="sums", key="k3", columns="window_end,value,window_start")
    assert df.rdd.getNumPartitions() == 1
    start = df.selectExpr("unix_millis(window_start) s", "unix_millis(window_end) e", "value")
    assert [tuple(row) for row in start.collect()] == [(30, 40, 3)]
    nothing = load(spark, base, store="sums", keys="[]")
    assert nothing.count() == 0
    found = read_store(spark, base / "sums", from_ts=30, to_ts=49, headers=False)
    assert sorted(row.value for row in found.collect()) == [3, 4]
    assert "headers" not in found.columns


def test_a_dataframe_is_pinned_when_it_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    publish(tmp_path / "r", SPEC, fill(0))
    before = load(spark, tmp_path / "r", timestamps="millis")
    publish(tmp_path / "r", SPEC, fill(1))
    assert {row["timestamp"] for row in rows(before)} == set(range(6))
    assert {row["timestamp"] for row in rows(before.where("key < 'k3'"))} == {0, 1, 2}
    after = load(spark, tmp_path / "r", timestamps="millis")
    assert {row["timestamp"] for row in rows(after)} == set(range(100, 106))


def test_a_schema_may_choose_columns(spark: SparkSession, base: Path) -> None:
    reader = spark.read.format("kstore").schema("value binary, key string")
    df = reader.load(str(base / "rates"))
    assert sorted(tuple(row) for row in df.collect()) == [
        (b"10%d" % number, f"k{number}") for number in range(6)
    ]


def test_views_but_no_tables_of_a_catalog(spark: SparkSession, base: Path) -> None:
    from pyspark.errors import AnalysisException

    where = f"using kstore options (path '{base / 'rates'}', as_of '50')"
    spark.sql(f"create temporary view kstore_rates {where}")
    try:
        query = "select cast(value as string) value from kstore_rates where key = 'k4'"
        assert [row.value for row in spark.sql(query).collect()] == ["4"]
    finally:
        spark.sql("drop view kstore_rates")
    with pytest.raises(
        AnalysisException, match=r"does not pass the table's options .* CREATE TEMPORARY VIEW"
    ):
        spark.sql(f"create table kstore_rates {where}")


def test_other_reads_go_by_the_same_format(spark: SparkSession, base: Path, tmp_path: Path) -> None:
    root = base / "rates"
    changes = load(spark, root, changes=True, from_version=1, timestamps="millis")
    found = rows(changes)
    assert found == rows(read_changes(spark, root, 1, timestamps="millis"))
    assert [row["_change"] for row in found].count("insert") == 6
    assert len(found) == 18
    files = load(spark, base, metadata="shards", store="rates")
    assert rows(files) == rows(read_metadata(spark, root, "shards"))
    assert [row.version for row in files.collect()] == [2, 2]

    shutil.move(unpack("versioned", tmp_path / "unpacked"), tmp_path / "app" / "0_0")
    spec = stores.versioned_key_value("versioned", 60_000, 10_000)

    df = load(spark, tmp_path / "app", streams_dir=True, spec=json.dumps(spec.describe()))
    assert rows(df) == rows(read_streams_dir(spark, tmp_path / "app", spec))
    latest = [line["latest"] for line in manifest("versioned")["content"]]
    assert df.count() == len([version for version in latest if version])


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("rates", {"asof": 5}, r"SpecError: .*no option 'asof'\. Did you mean 'as_of'\?"),
        ("rates", {"as_of": "2020-01-01T00:00"}, "has no UTC offset, so its instant is unknown"),
        (
            "rates",
            {"columns": "valu"},
            "the store 'rates' has no column 'valu'; its columns are: key, val",
        ),
        ("nothing", {}, "StateError: .*nothing has no store: there is no manifest"),
        ("sums", {"as_of": 5}, "UnsupportedError: the store 'sums' has .* which has no history"),
    ],
)
def test_mistakes_are_told_when_it_is_loaded(
    spark: SparkSession, base: Path, path: str, options: dict[str, Any], message: str
) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=message):
        load(spark, base / path, **options)


def test_several_paths_and_relative_ones(spark: SparkSession, base: Path) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="a read takes one root, but the paths"):
        spark.read.format("kstore").load([str(base / "rates"), str(base / "sums")])
    with pytest.raises(AnalysisException, match="the path 'rates' is relative"):
        spark.read.format("kstore").load("rates")
    with pytest.raises(AnalysisException, match="the path is missing; pass the root of a store"):
        spark.read.format("kstore").load()


def test_a_wrong_schema_is_refused(spark: SparkSession, base: Path) -> None:
    df = spark.read.format("kstore").schema("value string").load(str(base / "rates"))
    with pytest.raises(
        Exception, match="schema has a column value string, but the read returns: key"
    ):
        df.collect()


def test_a_store_is_no_stream(spark: SparkSession, base: Path) -> None:
    df = spark.readStream.format("kstore").load(str(base / "rates"))
    with pytest.raises(Exception, match="a store cannot be read as a stream, because each version"):
        df.writeStream.format("noop").start().awaitTermination()
