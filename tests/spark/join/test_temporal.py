"""temporal_join against a plain model, and against Spark's own ASOF JOIN."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kstore_core import serdes, stores
from kstore_core.codec import partition
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark import temporal_join, write_store
from tests.spark.support import logs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def published(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> logs.Published:
    return logs.publish(spark, tmp_path_factory.mktemp("published"), 30)


Row = tuple[int, bytes | None, int | None]


def make_rows(seed: int, count: int, model: logs.Model) -> list[Row]:
    """Rows out of order, some at a version's very time, some without a key or time."""
    dice = random.Random(seed)
    versions = model.history()
    rows: list[Row] = []
    for number in range(count):
        key: bytes | None = f"k{dice.randrange(24)}".encode()
        time: int | None = dice.randrange(900, 2_200)
        if dice.random() < 0.3:
            version = dice.choice(versions)
            key = version.key
            time = dice.choice([version.timestamp, version.valid_to or 2_000]) - dice.randrange(2)
        if dice.random() < 0.02:
            key = None
        if dice.random() < 0.02:
            time = None
        rows.append((number, key, time))
    return rows


def rows_frame(spark: SparkSession, rows: list[Row], *, millis: bool = False) -> DataFrame:
    numbers, keys, times = zip(*rows, strict=True)
    when = pa.array(times, pa.int64())
    if not millis:
        when = pa.compute.multiply(when, 1000).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table(
        {"number": pa.array(numbers), "who": pa.array(keys, pa.binary()), "at": when, "more": when}
    )
    return spark.createDataFrame(table).repartition(2)


def made(
    spark: SparkSession, model: logs.Model, seed: int, count: int
) -> tuple[list[Row], DataFrame]:
    """Rows, and the DataFrame of them with times in ms."""
    rows = make_rows(seed, count, model)
    return rows, rows_frame(spark, rows, millis=True)


def joined(df: DataFrame) -> dict[int, Any]:
    """By row number what was added."""
    found = {}
    for row in df.toArrow().to_pylist():
        assert row["number"] not in found
        found[row["number"]] = (
            row["table_value"],
            row["table_timestamp"],
            row["table_valid_to"],
            None if row["table_headers"] is None else logs.plain_headers(row["table_headers"]),
        )
    return found


