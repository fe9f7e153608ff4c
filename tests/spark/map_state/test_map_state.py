"""map_state on Spark: streams and batches, replayed, restarted and refused."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import serdes, stores
from kstore_core.codec import partition
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark import map_state, read_streams_dir
from tests.spark.map_state.task_runs import TOTALS, running_total
from tests.spark.support.object_store import Bucket

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "key string, total bigint"


def rows_frame(spark: SparkSession, rows: list[tuple[str, int]]) -> DataFrame:
    return spark.createDataFrame(rows, "key string, amount bigint").coalesce(1)


def totals(df: DataFrame) -> list[tuple[str, int]]:
    return sorted((row.key, row.total) for row in df.collect())


def running(rows: list[tuple[str, int]], known: dict[str, int]) -> list[tuple[str, int]]:
    """What `running_total` gives of rows after what is known."""
    found = []
    for key, amount in rows:
        known[key] = known.get(key, 0) + amount
        found.append((key, known[key]))
    return sorted(found)


class Query:
    """A stream of files through map_state to files, run until all are read."""

    def __init__(self, spark: SparkSession, place: Path, **given: Any) -> None:
        self.spark, self.place, self.given = spark, place, given
        self.files = 0

    def feed(self, rows: list[tuple[str, int]]) -> None:
        """A file, which is a micro-batch of its own."""
        target = self.place / "in" / f"{self.files}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"key": key, "amount": amount}) for key, amount in rows]
        scratch = self.place / "next.json"
        scratch.write_text("\n".join(lines))
        os.utime(scratch, (self.files, self.files))  # Spark takes files in the order of their times
        scratch.rename(target)
        self.files += 1

    def run(self, function: Any = running_total) -> list[tuple[str, int]]:
        """Run to the end of what there is; all rows that ever came out."""
        read = self.spark.readStream.schema("key string, amount bigint")
        stream = read.option("maxFilesPerTrigger", 1).json(str(self.place / "in"))
        settings = {"root": self.place / "root", "schema": SCHEMA, "partitions": 2, **self.given}
        query = (
            map_state(stream, function, TOTALS, **settings)
            .writeStream.format("json")
            .option("path", str(self.place / "out"))
            .option("checkpointLocation", str(self.place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return totals(self.spark.read.schema(SCHEMA).json(str(self.place / "out")))

    def forget_last_batch(self) -> None:
        """Have Spark believe that it was not done: no commit, no output."""
        last = max(int(path.name) for path in (self.place / "checkpoint/commits").glob("[0-9]*"))
        logs = [self.place / "checkpoint/commits", self.place / "out/_spark_metadata"]
        for log in logs:
            for name in (f"{last}", f".{last}.crc"):
                (log / name).unlink(missing_ok=True)


Fed = list[tuple[str, int]]


def go_on(query: Query, first: Fed, second: Fed, third: Fed) -> dict[str, int]:
    """Run two batches, and the last of them again before a third; return the totals."""
    known: dict[str, int] = {}
    query.feed(first)
    query.feed(second)
    expected = running(first, known) + running(second, known)
    assert query.run() == sorted(expected)
    query.forget_last_batch()
    query.feed(third)
    expected += running(third, known)
    assert query.run() == sorted(expected)
    return known


def test_a_stream_goes_on_and_a_batch_that_is_replayed_counts_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path)
    first = [("a", 1), ("b", 2), ("a", 3), ("c", 4)]
    known = go_on(query, first, [("a", 10), ("d", 5), ("d", 6)], [("b", 7), ("a", 8)])
    kept = read_streams_dir(spark, tmp_path / "root" / "live" / "totals", TOTALS).collect()
    assert {row.key: row.value for row in kept} == known
    assert all(row.partition == partition(row.key.encode(), 2) for row in kept)


def test_a_stream_goes_on_from_an_object_store(
    spark: SparkSession, tmp_path: Path, bucket: Bucket
) -> None:
    query = Query(spark, tmp_path, root=bucket.address(), storage_options=bucket.options)
    go_on(query, [("a", 1), ("b", 2), ("a", 3)], [("a", 10), ("d", 5)], [("b", 7)])
    batch = map_state(
        rows_frame(spark, [("x", 1)]),
        running_total,
        TOTALS,
        root=bucket.address("batch"),
        schema=SCHEMA,
        storage_options=bucket.options,
    )
    assert totals(batch) == totals(batch) == [("x", 1)]


def test_what_a_function_raises_ends_the_stream_and_it_can_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    def picky(key: str, rows: Any, store: Any) -> Any:
        yield from running_total(key, rows, store)
        if key == "b":
            raise LookupError("not this one")

    query = Query(spark, tmp_path, partitions=1)
    query.feed([("a", 1), ("b", 2)])
    with pytest.raises(StreamingQueryException) as caught:
        query.run(picky)
    assert "LookupError: not this one" in str(caught.value)
    assert "picky was called with the key 'b'" in str(caught.value)
    assert query.run() == [("a", 1), ("b", 2)]


def test_a_batch_is_one_run_however_often_it_is_evaluated(spark: SparkSession, root: Path) -> None:
    known: dict[str, int] = {}
    first, second = [("a", 1), ("b", 2), ("a", 3)], [("b", 5), ("c", 6)]
    df = map_state(
        rows_frame(spark, first), running_total, TOTALS, root=root, schema=SCHEMA, partitions=2
    )
    expected = running(first, known)
    assert totals(df) == expected
    assert totals(df.where("total > 0")) == expected
    later = map_state(rows_frame(spark, second), running_total, TOTALS, root=root, schema=SCHEMA)
    assert totals(later) == running(second, known)
    assert later.count() == 2


def test_within_foreach_batch_a_micro_batch_counts_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    found: list[tuple[str, int]] = []
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text('{"key": "a", "amount": 1}\n{"key": "a", "amount": 2}')

    def again(df: DataFrame, _: int) -> None:
        for _ in range(2):  # as if Spark had asked for the batch again
            result = map_state(
                df, running_total, TOTALS, root=tmp_path / "root", schema=SCHEMA, partitions=1
            )
            found.extend(totals(result))

    stream = spark.readStream.schema("key string, amount bigint").json(str(tmp_path / "in"))
    query = stream.writeStream.foreachBatch(again).option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    )
    query.trigger(availableNow=True).start().awaitTermination()
    assert found == [("a", 1), ("a", 3)] * 2


def test_rows_go_to_the_shard_of_their_partition_and_are_sorted(
    spark: SparkSession, root: Path
) -> None:
    spec = stores.key_value("places", key=serdes.UTF8, value=serdes.INT64)
    df = spark.sql(
        "select concat('k', id % 3) `a key`, int(id % 2) partition, 7 - id `the.time`, "
        "timestamp_millis(id) at, map('n', id) m from range(6)"
    )

    def places(key: str, rows: Any, store: Any) -> Any:
        store.put(key, len(rows))
        return [(key, rows.column("partition"), rows.column("the.time"), rows.column("at"))]

    found = map_state(
        df,
        places,
        spec,
        root=root,
        key="a key",
        schema="`the.key` string, partitions array<int>, times array<bigint>, at array<bigint>",
        partitions=2,
        partition_by="partition",
        order_by=["the.time"],
        timestamps="millis",
    ).collect()
    rows = sorted((*row,) for row in found)
    assert rows == [
        ("k0", [0], [7], [0]),
        ("k0", [1], [4], [3]),
        ("k1", [0], [3], [4]),
        ("k1", [1], [6], [1]),
        ("k2", [0], [5], [2]),
        ("k2", [1], [2], [5]),
    ]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.session.timeZone", "America/Caracas"),
        ("spark.sql.execution.arrow.useLargeVarTypes", "true"),
    ],
)
def test_types_of_all_kinds_pass_whatever_the_session_is_set_to(
    spark: SparkSession, root: Path, setting: str, value: str
) -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    df = spark.sql(
        "select 'k' key, timestamp_millis(1704110400000) at, map('a', 1) numbers, "
        "array(named_struct('key', 'h', 'value', cast('1' as binary))) headers"
    )

    def give(key: str, rows: Any, store: Any) -> Any:
        (row,) = rows
        seen = (row.at, list(row.headers)) == (noon, [("h", b"1")])
        yield {
            "numbers": dict(row.numbers),
            "price": Decimal("1.50"),
            "day": date(2024, 1, 1),
            "inner": {"at": row.at, "headers": row.headers},
            "seen": seen,
        }

    schema = (
        "numbers map<string, int>, price decimal(5, 2), day date, seen boolean, "
        "inner struct<at: timestamp, headers: array<struct<key: string, value: binary>>>"
    )
    usual = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        out = map_state(df, give, TOTALS, root=root, schema=schema, partitions=1)
        (row,) = out.selectExpr("*", "unix_millis(inner.at) millis").collect()
    finally:
        spark.conf.set(setting, str(usual))
    assert (row.numbers, row.price, row.day) == ({"a": 1}, Decimal("1.50"), date(2024, 1, 1))
    assert (row.seen, row.millis) == (True, 1_704_110_400_000)
    assert [(header.key, bytes(header.value)) for header in row.inner.headers] == [("h", b"1")]


def test_what_cannot_be_mapped_is_told_when_the_plan_is_made(
    spark: SparkSession, root: Path
) -> None:
    df = spark.sql("select 'a' key, 1L amount, 2.5 number, array(1) many, 'b' partition")
    given: dict[str, Any] = {"root": root, "schema": SCHEMA}

    def refuse(error: type[Exception], message: str, **other: Any) -> None:
        settings = {"df": df, "fn": running_total, "spec": TOTALS, **given, **other}
        with pytest.raises(error, match=message):
            map_state(**settings)
        assert not root.exists()

    refuse(TypeError, "must be a function, not 5", fn=5)
    refuse(
        TypeError,
        r"<lambda>\(rows\) cannot be called as fn\(key, rows, store\)",
        fn=lambda rows: rows,
    )
    refuse(TypeError, "must be a StoreSpec", spec="totals")
    refuse(UnsupportedError, "keeps its data in the process", engine="memory")
    window = stores.window("w", 100, 10, key=serdes.UTF8)
    refuse(
        UnsupportedError,
        r"cannot commit .* in one transaction.* engine='lmdb'",
        engine="rocksdb",
        spec=window,
    )
    refuse(SpecError, "partition_by must be 'key' or 'partition', not 'hash'", partition_by="hash")
    refuse(SpecError, "timestamps must be .* not 'seconds'", timestamps="seconds")
    refuse(SpecError, "durability must be .*, not 'none'", durability="none")
    refuse(SpecError, "partitions=0", partitions=0)
    refuse(SpecError, "no column 'who'; its columns are: key, amount", key="who")
    refuse(SpecError, "'amount' is bigint, not binary or string", key="amount")
    refuse(SpecError, "'partition' is string, not int or bigint", partition_by="partition")
    refuse(SpecError, "no column 'time'", order_by=["time"])
    refuse(SpecError, "is a str; pass a list", order_by="amount")
    refuse(
        SpecError, "cannot be sorted by the column 'many' of the type array<int>", order_by=["many"]
    )
    refuse(SpecError, "two columns named 'key'", df=df.selectExpr("*", "key"))
    refuse(SpecError, "the schema has two columns named 'a'", schema="a int, a int")
    refuse(SpecError, "pass the columns that fn returns", schema=5)
    refuse(SpecError, "compact_every=0 is not an int of 1 or more", compact_every=0)
    refuse(SpecError, "storage options .* leave the options out", storage_options={"region": "x"})
    refuse(UnsupportedError, "webdav: is not supported", root="webdav://host/root")


def test_a_root_keeps_its_shards(spark: SparkSession, root: Path) -> None:
    df = rows_frame(spark, [("a", 1)])
    map_state(df, running_total, TOTALS, root=root, schema=SCHEMA, partitions=2)
    with pytest.raises(SpecError, match="partitions is stored as 2 and given as 5"):
        map_state(df, running_total, TOTALS, root=root, schema=SCHEMA, partitions=5)
    with pytest.raises(SpecError, match="engine is stored as 'lmdb' and given as 'rocksdb'"):
        map_state(df, running_total, TOTALS, root=root, schema=SCHEMA, engine="rocksdb")


def test_a_root_of_stream_into_is_refused(spark: SparkSession, root: Path) -> None:
    (root / "live").mkdir(parents=True)
    stream = {"query": "q", "checkpoint": "c", "store": "s", "shape": "key_value", "base": None}
    stream |= {"format": 1, "engine": "lmdb", "partitions": 1, "partition_by": "key"}
    (root / "live" / "stream.json").write_text(json.dumps(stream))
    df = rows_frame(spark, [("a", 1)])
    with pytest.raises(StateError, match="belongs to a stream of stream_into"):
        map_state(df, running_total, TOTALS, root=root, schema=SCHEMA)
