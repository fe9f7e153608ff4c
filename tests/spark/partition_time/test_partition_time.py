"""KIP-472 over Spark: the time of a partition passes a stage that removes rows, and restarts."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import Headers, open_state, serdes, stores
from kstore_core.arrow import headers_type
from kstore_core.errors import FormatError, SpecError
from kstore_core.partition_time import HEADER, PartitionTime, partition_time
from kstore_core.spark import map_state, with_partition_time
from kstore_core.spark.columns.partition_headers import latest_partition_time, stamped
from kstore_core.spark.partition_time.tasks import PartitionTimes
from kstore_core.spark.root.root import Root
from kstore_core.types import NOT_PUT
from tests.spark.map_state.task_runs import epoch, make_task
from tests.spark.support.streams import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAIRS = st.tuples(st.sampled_from(["a", HEADER]), st.none() | st.binary(max_size=8))
TIMES = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | st.lists(PAIRS, max_size=3), TIMES, TIMES), max_size=6))
def test_a_column_of_headers_tells_what_each_row_does(rows: list[tuple[Any, int, int]]) -> None:
    from kstore_core.partition_time import with_partition_time as one

    read = np.array([min(a, b) for _, a, b in rows], np.int64)
    sent = np.array([max(a, b) for _, a, b in rows], np.int64)
    column = pa.array([None, *[pairs for pairs, _, _ in rows]], headers_type()).slice(1)
    made = stamped(column, read, sent)
    made.validate(full=True)
    assert made.type == headers_type()
    found = [[(pair["key"], pair["value"]) for pair in row] for row in made.to_pylist()]
    expected = [
        one(pairs or (), int(first), int(last))
        for (pairs, _, _), first, last in zip(rows, read, sent, strict=True)
    ]
    assert found == expected
    latest = latest_partition_time(pa.chunked_array([made, made.slice(1)]))
    assert latest == (int(sent.max()) if rows else None)


def test_headers_that_tell_no_time_are_told() -> None:
    assert (
        latest_partition_time(pa.chunked_array([pa.array([[("a", b"1")], None], headers_type())]))
        is None
    )
    for value in (None, b"123"):
        column = pa.chunked_array([pa.array([[(HEADER, value)]], headers_type())])
        with pytest.raises(FormatError, match="header 'partition-time' does not have 8 bytes"):
            latest_partition_time(column)


Row = tuple[str, int, int, bool]
"""Topic, partition, time, and whether it is removed."""
BATCHES = st.lists(
    st.lists(
        st.tuples(st.sampled_from("st"), st.integers(0, 2), st.integers(0, 50), st.booleans()),
        max_size=12,
    ),
    max_size=4,
)
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("headers", headers_type()),
    ]
)


class Store(dict[str, int]):
    """What the work asks of a store."""

    put = dict.__setitem__

    def get_many(self, keys: list[str]) -> list[int | None]:
        return [self.get(key) for key in keys]


@settings(deadline=None)
@given(BATCHES, st.randoms(use_true_random=False))
def test_each_row_tells_what_came_before_it_and_before_the_next(
    batches: list[list[Row]], dice: Any
) -> None:
    work = PartitionTimes("timestamp", "headers", True, True, "gone", SCHEMA)
    store = Store()
    reached: dict[tuple[str, int], int] = {}
    offset = itertools.count()
    for batch in batches:
        if not batch:
            continue
        rows = [(*row, next(offset)) for row in batch]
        expected: dict[int, tuple[int, int]] = {}
        last: dict[tuple[str, int], int] = {}
        for topic, partition, time, gone, at in rows:
            where = (topic, partition)
            reached[where] = max(reached.get(where, -1), time)
            if not gone:
                expected[at] = (reached[where], reached[where])
                last[where] = at
            elif where in last:
                expected[last[where]] = (expected[last[where]][0], reached[where])
        dice.shuffle(rows)
        topics, partitions, times, gone, at = zip(*rows, strict=True)
        table = pa.table([topics, partitions, at, times], names=SCHEMA.names[:4])
        table = table.append_column("headers", pa.nulls(len(rows), headers_type()))
        given_rows = work(store, table.append_column("gone", pa.array(gone)))
        assert given_rows.schema == SCHEMA
        found = {
            row["offset"]: partition_time(Headers([(h["key"], h["value"]) for h in row["headers"]]))
            for row in given_rows.to_pylist()
        }
        assert found == expected
    assert store == {f"{topic}-{number}": time for (topic, number), time in reached.items()}


VERSIONS = stores.versioned_key_value_with_headers(
    "versions", 5, 1, key=serdes.UTF8, value=serdes.INT64
)


def r(spark: SparkSession, *rows: tuple[str, int]) -> DataFrame:
    """Records r1(2), … of one partition, a file each time."""
    df = spark.createDataFrame(
        [(f"r{number}", int(at)) for number, at in rows], "name string, at long"
    )
    return df.selectExpr("name", "0 partition", "timestamp_millis(at) timestamp").coalesce(1)


def test_the_proposals_example_through_two_stages(spark: SparkSession, tmp_path: Path) -> None:
    """r1(2), r2(3), r3(7), r4(9); r3 and r4 are removed. Downstream the time is 9, not 3.

    A restart later comes r5(4), which is late by the time of the partition.
    """
    source, passed = tmp_path / "source", tmp_path / "passed"

    def stage_1() -> None:
        schema = "name string, partition int, timestamp timestamp"
        stream = spark.readStream.schema(schema).parquet(str(source))
        out = with_partition_time(
            stream, root=tmp_path / "root1", keep="name not in ('r3', 'r4')", partitions=1
        )
        query = out.writeStream.format("parquet").option("path", str(passed))
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint1"))
        query.trigger(availableNow=True).start().awaitTermination()

    def put(key: str, rows: Any, store: Any) -> Any:
        for row in rows:
            code = store.put(key, 0, timestamp=row.timestamp, headers=row.headers)
            yield row.name, code != NOT_PUT

    def stage_2() -> dict[str, bool]:
        stream = spark.readStream.schema(spark.read.parquet(str(passed)).schema).parquet(
            str(passed)
        )
        rows = stream.selectExpr("'k' key", "*")
        out = map_state(
            rows,
            put,
            VERSIONS,
            root=tmp_path / "root2",
            schema="name string, put boolean",
            partitions=1,
            order_by=["timestamp"],
            partition_time="headers",
        )
        query = out.writeStream.format("json").option("path", str(tmp_path / "result"))
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint2"))
        query.trigger(availableNow=True).start().awaitTermination()
        found = spark.read.schema(out.schema).json(str(tmp_path / "result"))
        return {row.name: row.put for row in found.collect()}

    def time_downstream() -> int:
        shard = tmp_path / "root2/live/versions/0_0"
        with open_state(shard, read_only=True) as state:
            return state.open(VERSIONS).stream_time

    r(spark, ("1", 2), ("2", 3), ("3", 7), ("4", 9)).write.parquet(str(source))
    stage_1()
    told = {
        row.name: partition_time(Headers([(h.key, bytes(h.value)) for h in row.headers]))
        for row in spark.read.parquet(str(passed)).collect()
    }
    assert told == {"r1": PartitionTime(2, 2), "r2": PartitionTime(3, 9)}
    assert stage_2() == {"r1": True, "r2": True}
    assert time_downstream() == 9
    r(spark, ("5", 3)).write.mode("append").parquet(str(source))
    stage_1()
    assert stage_2() == {"r1": True, "r2": True, "r5": False}
    assert time_downstream() == 9
    log = spark.readStream.schema(spark.read.parquet(str(passed)).schema)
    log = log.option("maxFilesPerTrigger", 1).parquet(str(passed))
    log = log.selectExpr("'k' key", "0L value", "timestamp", "headers", "partition")
    store = {"spec": VERSIONS, "partitions": 1, "partition_time": True}
    run(log, tmp_path / "root3", tmp_path / "checkpoint3", **store)
    manifest = Root.at(tmp_path / "root3").load()
    assert (manifest.shards[0].stream_time, manifest.records, manifest.late) == (9, 3, 1)


def test_a_batch_keeps_its_columns_and_rows_without_a_filter(
    spark: SparkSession, root: Path
) -> None:
    df = spark.sql(
        "select id % 3 partition, string(id) `a.b`, 100 - id timestamp, id offset, "
        "array(named_struct('key', 'n', 'value', binary(string(id)))) h from range(9)"
    )
    out = with_partition_time(df, root=root, headers="h", partitions=2)
    assert out.schema.simpleString() == df.schema.simpleString()
    rows = sorted(out.collect(), key=lambda row: row.offset)
    assert [row["a.b"] for row in rows] == [str(number) for number in range(9)]
    headers = [Headers([(h.key, bytes(h.value)) for h in row.h]) for row in rows]
    assert [found.value("n") for found in headers] == [b"%d" % number for number in range(9)]
    times = [partition_time(found) for found in headers]
    assert times == [(100 - number % 3,) * 2 for number in range(9)]


def test_what_has_no_partition_or_time_is_told(spark: SparkSession, root: Path) -> None:
    df = spark.sql("select 0 partition, 1L timestamp, 'x' text, 2 offset")

    def refuse(message: str, df: DataFrame, **other: Any) -> None:
        with pytest.raises(SpecError, match=message):
            with_partition_time(df, root=root, **other)
        assert not root.exists()

    refuse("no column 'partition'; its columns are: timestamp, text, offset", df.drop("partition"))
    refuse("no column 'at'", df, timestamp="at")
    refuse("'text' is string, not timestamp or bigint", df, timestamp="text")
    refuse("'text' is string, not array", df, headers="text")
    refuse("two columns named 'text'", df.selectExpr("*", "text"))
    refuse("has a column 'removed by keep', but", df.withColumnRenamed("text", "removed by keep"))
    with pytest.raises(SpecError, match="the key-value store 'kv', because such a store has no"):
        map_state(
            df,
            print,
            stores.key_value("kv", key=serdes.UTF8),
            root=root,
            schema="a int",
            key="text",
            partition_time="h",
        )


def test_a_row_without_a_time_is_told() -> None:
    table = pa.table({"partition": [0], "timestamp": pa.nulls(1, pa.int64())})
    work = PartitionTimes("timestamp", "headers", False, False, "gone", SCHEMA)
    with pytest.raises(SpecError, match="1 rows have a null in the column 'timestamp'"):
        work(Store(), table)


def test_a_replayed_epoch_moves_no_time_twice(root: Path) -> None:
    def put(key: str, rows: Any, store: Any) -> Any:
        return [(key, store.put(key, 1, timestamp=row.amount)) for row in rows]

    task = make_task(root, put, spec=VERSIONS, partition_time="headers", names=("key", "amount"))
    headers = stamped(pa.nulls(1, headers_type()), np.array([9]), np.array([20]))
    rows = pa.table({"key": ["k"], "amount": [3], "headers": headers})
    first = task.apply(0, epoch(0), rows)
    assert first.equals(task.apply(0, epoch(0), rows))
    late = pa.table({"key": ["k"], "amount": [14], "headers": pa.nulls(1, headers_type())})
    assert task.apply(0, epoch(1), late).column(1).to_pylist() == [NOT_PUT]