def expected(model: logs.Model, rows: list[Row]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for number, key, time in rows:
        version = model.as_of(key, time)
        found[number] = (None, None, None, None)
        if version is not None:
            found[number] = (version.value, version.timestamp, version.valid_to, version.headers)
    return found


@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("small", [True, False])
def test_every_row_gets_the_version_of_its_time(
    spark: SparkSession, published: logs.Published, how: Any, *, small: bool
) -> None:
    root, model = published
    rows, df = made(spark, model, 31, 3_000)
    result = temporal_join(
        df, root, key="who", timestamp="at", how=how, broadcast_bytes=10**9 if small else 0
    )
    plan = result._jdf.queryExecution().executedPlan().toString()
    assert ("shufflepartitionid" not in plan) == small
    assert result.columns == [
        *("number", "who", "at", "more"),
        *("table_value", "table_timestamp", "table_valid_to", "table_headers"),
    ]
    wanted = expected(model, rows)
    matched = {number: found for number, found in wanted.items() if found[1] is not None}
    assert 500 < len(matched) < 2_900
    assert joined(result) == (wanted if how == "left" else matched)


def test_the_rows_pass_through_as_they_were(spark: SparkSession, published: logs.Published) -> None:
    root, model = published
    df = rows_frame(spark, make_rows(32, 300, model))
    result = temporal_join(df, root, key="who", timestamp="at").select(*df.columns)
    assert result.schema == df.schema
    assert sorted(result.collect(), key=str) == sorted(df.collect(), key=str)


def test_expressions_are_joined_as_columns_are(
    spark: SparkSession, published: logs.Published
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    root, model = published
    rows = make_rows(5, 300, model)
    df = rows_frame(spark, rows).withColumnRenamed("more", "_key")
    named = temporal_join(df, root, key="who", timestamp="at")
    nested = df.selectExpr("number", "struct(who, at) as row", "_key")
    for found in (
        temporal_join(df, root, key=F.col("who"), timestamp=F.col("at")),
        temporal_join(df, root, key="WHO", timestamp=F.expr("at + interval 0 days")),
        temporal_join(nested, root, key=F.col("row.who"), timestamp=F.col("row.at")),
        temporal_join(nested, root, key="row.who", timestamp="ROW.`at`"),
        temporal_join(df, root, key="`who`", timestamp="`AT`"),
    ):
        assert joined(found) == joined(named)
        added = [name for name in named.columns if name.startswith("table_")]
        assert found.columns[-len(added) :] == added
    assert temporal_join(df, root, key=F.col("who"), timestamp="at").columns == (named.columns)


def test_a_name_with_other_letters_is_not_found_if_the_case_matters(
    spark: SparkSession, published: logs.Published
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    root, _ = published
    df = session.sql("select cast('k' as binary) who, 1L at")
    with pytest.raises(SpecError, match="no column 'WHO'"):
        temporal_join(df, root, key="WHO", timestamp="at")


@pytest.mark.parametrize("kind", ["timestamp_ntz", "date"])
def test_other_times_must_be_cast(
    spark: SparkSession, published: logs.Published, kind: str
) -> None:
    df = spark.sql(f"select cast('k' as binary) who, cast('2020-01-01' as {kind}) at")
    wrong = rf"'at' is {kind}, not timestamp or bigint, so cast it to timestamp"
    with pytest.raises(SpecError, match=wrong):
        temporal_join(df, published[0], key="who", timestamp="at")


@pytest.mark.parametrize("name", ["who.x", "x.who", "`who", "`wh`", ".", "who."])
def test_a_name_that_spark_does_not_find_is_missing(
    spark: SparkSession, published: logs.Published, name: str
) -> None:
    df = spark.sql("select cast('k' as binary) who, 1L at")
    with pytest.raises(SpecError, match=r"the DataFrame has no column '.*columns are: who, at"):
        temporal_join(df, published[0], key=name, timestamp="at")


def test_times_of_microseconds_are_compared_exactly(spark: SparkSession, root: Path) -> None:
    write_store(
        logs.log_frame(
            spark, [logs.Record(b"a", b"1", 1_000), logs.Record(b"a", b"2", 1_001, offset=1)]
        ),
        root,
        stores.versioned_key_value_with_headers("s", 10**9),
        partitions=1,
    )
    df = spark.sql(
        "select cast('a' as binary) k, timestamp_micros(us) at from values "
        "(999999L), (1000000L), (1000001L), (1000999L), (1001000L), (1002000L), (1002001L) as t(us)"
    )
    result = temporal_join(df, root, key="k", timestamp="at", tolerance_ms=1)
    values = [row.table_value for row in result.orderBy("at").collect()]
    assert values == [None, b"1", b"1", b"1", b"2", b"2", None]


@pytest.mark.parametrize("tolerance", [0, 10, 60])
def test_the_tolerance_is_inclusive(
    spark: SparkSession, published: logs.Published, tolerance: int
) -> None:
    root, model = published
    rows = make_rows(33, 1_000, model)
    wanted = expected(model, rows)
    for number, _, time in rows:
        if wanted[number][1] is not None and time - wanted[number][1] > tolerance:
            wanted[number] = (None, None, None, None)
    df = rows_frame(spark, rows, millis=True)
    result = temporal_join(df, root, key="who", timestamp="at", tolerance_ms=tolerance)
    assert joined(result) == wanted


def test_names_and_types_are_the_callers(spark: SparkSession, root: Path) -> None:
    spec = stores.versioned_key_value("s", 10**9, key=serdes.UTF8, value=serdes.FLOAT64)
    df = spark.sql("select concat('k', id) key, id / 4D value, id timestamp from range(8)")
    write_store(df, root, spec, partitions=3)
    rows = spark.sql("select concat('k', id) `the key`, timestamp_millis(9) at from range(9)")
    result = temporal_join(rows, root, key="the key", timestamp="at", prefix="rate.")
    assert result.columns == ["the key", "at", "rate.value", "rate.timestamp", "rate.valid_to"]
    kinds = [field.dataType.simpleString() for field in result.schema.fields]
    assert kinds == ["string", "timestamp", "double", "timestamp", "timestamp"]
    values = {row["the key"]: row["rate.value"] for row in result.collect()}
    assert values == {f"k{n}": n / 4 if n < 8 else None for n in range(9)}
    taken = rows.selectExpr("`the key` key", "at timestamp", "1 value", "2 valid_to", "3 headers")
    result = temporal_join(taken, root, key="key", timestamp="timestamp", headers=False)
    (row,) = result.where("key = 'k4'").collect()
    assert (row.value, row.valid_to, row.headers, row.table_value) == (1, 2, 3, 1.0)


def test_headers_are_left_out_where_not_asked_for(
    spark: SparkSession, published: logs.Published
) -> None:
    root, model = published
    df = rows_frame(spark, make_rows(34, 50, model))
    result = temporal_join(df, root, key="who", timestamp="at", headers=False)
    assert "table_headers" not in result.columns
    assert result.where("table_value is not null").count() > 0


def test_a_join_keeps_to_its_version(spark: SparkSession, root: Path) -> None:
    spec = stores.versioned_key_value_with_headers("s", 10**9)
    for number in range(2):
        log = [logs.Record(b"a", b"%d" % number, 10, offset=number)]
        write_store(logs.log_frame(spark, log), root, spec, partitions=1)
    df = spark.sql("select cast('a' as binary) k, 20L at")
    for version, value in ((1, b"0"), (2, b"1"), (None, b"1"), (1, b"0")):
        (row,) = temporal_join(df, root, key="k", timestamp="at", version=version).collect()
        assert row.table_value == value


@pytest.mark.parametrize("cache_bytes", [0, 1_000, 10**9])
def test_whatever_is_kept_the_result_is_the_same(
    spark: SparkSession, published: logs.Published, cache_bytes: int
) -> None:
    root, model = published
    rows, df = made(spark, model, 35, 500)
    for _ in range(2):
        result = temporal_join(df, root, key="who", timestamp="at", cache_bytes=cache_bytes)
        assert joined(result) == expected(model, rows)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.session.timeZone", "America/Caracas"),
        ("spark.sql.execution.arrow.useLargeVarTypes", "true"),
        ("spark.sql.execution.arrow.maxRecordsPerBatch", "7"),
        ("spark.sql.adaptive.enabled", "false"),
        ("spark.sql.ansi.enabled", "false"),
    ],
)
def test_the_sessions_settings_change_nothing(
    spark: SparkSession, root: Path, setting: str, value: str
) -> None:
    log = logs.make_log(39, 200, logs.SHARDS)
    model = logs.model_of(log)
    rows = make_rows(40, 300, model)
    usual = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        write_store(logs.log_frame(spark, log), root, logs.SPEC, partitions=logs.SHARDS)
        result = temporal_join(
            rows_frame(spark, rows), root, key="who", timestamp="at", broadcast_bytes=0
        )
        added = result.selectExpr(
            "number",
            "table_value",
            "unix_millis(table_timestamp) table_timestamp",
            "unix_millis(table_valid_to) table_valid_to",
            "table_headers",
        )
        assert joined(added) == expected(model, rows)
    finally:
        spark.conf.set(setting, str(usual))


def test_an_empty_store_matches_nothing(spark: SparkSession, root: Path) -> None:
    write_store(logs.log_frame(spark, []), root, logs.SPEC, partitions=2)
    df = spark.sql("select cast(id as string) :: binary k, id at from range(10)")
    result = temporal_join(df, root, key="k", timestamp="at").collect()
    assert [row.table_value for row in result] == [None] * 10
    assert temporal_join(df, root, key="k", timestamp="at", how="inner").count() == 0


def test_a_stream_is_joined_too(
    spark: SparkSession, published: logs.Published, tmp_path: Path
) -> None:
    root, model = published
    rows, df = made(spark, model, 36, 400)
    df.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    result = temporal_join(stream, root, key="who", timestamp="at")
    query = (
        result.writeStream.format("memory")
        .queryName("joined")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert joined(spark.table("joined")) == expected(model, rows)


def test_a_stream_that_follows_sees_versions_as_they_are_published(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    """By its shards, of which the newer version leaves one as it was; rows of a key come twice."""
    spec = stores.versioned_key_value_with_headers("s", 10**9)
    source = tmp_path / "in"
    rows = spark.sql("select cast('k' || id as binary) who, 20L at from range(8)").coalesce(1)
    rows.write.parquet(str(source))
    stream = spark.readStream.schema(rows.schema).parquet(str(source))
    found = []
    for number in (1, 2):
        log = [
            logs.Record(b"k%d" % n, b"%d" % number, 10, offset=number) for n in (1, 4)[number - 1 :]
        ]
        write_store(logs.log_frame(spark, log, logs.COLUMNS[:4]), root, spec, partitions=2)
        if number == 1:
            result = temporal_join(
                stream, root, key="who", timestamp="at", follow=True, broadcast_bytes=0, how="inner"
            )
        (
            result.writeStream.format("memory")
            .queryName("followed")
            .outputMode("append")
            .option("checkpointLocation", str(tmp_path / f"checkpoint-{number}"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )
        got = spark.table("followed").select("who", "table_value").collect()
        found.append({(bytes(row.who), bytes(row.table_value)) for row in got})
    assert found == [{(b"k1", b"1"), (b"k4", b"1")}, {(b"k1", b"1"), (b"k4", b"2")}]


def test_rows_of_kafka_are_brought_by_their_partition(
    spark: SparkSession, published: logs.Published
) -> None:
    root, model = published
    rows = [(n, key or b"", time or 0) for n, key, time in make_rows(41, 500, model)]
    table = pa.table(
        {
            "number": [n for n, _, _ in rows],
            "who": pa.array([key for _, key, _ in rows]),
            "at": [time for *_, time in rows],
            "partition": pa.array([partition(key, logs.SHARDS) for _, key, _ in rows], pa.int32()),
        }
    )
    df = spark.createDataFrame(table).repartition(2)
    options: Any = {"key": "who", "timestamp": "at", "broadcast_bytes": 0}
    result = temporal_join(df, root, partition_by="partition", **options)
    assert result.columns[:4] == df.columns
    assert joined(result) == expected(model, rows)


def checksum(df: DataFrame) -> Any:
    """Number of rows and a sum over their hashes, whatever their order."""
    columns = "number, value, begin, end, headers"
    return df.selectExpr(
        "count(*)", "count(value)", f"sum(cast(xxhash64({columns}) as decimal(38)))"
    ).collect()[0]


def test_every_way_to_join_agrees(spark: SparkSession, root: Path) -> None:
    """By checksum: Spark's ASOF JOIN, its range join on lead(), and ours in each of its ways.

    A tombstone's match is taken away from Spark's afterwards.
    """
    log = logs.make_log(37, 5_000, logs.SHARDS, keys=60, span=40_000)
    spec = stores.versioned_key_value_with_headers("s", 10**9)
    write_store(logs.log_frame(spark, log), root, spec, partitions=logs.SHARDS)
    model = logs.Model(logs.SHARDS, 10**9).put(log)
    dice = random.Random(38)
    rows: list[Row] = [
        (n, b"k%d" % dice.randrange(70), dice.randrange(900, 42_000)) for n in range(20_000)
    ]
    rows += [(20_000 + n, record.key, record.timestamp) for n, record in enumerate(log)]
    stream = rows_frame(spark, rows)
    added = (
        "number",
        "table_value value",
        "unix_millis(table_timestamp) begin",
        "unix_millis(table_valid_to) end",
        "table_headers headers",
    )
    ours = [
        temporal_join(
            stream,
            root,
            key="who",
            timestamp="at",
            broadcast_bytes=broadcast_bytes,
            cache_bytes=cache_bytes,
        ).selectExpr(*added)
        for broadcast_bytes, cache_bytes in ((0, 10**9), (10**9, 10**9), (0, 0))
    ]

    last = {(record.key, record.timestamp): record for record in log}
    assert len(last) == sum(len(by_time) for by_time in model.versions.values())
    stream.createOrReplaceTempView("rows")
    logs.log_frame(spark, list(last.values())).createOrReplaceTempView("log")
    spark.sql(
        "select *, lead(timestamp) over (partition by key order by timestamp) ends from log"
    ).createOrReplaceTempView("versions")
    spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
    theirs = spark.sql(
        "select number, v.value, if(v.value is null, null, unix_millis(v.timestamp)) begin, "
        "if(v.value is null, null, unix_millis(v.ends)) end, "
        "if(v.value is null, null, v.headers) headers "
        "from rows left asof join versions v "
        "match_condition (rows.at >= v.timestamp) on rows.who = v.key"
    )
    ranged = spark.sql(
        "select number, v.value, unix_millis(v.timestamp) begin, unix_millis(v.ends) end, "
        "v.headers from rows left join versions v on rows.who = v.key and v.value is not null "
        "and rows.at >= v.timestamp and (rows.at < v.ends or v.ends is null)"
    )
    wanted = checksum(theirs)
    assert wanted[0] == 25_000
    assert 10_000 < wanted[1] < 24_000
    assert [checksum(df) for df in (ranged, *ours)] == [wanted] * 4


def test_what_cannot_be_joined_is_told(
    spark: SparkSession, published: logs.Published, tmp_path: Path
) -> None:
    root, _ = published
    df = spark.sql("select cast('a' as binary) k, 'b' text, 1 number, 2L at, 3 table_VALUE")
    with pytest.raises(StateError, match="has no store"):
        temporal_join(df, tmp_path / "nothing", key="k", timestamp="at")
    with pytest.raises(SpecError, match="has no column 'key'; its columns are: k, text"):
        temporal_join(df, root, key="key", timestamp="at")
    with pytest.raises(SpecError, match="'text' is string, not binary"):
        temporal_join(df, root, key="text", timestamp="at")
    with pytest.raises(SpecError, match="'number' is int, not timestamp or bigint"):
        temporal_join(df, root, key="k", timestamp="number")
    with pytest.raises(
        SpecError, match=r"the join adds a column 'table_value'.*pass another prefix="
    ):
        temporal_join(df, root, key="k", timestamp="at")
    with pytest.raises(SpecError, match="several columns 'k'"):
        temporal_join(df.selectExpr("*", "k"), root, key="k", timestamp="at", prefix="x")
    with pytest.raises(SpecError, match="how must be 'left' or 'inner', not 'outer'"):
        temporal_join(df, root, key="k", timestamp="at", how="outer")  # type: ignore[arg-type]
    months = df.selectExpr("k", "at", "interval 1 month `each month`")
    with pytest.raises(SpecError, match=r"cannot pass each month to Python, .* cast the column"):
        temporal_join(months, root, key="k", timestamp="at")
    for name in ("on_expired", "partition_by"):
        with pytest.raises(SpecError, match=f"{name} must be '.* not 'x'"):
            temporal_join(df, root, key="k", timestamp="at", **{name: "x"})
    with pytest.raises(SpecError, match="has no column 'partition'"):
        temporal_join(df, root, key="k", timestamp="at", prefix="x", partition_by="partition")
    with pytest.raises(UnsupportedError, match="follow=True can be used only with"):
        temporal_join(df, root, key="k", timestamp="at", follow=True)
    with pytest.raises(ValueError, match="version=1 and follow=True contradict"):
        temporal_join(df, root, key="k", timestamp="at", version=1, follow=True)
    for name in ("broadcast_bytes", "cache_bytes"):
        with pytest.raises(ValueError, match=f"{name}=-1 is negative; pass 0 or more"):
            temporal_join(df, root, key="k", timestamp="at", **{name: -1})
        with pytest.raises(TypeError, match=f"{name}=1.5 is float, not int; pass whole bytes"):
            temporal_join(df, root, key="k", timestamp="at", **{name: 1.5})
    with pytest.raises(ValueError, match="tolerance_ms=-1"):
        temporal_join(df, root, key="k", timestamp="at", tolerance_ms=-1)
    plain = tmp_path / "plain"
    write_store(logs.log_frame(spark, []), plain, stores.timestamped_key_value("kv"), partitions=1)
    with pytest.raises(UnsupportedError, match="has no history"):
        temporal_join(df, plain, key="k", timestamp="at", prefix="x")
